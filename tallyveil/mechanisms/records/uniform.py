"""Whole numbers drawn uniformly below given bounds, without rounding."""

from __future__ import annotations

from typing import Final

import numpy as np

from tallyveil.mechanisms.noise.inversion import Words, random_words

__all__ = ["LARGEST_BOUND", "uniform_below"]

LARGEST_BOUND: Final = 2**64 - 1


def uniform_below(bounds: Words) -> Words:
    """For each bound M, 1 ≤ M < 2⁶⁴, an independent draw from 0 … M − 1.

    64 bits of the system's random source at a time, taken again until they lie below the largest
    multiple of M that fits. How often depends on the bounds and on chance.
    """
    accepted = np.uint64(LARGEST_BOUND) // bounds * bounds
    found = np.zeros(len(bounds), dtype=np.uint64)
    open_ = np.arange(len(bounds))
    while len(open_):
        words = random_words(len(open_))
        fits = words < accepted[open_]
        found[open_[fits]] = words[fits] % bounds[open_[fits]]
        open_ = open_[~fits]
    return found
