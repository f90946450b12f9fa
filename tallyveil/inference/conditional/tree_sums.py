"""Probabilities of sums of noises that add up in a tree, on a circle of integers.

Arrays are over all s on the circle, 0 first, or transforms at θ ≥ 0 (`conditional`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property
from tallyveil.inference.conditional.circle import back, others, transformed
from tallyveil.inference.laws.noise_law import NoiseLaw

__all__ = ["Levels", "TreeSums", "steps"]

_NOTHING: Final = 1e-18


def steps(size: int) -> FloatArray:
    """All s of a circle, 0 first."""
    return np.fft.fftfreq(size, 1 / size).astype(np.float64)


class Levels(NamedTuple):
    """For each inner count the inner counts directly ``inside`` it and the number of ``leaves``
    directly inside it; ``laws`` are those of the counts' own noise. If ``exact``, the noise of
    count 0, the root, is 0."""

    inside: dict[int, list[int]]
    leaves: dict[int, int]
    laws: Sequence[NoiseLaw | None]
    exact: bool


class TreeSums:
    """Sums of leaves with noise of one ``law``, on a circle of this ``size``. ``sums`` has for each
    inner count the transform of its sum, given only the noise inside it."""

    def __init__(self, law: NoiseLaw, levels: Levels, size: int) -> None:
        self._levels, self._size = levels, size
        line = steps(size)
        self._leaf = transformed(np.exp(law.log_mass(line)))
        self.sums: dict[int, FloatArray] = {}
        self._own: dict[int, FloatArray] = {}
        self._masses: dict[tuple[int, int], FloatArray] = {}
        for v in reversed(levels.inside):
            deadline.check()
            found = self._leaf ** levels.leaves[v]
            for child in levels.inside[v]:
                found = found * self._noisy(child)
            self.sums[v] = found
            own = levels.laws[v]
            if own is not None and own.scale:
                # Normalised, since a product of hundreds of these would underflow.
                masses = np.exp(own.log_mass(line))
                self._own[v] = masses / float(back(found, size) @ masses)

    @property
    def nbytes(self) -> int:
        """The bytes once everything is computed."""
        return 8 * self._size * (3 * len(self.sums) + 4)

    def own_of(self, v: int) -> FloatArray | None:
        """P(its own noise is s) for a count, over the probability that it equals the count's sum;
        None if it has no noise of its own."""
        return self._own.get(v)

    def _noisy(self, v: int) -> FloatArray:
        own, sums = self._own.get(v), self.sums[v]
        return sums if own is None else transformed(back(sums, self._size) * own)

    @cached_property
    def _outside(self) -> dict[int, FloatArray]:
        """For each count the likelihood of its sum s by the noise outside it."""
        root = np.zeros(self._size)
        root[0] = 1
        own = self._own.get(0)
        found = {0: root if self._levels.exact else np.ones(self._size) if own is None else own}
        for v, inside in self._levels.inside.items():
            deadline.check()
            rest = transformed(found[v]) * self._leaf ** self._levels.leaves[v]
            sums = [self._noisy(child) for child in inside]
            for child, besides in zip(inside, others(sums), strict=True):
                outside = back(rest * besides, self._size)
                own = self._own.get(child)
                found[child] = outside / outside[0] * (1.0 if own is None else own)
        return found

    def masses(self, v: int, leaves: int) -> FloatArray:
        """P(S = s), s = 0, 1, …, for the sum S of this number of leaves directly inside count v, or
        for 0 of all leaves inside it."""
        found = self._masses.get((v, leaves))
        if found is None:
            found = self._masses[v, leaves] = self._massed(v, leaves)
        return found

    def _massed(self, v: int, leaves: int) -> FloatArray:
        size = self._size
        if leaves:
            rest = self._leaf ** (self._levels.leaves[v] - leaves)
            for child in self._levels.inside[v]:
                rest = rest * self._noisy(child)
            here = back(self._leaf**leaves, size) * back(transformed(self._outside[v]) * rest, size)
        else:
            here = back(self.sums[v], size) * self._outside[v]
        here = np.maximum(here / float(here.sum()), 0.0)[: (size + 1) // 2]
        last = int(np.flatnonzero(here > _NOTHING)[-1])
        result: FloatArray = here[: last + 1]
        return result
