"""How likely the sums of noises are that add up in a tree, on a circle of whole numbers.

Arrays are of all s on the circle, 0 first, or their transforms, of θ ≥ 0 (`conditional`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.inference.conditional.circle import back, others, transformed
from tallyveil.inference.laws.laws import NoiseLaw

__all__ = ["Levels", "TreeSums", "steps"]

_NOTHING: Final = 1e-18


def steps(size: int) -> FloatArray:
    """All s of a circle."""
    return np.fft.fftfreq(size, 1 / size).astype(np.float64)


class Levels(NamedTuple):
    """By count the counts right ``inside`` it that have others inside, and the number of its own
    ``leaves``; ``laws`` are those of the counts' noise. If ``exact`` the root, 0, is 0."""

    inside: dict[int, list[int]]
    leaves: dict[int, int]
    laws: Sequence[NoiseLaw | None]
    exact: bool


class TreeSums:
    """Of leaves with noise of one ``law``, on a circle of this ``size``: by count the transform of
    its sum, as what is inside it alone has it, in ``sums``."""

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
                # The product of hundreds of these chances would be less than any float.
                masses = np.exp(own.log_mass(line))
                self._own[v] = masses / float(back(found, size) @ masses)

    @property
    def nbytes(self) -> int:
        """Once all is worked out."""
        return 8 * self._size * (3 * len(self.sums) + 4)

    def own_of(self, v: int) -> FloatArray | None:
        """How likely a count's own noise is s, over how likely that is such a sum; None without."""
        return self._own.get(v)

    def _noisy(self, v: int) -> FloatArray:
        own, sums = self._own.get(v), self.sums[v]
        return sums if own is None else transformed(back(sums, self._size) * own)

    @cached_property
    def _outside(self) -> dict[int, FloatArray]:
        """By count how likely all else makes its sum, by s."""
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
        """P(S = s), s = 0, 1, …, of so many leaves right inside a count, or of all inside it."""
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
