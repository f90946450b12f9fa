"""The exponential mechanism against its formula in floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.audit.matrices import columns_of, tightest_alpha
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix.exponential import exponential


@given(st.data(), st.integers(1, 6), st.fractions(Fraction(1, 30), Fraction(99, 100)))
def test_it_is_the_formula_and_private(data: st.DataObject, n: int, alpha: Fraction) -> None:
    values = st.lists(st.integers(-4, 4), min_size=n + 1, max_size=n + 1)
    table = data.draw(st.lists(values, min_size=n + 1, max_size=n + 1))
    q = np.array(table)
    s = np.abs(np.diff(q, axis=0)).max()
    if s == 0:
        with pytest.raises(InvalidParameterValue, match="depend on the truth"):
            exponential(n, alpha, lambda i, j: table[j][i])
        return
    matrix = exponential(n, alpha, lambda i, j: table[j][i])
    terms = np.exp(-math.log(alpha) * q / (2 * s))
    expected = (terms / terms.sum(axis=1, keepdims=True)).T
    assert matrix.probabilities() == pytest.approx(expected, rel=1e-4)
    assert tightest_alpha(columns_of(matrix), any_two=False) >= alpha


@pytest.mark.parametrize("alpha", ["1e-6", "0.5", "0.999999999999"])
def test_extreme_levels_pass_the_proof(alpha: str) -> None:
    for n in (1, 30):
        matrix = exponential(n, alpha, lambda i, j: -abs(i - j))
        assert matrix.weights[n][::-1] == matrix.weights[0]


def test_halves_and_floats_are_qualities_too() -> None:
    halves = exponential(3, "0.5", lambda i, j: -abs(i - j) / 2)
    assert halves == exponential(3, "0.5", lambda i, j: Fraction(-abs(i - j), 2))
    assert halves == exponential(3, "0.5", lambda i, j: -abs(i - j))


def test_useless_qualities_are_refused() -> None:
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidParameterValue, match="not finite"):
            exponential(2, "0.5", lambda i, j, v=value: v if i == j else 0)
    with pytest.raises(InvalidParameterValue, match="bits"):
        exponential(2, "0.5", lambda i, j: 10**6 * i + (i == j))
    for alpha in (math.nan, 0, 1):
        with pytest.raises(InvalidParameterValue, match="alpha"):
            exponential(2, alpha, lambda i, j: -abs(i - j))
