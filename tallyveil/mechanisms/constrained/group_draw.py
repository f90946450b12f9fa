"""Discrete Laplace noise of groups whose totals are exact, drawn exactly, for all groups at once.

For each group T is drawn (`group_total`), and then how T divides among the geometric numbers of the
cells: T stars and n − 1 bars in a row, where each order is equally likely. Each position in a row
gets a random word, and the n − 1 positions with the smallest words are the bars.

T is looked up in a table of floats. If the random word is closer to a step of the table than the
table's error, T is computed from as many digits as are needed instead.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import Cache
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.inference.conditional.tree import Node
from tallyveil.mechanisms.constrained.group_total import LEAST_SCALE, MOST, total
from tallyveil.mechanisms.noise.exact_draws import random_words

__all__ = ["Groups"]

_LEFT_OUT: Final = 1e-12  # the probability that the table of T leaves out


@dataclass(frozen=True, eq=False)
class _Table:
    """For ``cells`` noises, P(T ≤ ``first`` + i) is ``sums[i]``, up to ``error``."""

    cells: int
    scale: float
    first: int
    sums: FloatArray
    error: float

    def draw(self, count: int) -> IntArray:
        words = random_words(count)
        drawn = words * 2.0**-64
        places = self.sums.searchsorted(drawn, side="right")
        edges = np.concatenate([[0.0], self.sums, [1.0]])
        off = np.minimum(drawn - edges[places], edges[places + 1] - drawn)
        found = self.first + places
        for place in np.flatnonzero(off <= self.error).tolist():
            begun = itertools.chain([int(words[place])], iter(partial(secrets.randbits, 64), None))
            found[place] = total(begun, self.cells, self.scale)
        return found


_KEPT: Final[Cache[_Table]] = Cache(1024, 1 << 27, lambda _, table: 200 + table.sums.nbytes)


def _table(cells: int, scale: float) -> _Table:
    return _KEPT.get((cells, scale), lambda: _build_table(cells, scale))


def _build_table(cells: int, scale: float) -> _Table:
    """Build the table for n ≥ 2 noises.

    ln P(t + 1)/P(t) = 2 ln (n + t)/(t + 1) − 2/b falls with t, so a geometric series bounds what is
    left out at an end.
    """
    mode = max(0, math.floor((cells * math.exp(-1 / scale) - 1) / -math.expm1(-1 / scale)))
    bend = 2 / (mode + 1) - 2 / (mode + cells)
    reach = math.ceil(8 / math.sqrt(bend) + 8 * scale) + 8
    while True:
        first, last = max(0, mode - reach), mode + reach
        t = np.arange(first, last + 1, dtype=np.float64)
        rises = 2 * np.log((cells + t) / (t + 1))
        ratios = rises - 2 / scale
        logs = np.concatenate([[0.0], np.cumsum(ratios[:-1])])
        weights = np.exp(logs - logs[mode - first])
        whole = float(weights.sum())
        after = float(weights[-1]) / -math.expm1(float(ratios[-1]))
        before = float(weights[0]) / -math.expm1(-float(ratios[0])) if first else 0.0
        if after + before <= _LEFT_OUT * whole:
            break
        reach *= 2
    # What the steps of the logarithms, their sums and the sums of the weights are off by. `log` and
    # `exp` are within 4 units in the last place.
    each = 8 + 5 * float(rises[0]) + 2 / scale + float(np.abs(logs).max())
    error = len(t) * each * 2.0**-52 + 2 * _LEFT_OUT
    return _Table(cells, scale, first, np.cumsum(weights) / whole, error)


class Groups:
    """The noise of the leaves of ``roots``. Each root is exact, its children are leaves, and they
    share one Laplace law (`Groups.has`).

    Raises StatementTooComplex if there are too many leaves for the width of the noise.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        laws = [law for root in roots if (law := root.children[0].law) is not None]
        self.leaves = [leaf for root in roots for leaf in root.leaves]
        self._cells = np.array([len(root.children) for root in roots], dtype=np.int64)
        if sum(n * (law.scale + 1) for n, law in zip(self._cells, laws, strict=True)) > MOST:
            raise StatementTooComplex(
                "noise under constraints has too many possible sums to draw from",
                hint="Ask for fewer counts at a time, or for less noise.",
            )
        alike: dict[tuple[int, float], list[int]] = {}
        for place, (cells, law) in enumerate(zip(self._cells.tolist(), laws, strict=True)):
            if cells > 1:
                alike.setdefault((cells, law.scale), []).append(place)
        self._alike = [
            (_table(*kind), np.array(alike[kind])) for kind in deadline.stoppable(alike, 1)
        ]

    @staticmethod
    def has(root: Node) -> bool:
        """Whether this class can draw the noise of the atom below ``root``."""
        laws = {child.law for child in root.children}
        law = next(iter(laws), None)
        return (
            root.exact
            and len(laws) == 1
            and isinstance(law, DiscreteLaplaceLaw)
            and law.scale >= LEAST_SCALE
            and not any(child.children for child in root.children)
        )

    def draw(self) -> list[int]:
        """Draw the noise of each leaf, in the order of ``leaves``."""
        totals = np.zeros(len(self._cells), dtype=np.int64)
        for table, places in self._alike:
            totals[places] = table.draw(len(places))
        found: list[int] = (self._divide(totals) - self._divide(totals)).tolist()
        return found

    def _divide(self, totals: IntArray) -> IntArray:
        """Divide each group's total among its cells, all divisions equally likely.

        The last position of a group is a bar too: each cell gets the stars before its bar.
        """
        lengths = totals + self._cells
        ends = np.cumsum(lengths)
        groups = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
        bits = len(lengths).bit_length()
        starts, bars = ends - lengths, self._cells - 1
        some = np.flatnonzero(bars > 0)
        while True:
            words = random_words(len(groups)) >> np.uint64(bits)
            words[ends - 1] = (1 << 64 - bits) - 1
            words |= groups << np.uint64(64 - bits)
            order = words.argsort()
            edge = (starts + bars)[some]
            if (words[order[edge - 1]] != words[order[edge]]).all():
                break
        chosen = np.ones(len(groups), dtype=np.bool_)
        rank = np.arange(len(groups)) - np.repeat(starts, lengths)
        chosen[order] = rank < np.repeat(bars, lengths)
        chosen[ends - 1] = True
        found: IntArray = np.diff(np.flatnonzero(chosen), prepend=-1) - 1
        return found
