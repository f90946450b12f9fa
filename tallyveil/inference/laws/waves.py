"""Sines and sums of waves at many evenly spaced angles, by products of a few of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import FloatArray, IntArray

__all__ = ["Waves", "sines"]

_FEW = 48  # points up to which each is computed by itself
_DIRECT = 512  # weights up to which the sum is computed directly
_EVEN = 2e-15  # of the last point: the rounding error of the others


def sines(factors: FloatArray, points: FloatArray) -> FloatArray:
    """sin(f t) for each factor f > 0 (rows) and ascending point t ≥ 0, within 1e-14 (1 + f t)."""
    number = len(points)
    first, last = (float(points[0]), float(points[-1])) if number else (0.0, 0.0)
    step = (last - first) / max(1, number - 1)
    even = first + step * np.arange(number)
    if number < _FEW or np.abs(points - even).max() > _EVEN * last:
        found: FloatArray = np.sin(factors[:, None] * points)
        return found
    width = _width(number)
    fine = factors[:, None] * (step * np.arange(width))
    coarse = factors[:, None] * (first + step * width * np.arange(-(-number // width)))
    # sin(α + β) = sin α cos β + cos α sin β
    sides = np.stack([np.sin(coarse), np.cos(coarse)], axis=2)
    table: FloatArray = sides @ np.stack([np.cos(fine), np.sin(fine)], axis=1)
    return table.reshape(len(factors), -1)[:, :number]


class Waves:
    """The sums Σ_j w_j e^{ija} of rows of weights w_j at any angle a: directly if few are not
    zero; otherwise, with w_{dp+q} in a table of width d, as Σ_p e^{idpa} Σ_q w_{dp+q} e^{iqa}."""

    def __init__(self, weights: FloatArray) -> None:
        self._numbers = np.flatnonzero(weights.any(axis=0))
        self._few = len(self._numbers) <= _DIRECT
        self._weights = weights[:, self._numbers] if self._few else _as_table(weights)

    def at(self, angle: float) -> npt.NDArray[np.complex128]:
        if self._few:
            return _turned(self._weights, angle, self._numbers)
        _, height, width = self._weights.shape
        inner = _turned(self._weights, angle, np.arange(width))
        coarse = width * angle * np.arange(height)
        result: npt.NDArray[np.complex128] = inner @ (np.cos(coarse) + 1j * np.sin(coarse))
        return result


def _turned(weights: FloatArray, angle: float, numbers: IntArray) -> npt.NDArray[np.complex128]:
    """Σ_j w_j e^{ija} over the last axis, with j = ``numbers``."""
    sums = weights @ np.array([np.cos(angle * numbers), np.sin(angle * numbers)]).T
    result: npt.NDArray[np.complex128] = sums[..., 0] + 1j * sums[..., 1]
    return result


def _as_table(weights: FloatArray) -> FloatArray:
    number = weights.shape[1]
    width = _width(number)
    table = np.zeros((len(weights), -(-number // width) * width))
    table[:, :number] = weights
    return table.reshape(len(weights), -1, width)


def _width(number: int) -> int:
    """The width of an about square table for this number of entries."""
    return 1 << (number.bit_length() + 1) // 2
