"""The even cumulants of discrete Laplace and Gaussian noise, up to the twentieth.

ln E e^{zX} = Σ_r c_r z^{2r} with c_r = κ_{2r}/(2r)! ≥ 0, and so ln φ(t) = Σ_r (−1)^r c_r t^{2r}.

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

__all__ = ["cumulant_terms"]

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


def _factors() -> npt.NDArray[np.float64]:
    """For each r (rows) the factors of a^1, a^2, … in c_r (1−a)^{2r}, all at most 1."""
    result = np.zeros((_ORDER, 2 * _ORDER - 1))
    for r in range(1, _ORDER + 1):
        for k, count in enumerate(_eulerian(2 * r - 1)):
            result[r - 1, k] = 2 * count / math.factorial(2 * r)
    return result


_FACTORS: Final = _factors()


def cumulant_terms(
    coefficients: npt.NDArray[np.float64],
    scales: npt.NDArray[np.float64],
    laplace: npt.NDArray[np.bool_],
) -> tuple[float, npt.NDArray[np.float64]]:
    """A unit u, and c_r(A_k N_k) u^{−2r} for r = 1 … 10 (rows) and every k (columns).

    What is not discrete Laplace is Gaussian.
    """
    widths = coefficients * scales
    a = np.exp(-1 / scales[laplace])
    widths[laplace] = coefficients[laplace] / -np.expm1(-1 / scales[laplace])
    unit = float(widths.max())
    terms: npt.NDArray[np.float64] = _powers((widths / unit) ** 2, _ORDER)
    terms[1:, ~laplace] = 0.0
    terms[0, ~laplace] /= 2
    if len(a):
        terms[:, laplace] *= _FACTORS @ _powers(a, _FACTORS.shape[1])
    return unit, terms


def _powers(x: npt.NDArray[np.float64], highest: int) -> npt.NDArray[np.float64]:
    """x, x², … as rows."""
    return np.multiply.accumulate(np.broadcast_to(x, (highest, len(x))), axis=0)
