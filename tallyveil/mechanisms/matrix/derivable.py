"""Whether a mechanism is the geometric one, followed by something that does not see the truth."""

from __future__ import annotations

from tallyveil.mechanisms.matrix.count_matrix import CountMatrix

__all__ = ["derivable_from_geometric"]


def derivable_from_geometric(matrix: CountMatrix) -> bool:
    """The test of Gupte and Sundararajan (COUNT §IV-D), exactly, at the matrix's own α.

    P = D · GM for some column-stochastic D iff, in every row, three adjacent entries satisfy
    (P[i|j] − α P[i|j−1]) ≥ α (P[i|j+1] − α P[i|j]); the ends of a row add only that P is α-DP.
    """
    p, q = matrix.alpha.numerator, matrix.alpha.denominator
    columns = matrix.weights
    return all(
        (q * q + p * p) * here >= p * q * (before + after)
        for j in range(1, matrix.n)
        for before, here, after in zip(*columns[j - 1 : j + 2], strict=True)
    )
