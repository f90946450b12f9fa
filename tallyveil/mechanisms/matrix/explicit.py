"""Mechanisms with a closed form, built from a rational α without rounding."""

from __future__ import annotations

from fractions import Fraction

from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.privacy_level import checked_alpha, checked_range

__all__ = ["explicit_fair", "geometric", "randomised_response", "uniform"]


def geometric(n: int, alpha: Fraction | float | str) -> CountMatrix:
    """Return GM: the truth plus discrete Laplace noise, clamped to [0, n] (COUNT Def. 4, Fig. 3).

    Pr[X = k] = (1−α)/(1+α) · α^|k| (the printed law of Def. 4 is garbled), so inner outputs have
    P[i|j] = (1−α)/(1+α) · α^|i−j|, and 0 and n have α^|i−j| / (1+α).

    It is α-DP for truths that differ by one, and of all such mechanisms it maximises the
    probability of the truth, averaged over a uniform prior (Thm 3).

    Raises InvalidParameterValue unless 1 ≤ n ≤ `MAX_RANGE` and 0 < α < 1.
    """
    p, q = _level(n, alpha)
    # The probabilities times (p + q) qⁿ⁻¹.
    inner = [(q - p) * p**k * q ** (n - 1 - k) for k in range(n)]
    end = [p**k * q ** (n - k) for k in range(n + 1)]
    by_difference = [*inner[:0:-1], *inner]  # i − j from 1 − n to n − 1
    columns = [[end[j], *by_difference[n - j : 2 * n - 1 - j], end[n - j]] for j in range(n + 1)]
    return CountMatrix("GM", Fraction(p, q), columns)


def explicit_fair(n: int, alpha: Fraction | float | str) -> CountMatrix:
    """Return EM, the explicit fair mechanism: P[i|j] = y α^{e(i,j)} (COUNT eq. 16), where

    e(i,j) = |i−j| if |i−j| < m, else ⌈(|i−j| + m)/2⌉, and m = min(j, n−j).

    Every column has the same exponents in another order, so y = 1 / Σ_i α^{e(i,j)} for any j.
    That is (1−α)/(1+α−2α^{n/2+1}) for even n (eq. 15); for odd n the printed formula is wrong.

    It is α-DP for truths that differ by one and has all seven properties. Of all fair mechanisms it
    maximises the probability of the truth (Thm 4), for any prior (Lemma 1).

    Raises InvalidParameterValue unless 1 ≤ n ≤ `MAX_RANGE` and 0 < α < 1.
    """
    p, q = _level(n, alpha)
    largest = (n + 1) // 2
    powers = [p**e * q ** (largest - e) for e in range(largest + 1)]
    columns = [[powers[_exponent(i, j, n)] for i in range(n + 1)] for j in range(n + 1)]
    return CountMatrix("EM", Fraction(p, q), columns)


def _exponent(i: int, j: int, n: int) -> int:
    distance, m = abs(i - j), min(j, n - j)
    return distance if distance < m else (distance + m + 1) // 2


def uniform(n: int, alpha: Fraction | float | str) -> CountMatrix:
    """Return UM: any output with probability 1/(n+1) (COUNT Def. 5). It reveals nothing, so it is
    α-DP.

    Raises InvalidParameterValue unless 1 ≤ n ≤ `MAX_RANGE` and 0 < α < 1.
    """
    checked_range(n)
    return CountMatrix("UM", alpha, [[1] * (n + 1)] * (n + 1))


def randomised_response(n: int, alpha: Fraction | float | str) -> CountMatrix:
    """Return RR over the n+1 values: the truth with probability 1/(1+nα), any other with α/(1+nα).

    It is α-DP for **any** two truths, not only for those that differ by one: it hides the value
    itself, and is therefore of little use for counts (COUNT §II-B). For n = 1 it is the only
    optimal mechanism, and GM and EM equal it.

    Raises InvalidParameterValue unless 1 ≤ n ≤ `MAX_RANGE` and 0 < α < 1.
    """
    p, q = _level(n, alpha)
    columns = [[q if i == j else p for i in range(n + 1)] for j in range(n + 1)]
    return CountMatrix("RR", Fraction(p, q), columns)


def _level(n: int, alpha: Fraction | float | str) -> tuple[int, int]:
    """Return p and q of α = p/q, after checking both n and α."""
    checked_range(n)
    return checked_alpha(alpha).as_integer_ratio()
