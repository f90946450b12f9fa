"""Probabilities of sums of integers on a circle, by their discrete Fourier transforms.

Arrays by s have s = 0 first, and then 1, 2, …, −2, −1. Transforms are at all θ = 2πj/M, or only at
those up to π where the masses are symmetric about 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.fft import next_fast_len

from tallyveil.arrays import FloatArray
from tallyveil.inference.laws.noise_law import NoiseLaw
from tallyveil.inference.laws.noises import Noises
from tallyveil.inference.laws.weighted_noise import WeightedNoise

__all__ = [
    "AT_ONCE",
    "Complex",
    "Jet",
    "back",
    "circle",
    "cosines",
    "jet_power",
    "log_of",
    "others",
    "product",
    "transformed",
    "variance_of",
    "with_noise",
]

AT_ONCE: Final = 1 << 19  # entries of one array
_BEYOND: Final = 1e-22  # the probability of a sum beyond the circle
_BLOCK: Final = 64
_LEAST: Final = 1e-15  # of φ: smaller values are rounding errors of 0


def circle(law: NoiseLaw, leaves: int) -> int:
    """The size M of a circle: sums of the leaves exceed half of it with probability `_BEYOND`."""
    every = WeightedNoise.of(np.ones(leaves), Noises.of(type(law), np.full(leaves, law.scale)))
    size: int = next_fast_len(2 * math.ceil(every.reach(_BEYOND)) + 3)
    return size


def transformed(masses: FloatArray) -> FloatArray:
    """The transform of masses that are symmetric about 0."""
    return np.real(np.fft.rfft(masses))


def back(transform: FloatArray, size: int) -> FloatArray:
    result: FloatArray = np.fft.irfft(transform, size)
    return result


def others(every: Sequence[FloatArray]) -> list[FloatArray | float]:
    """For each array the product of all others."""
    before: list[FloatArray | float] = [1.0]
    after: list[FloatArray | float] = [1.0]
    for first, last in zip(every, reversed(every), strict=True):
        before.append(before[-1] * first)
        after.append(after[-1] * last)
    return [a * b for a, b in zip(before[:-1], after[-2::-1], strict=True)]


Complex: TypeAlias = npt.NDArray[np.complex128]
Jet: TypeAlias = tuple[Complex, Complex, Complex]
"""A function of t, and its first two derivatives at 0."""


def product(one: Jet, other: Jet) -> Jet:
    return (
        one[0] * other[0],
        one[1] * other[0] + one[0] * other[1],
        one[2] * other[0] + 2 * one[1] * other[1] + one[0] * other[2],
    )


def with_noise(jet: Jet, own: FloatArray) -> Jet:
    """Multiply by the probability ``own`` that a count's own noise equals each sum."""
    value, first, second = (np.fft.fft(np.fft.ifft(one) * own) for one in jet)
    return value, first, second


def jet_power(jet: Jet, exponent: int) -> Jet:
    if not exponent:
        return np.ones_like(jet[0]), 0 * jet[0], 0 * jet[0]
    half = jet_power(jet, exponent // 2)
    square = product(half, half)
    return product(square, jet) if exponent % 2 else square


def variance_of(masses: FloatArray) -> float:
    return 2 * float(masses @ np.arange(len(masses)) ** 2.0)


def cosines(masses: FloatArray, angles: FloatArray) -> FloatArray:
    """P(0) + 2 Σ_s P(s) cos sτ, in blocks."""
    weights = np.zeros(-(-len(masses) // _BLOCK) * _BLOCK)
    weights[: len(masses)] = 2 * masses
    weights[0] /= 2
    table = weights.reshape(-1, _BLOCK).T
    found = [np.zeros(0)]
    for start in range(0, len(angles), AT_ONCE // _BLOCK):
        own = angles[start : start + AT_ONCE // _BLOCK, None]
        fine = np.exp(1j * own * np.arange(_BLOCK)) @ table
        found.append(
            np.real(fine * np.exp(1j * own * _BLOCK * np.arange(table.shape[1]))).sum(axis=1)
        )
    return np.concatenate(found)


def log_of(phi: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(phi > _LEAST, np.log(np.maximum(phi, _LEAST)), -np.inf)
