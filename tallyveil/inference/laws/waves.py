"""Sines, and sums of them, at many evenly spaced angles: by few of them and products."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import FloatArray

__all__ = ["as_table", "sines", "wave_sums"]

_FEW = 48  # points, of which each is worked out by itself
_EVEN = 2e-15  # of the last point, by which others are off as they are rounded


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


def as_table(weights: FloatArray) -> FloatArray:
    """Each row of weights w_j, with w_{dp+q} at p, q of a table that is about square."""
    number = weights.shape[1]
    width = _width(number)
    table = np.zeros((len(weights), -(-number // width) * width))
    table[:, :number] = weights
    return table.reshape(len(weights), -1, width)


def wave_sums(tables: FloatArray, angle: float) -> npt.NDArray[np.complex128]:
    """Σ_j w_j e^{ija} for each table, d wide: Σ_p e^{idpa} Σ_q w_{dp+q} e^{iqa}; a is the angle."""
    _, height, width = tables.shape
    fine, coarse = angle * np.arange(width), width * angle * np.arange(height)
    inner = tables @ np.array([np.cos(fine), np.sin(fine)]).T
    turns = np.cos(coarse) + 1j * np.sin(coarse)
    result: npt.NDArray[np.complex128] = (inner[:, :, 0] + 1j * inner[:, :, 1]) @ turns
    return result


def _width(number: int) -> int:
    """Of a table for so many entries that is about square."""
    return 1 << (number.bit_length() + 1) // 2
