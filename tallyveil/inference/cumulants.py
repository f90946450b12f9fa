"""The even cumulants of (discrete) Laplace and Gaussian noise, up to the twentieth.

ln E e^{zX} = Σ_r c_r z^{2r} with c_r = κ_{2r}/(2r)! ≥ 0, and so ln φ(t) = Σ_r (−1)^r c_r t^{2r}.

    Laplace            c_r = b^{2r} / r
    discrete Laplace   c_r = (2/(2r)!) Σ_n a^n n^{2r−1}
                           = (2/(2r)!) Σ_k E(2r−1, k) a^{k+1} / (1−a)^{2r}, a = e^{−1/b},
                       with the Eulerian numbers E
    Gaussian           c_1 = σ²/2, the others 0
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["cumulant_sums"]

_ORDER: Final = 10


def _eulerian(n: int) -> list[int]:
    """E(n, 0), …, E(n, n−1), by E(n, k) = (k+1) E(n−1, k) + (n−k) E(n−1, k−1)."""
    row = [1]
    for size in range(2, n + 1):
        row = [
            (k + 1) * (row[k] if k < size - 1 else 0) + (size - k) * (row[k - 1] if k else 0)
            for k in range(size)
        ]
    return row


# For each r the factors of a^1, a^2, … in c_r (1−a)^{2r}, all at most 1.
_FACTORS: Final = [
    np.array([2 * e / math.factorial(2 * r) for e in _eulerian(2 * r - 1)])
    for r in range(1, _ORDER + 1)
]


def cumulant_sums(
    coefficients: npt.NDArray[np.float64],
    scales: npt.NDArray[np.float64],
    discrete: npt.NDArray[np.bool_],
    gaussian: npt.NDArray[np.bool_],
) -> tuple[float, npt.NDArray[np.float64]]:
    """A unit u, and (−1)^r Σ_{k≥i} c_r(A_k N_k) u^{−2r} for every i (rows) and r = 0 … 10.

    Neither discrete nor Gaussian is Laplace. The sums run from the last term to the first.
    """
    widths = coefficients * scales
    a = np.exp(-1 / scales[discrete])
    widths[discrete] = coefficients[discrete] / -np.expm1(-1 / scales[discrete])
    unit = float(widths.max())
    squares = (widths / unit) ** 2
    terms = np.zeros((len(widths), _ORDER + 1))
    powers = np.ones(len(widths))
    for r in range(1, _ORDER + 1):
        powers = powers * squares
        terms[:, r] = powers / r
        if len(a):
            numerators = a * np.polynomial.polynomial.polyval(a, _FACTORS[r - 1])
            terms[discrete, r] = powers[discrete] * numerators
        terms[gaussian, r] = powers[gaussian] / 2 if r == 1 else 0.0
    signs = (-1.0) ** np.arange(_ORDER + 1)
    return unit, signs * np.cumsum(terms[::-1], axis=0)[::-1]
