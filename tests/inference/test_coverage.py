"""Intervals cover the truth as often as they say, and estimates are unbiased, over histories.

A history is random rows, scales and laws, and a draw of all its noises. Each check misses a
correct implementation with a probability below 10⁻⁶: 5.2 deviations of the normal law, for sums
of at least 20,000 draws.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tallyveil.inference import Estimate, Estimator, Law, Noises

CONFIDENCES = [0.5, 0.8, 0.95, 0.99]
DEVIATIONS = 5.2


def sampled(law: int, scale: float, size: int, rng: np.random.Generator) -> np.ndarray:
    if law == Law.LAPLACE:
        return rng.laplace(0, scale, size)
    if law == Law.DISCRETE_LAPLACE:
        p = -math.expm1(-1 / scale)
        return (rng.geometric(p, size) - rng.geometric(p, size)).astype(float)
    if law == Law.GAUSSIAN:
        return rng.normal(0, scale, size)
    steps = np.arange(-math.ceil(12 * scale), math.ceil(12 * scale) + 1)
    weights = np.exp(-0.5 * (steps / scale) ** 2)
    return rng.choice(steps, size, p=weights / weights.sum()).astype(float)


def history(rng: np.random.Generator, draws: int) -> tuple[Estimate, np.ndarray]:
    """An estimate from a random history, and its error in each of so many draws of the noise."""
    cells, rows = int(rng.integers(2, 7)), int(rng.integers(3, 12))
    h = rng.integers(-1, 3, (rows, cells))
    scales = 10.0 ** rng.uniform(0.3, 2, rows)
    # Also all of one kind, where the law of the error is one of points.
    laws = rng.integers(0, 4, rows) if rng.random() < 0.5 else np.full(rows, rng.integers(0, 4))
    known = rng.integers(-1, 2, cells)
    x = rng.integers(0, 1000, cells)
    estimator = Estimator(cells)
    estimator.know(known, int(known @ x))
    estimator.observe(h, h @ x, Noises(laws.astype(np.int8), scales))
    query = h[rng.integers(rows)] - h[rng.integers(rows)] + h[rng.integers(rows)]
    found = estimator.estimate(query)
    assert found is not None
    noise = np.array([sampled(k, b, draws, rng) for k, b in zip(laws, scales, strict=True)])
    assert found.value == pytest.approx(query @ x, abs=1e-6)
    return found, found.coefficients[1:] @ noise


def check(histories: int, draws: int) -> None:
    rng = np.random.default_rng()
    covered = dict.fromkeys(CONFIDENCES, 0)
    errors, number = [], 0
    for _ in range(histories):
        found, error = history(rng, draws)
        if found.variance < 1e-12:  # the query is known exactly
            assert np.abs(error).max() < 1e-5
            continue
        number += draws
        errors.append(error / math.sqrt(found.variance))
        for confidence in CONFIDENCES:
            h = found.error.half_width(confidence)
            covered[confidence] += int((np.abs(error) <= h * (1 + 1e-12)).sum())
    assert number >= 20_000
    for confidence, hits in covered.items():
        deviation = math.sqrt(confidence * (1 - confidence) / number)
        assert hits / number >= confidence - DEVIATIONS * deviation
        # Errors on a coarse lattice are covered more often than asked.
        assert hits / number <= confidence + DEVIATIONS * deviation + 0.15 * (1 - confidence)
    pooled = np.concatenate(errors)
    assert abs(pooled.mean()) <= DEVIATIONS / math.sqrt(number)
    # With scales from 2, the fourth moment of each law is below 7 times the variance squared.
    assert abs((pooled**2).mean() - 1) <= DEVIATIONS * math.sqrt(6 / number)


def test_twenty_thousand_draws_and_more() -> None:
    check(histories=60, draws=1000)


@pytest.mark.slow
def test_four_thousand_histories() -> None:
    check(histories=4000, draws=50)
