"""Counts behind a column that went through randomised response: unbiased, with an interval.

Of N records t hold the value; each kept it with probability q, and each of the others came to it
with probability p. The observed count is Y ~ Bin(t, q) + Bin(N − t, p), so that
t̂ = (Y − Np) / (q − p) is unbiased: row v of the inverse of the mechanism's matrix
(q − p) I + p 11ᵀ, applied to the observed counts.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from tallyveil.arrays import FloatArray, IntArray

__all__ = ["debiased"]


def debiased(
    observed: IntArray, rows: int, kept: float, change: float, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(t̂, low, high) of each observed count, of ``rows`` records; kept = q, change = p.

    The interval is the score interval with continuity correction: all t in [0, N] with

        |Y − tq − (N−t)p| − ½ ≤ z √(t q(1−q) + (N−t) p(1−p)),  z = Φ⁻¹((1 + confidence)/2),

    by the normal law of Y at each t; its ends are rounded outwards. t̂ is not clipped.

    Raises ValueError unless 0 ≤ p < q ≤ 1 and 0 < confidence < 1.
    """
    if not 0 <= change < kept <= 1 or not 0 < confidence < 1:
        raise ValueError("a law keeps more than it changes, and a confidence is below 1")
    gap, base = kept - change, rows * change
    z2 = float(ndtri((1 - confidence) / 2)) ** 2
    counts = observed.astype(np.float64)
    v0, v1 = base * (1 - change), kept * (1 - kept) - change * (1 - change)

    def end(a: FloatArray, side: int) -> FloatArray:
        """The t with (a − t·gap)² = z² (v0 + t·v1) on that side of a/gap; 0 or N if none exists."""
        middle = (2 * a * gap + z2 * v1) / (2 * gap**2)
        square = z2 * (4 * gap * a * v1 + z2 * v1**2 + 4 * gap**2 * v0)
        root = middle + side * np.sqrt(np.maximum(square, 0.0)) / (2 * gap**2)
        nowhere = rows if side < 0 else 0
        return np.clip(np.where(square < 0, nowhere, root), 0, rows)

    # Y ∓ ½ − Np; a count that is likely under every t from 0 to N has no end on that side.
    below, above = counts - 0.5 - base, counts + 0.5 - base
    low = np.where(below <= 0, 0, end(below, -1))
    high = np.where(above >= rows * gap, rows, end(above, 1))
    return (counts - base) / gap, np.floor(low), np.ceil(high)
