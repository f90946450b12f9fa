"""Runs of integers, each as a multiple of a primitive one."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from tallyveil import deadline
from tallyveil.arrays import IntArray

__all__ = ["primitive_runs"]

_PORTION: Final = 1 << 18  # entries between two checks of the deadline


def _divisors(magnitude: npt.NDArray[np.uint64], starts: IntArray) -> npt.NDArray[np.uint64]:
    """The greatest common divisor of each run; a single run stops as soon as it is 1."""
    if len(starts) != 1:
        return np.gcd.reduceat(magnitude, starts)
    divisor = 0
    for start in range(0, len(magnitude), _PORTION):
        deadline.check()
        divisor = math.gcd(divisor, int(np.gcd.reduce(magnitude[start : start + _PORTION])))
        if divisor == 1:
            break
    return np.array([divisor], dtype=np.uint64)


def primitive_runs(coefficients: IntArray, starts: IntArray) -> tuple[IntArray, IntArray]:
    """For each run of entries the greatest common divisor, with the sign of its first entry, and
    the entries divided by it.

    Magnitudes are unsigned, so that -2^63 has one. A run that would have a quotient of 2^63 keeps
    its signs. Its negative cannot be written in such integers, so its name is still unique.
    """
    if (coefficients == 1).all():
        return np.ones(len(starts), dtype=np.int64), coefficients
    magnitude = np.abs(coefficients).view(np.uint64)
    divisor = _divisors(magnitude, starts)
    deadline.check()
    if (divisor == 1).all() and (coefficients[starts] > 0).all():
        return divisor.view(np.int64), coefficients
    deadline.check()
    run = np.zeros(1 if len(starts) == 1 else len(coefficients), dtype=np.int64)
    if len(starts) > 1:
        run[starts[1:]] = 1
        run = np.cumsum(run)
    negative = coefficients[starts] < 0
    most_negative = magnitude == 1 << 63
    if most_negative.any():
        negative &= (divisor > 1) | ~np.logical_or.reduceat(most_negative, starts)
    content = np.where(negative, -divisor.view(np.int64), divisor.view(np.int64))
    quotient = (magnitude // divisor[run]).view(np.int64)
    deadline.check()
    return content, np.where((coefficients < 0) ^ negative[run], -quotient, quotient)
