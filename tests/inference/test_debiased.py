"""Counts behind randomised response: unbiased, and covered as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from tallyveil.inference import debiased
from tests.pairs import alternately


def test_it_is_the_inverse_of_the_mechanisms_matrix() -> None:
    observed, kept, change = np.array([50, 20, 10, 5]), 0.4, 0.2
    matrix = (kept - change) * np.eye(4) + change
    estimate, low, high = debiased(observed, 85, kept, change, 0.95)
    assert estimate == pytest.approx(np.linalg.solve(matrix, observed))
    assert (low >= 0).all()
    assert (high <= 85).all()


@pytest.mark.parametrize(
    ("rows", "cells", "epsilon", "confidence"),
    alternately([20, 150, 700], [2, 10, 100], [0.2, 1.0, 4.0], [0.8, 0.95, 0.99]),
)
def test_the_interval_covers(rows: int, cells: int, epsilon: float, confidence: float) -> None:
    """Its exact coverage, for every count there can be: the law of Y is two binomials' sum.

    Where the normal law is poorest (few records, p near 0) it stays within 0.02 of what it says.
    """
    change = 1 / (cells - 1 + math.exp(epsilon))
    kept = 1 - (cells - 1) * change
    outcomes = np.arange(rows + 1)
    estimate, low, high = debiased(outcomes, rows, kept, change, confidence)
    for true in range(0, rows + 1, max(1, rows // 40)):
        own = binom.pmf(np.arange(true + 1), true, kept)
        law = np.convolve(own, binom.pmf(np.arange(rows - true + 1), rows - true, change))
        assert law @ estimate == pytest.approx(true, abs=1e-6 * rows)
        assert law[(low <= true) & (true <= high)].sum() > confidence - 0.02


@pytest.mark.parametrize("law", [(0.2, 0.2), (0.1, 0.4), (math.nan, 0.1), (1.5, 0.1), (0.5, -0.1)])
def test_a_law_that_tells_nothing(law: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="keeps more"):
        debiased(np.array([1]), 2, *law, 0.95)
    with pytest.raises(ValueError, match="confidence"):
        debiased(np.array([1]), 2, 0.6, 0.1, math.nan)
