"""BAYES Algorithm 2: the law of an error by convolving the laws of its terms, on the integers.

It stands beside `ErrorLaw` to be compared with it. The noise is Laplace. Each term's law is cut
into unit bins around the integers before it is convolved, so beside the mass it loses, at most γ,
the result has the errors of that rounding, which the paper does not count: a term wider than a bin
gains the variance of its bins, about 1/12, and one far narrower is rounded to 0 and lost.
"""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
from scipy.signal import fftconvolve

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.noise import FloatArray

__all__ = ["mass_within", "probability_calculation"]

_DIRECT = 256  # shorter vectors are convolved term by term


def probability_calculation(
    coefficients: FloatArray, scales: FloatArray, lost: float = 0.01
) -> FloatArray:
    """u, of odd length: u[c + i] is about P(i − ½ < Σ A_k N_k ≤ i + ½), c the middle.

    Term k is kept on |v|_k = 2⌈|A_k| b_k ln(m/γ)⌉ + 1 bins, γ = ``lost`` (BAYES Algorithm 2 and
    the example after it, which has the 2 that the printed algorithm drops); the shortest vectors
    are convolved first.

    Raises InvalidParameterValue unless 0 < lost < 1.
    """
    if not 0 < lost < 1:
        raise InvalidParameterValue(f"a lost mass lies between 0 and 1, not {lost}")
    sizes = np.abs(coefficients) * scales
    sizes = sizes[sizes > 0]
    order = itertools.count()
    heap = [(len(v), next(order), v) for v in (_binned(s, len(sizes), lost) for s in sizes)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (short, _, u), (_, _, v) = heapq.heappop(heap), heapq.heappop(heap)
        w = np.convolve(u, v) if short < _DIRECT else np.maximum(0.0, fftconvolve(u, v))
        heapq.heappush(heap, (len(w), next(order), w))
    return heap[0][2] if heap else np.ones(1)


def mass_within(mass: FloatArray, half_width: int) -> float:
    """The mass within ± half_width of the middle (BAYES Algorithm 3 accumulates it)."""
    middle = len(mass) // 2
    return float(mass[max(0, middle - half_width) : middle + half_width + 1].sum())


def _binned(size: float, terms: int, lost: float) -> FloatArray:
    """P(i − ½ < L ≤ i + ½) of Laplace noise of this scale, |i| ≤ ⌈size ln(m/γ)⌉."""
    reach = math.ceil(size * math.log(terms / lost))
    edges = np.arange(1, 2 * reach + 2, 2) / 2
    tails = 0.5 * np.exp(-edges / size)  # P(L > i + ½), i = 0 … reach
    right = tails[:-1] - tails[1:]
    return np.concatenate([right[::-1], [1 - 2 * tails[0]], right])
