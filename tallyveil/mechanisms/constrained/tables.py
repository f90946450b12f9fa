"""The sums of an atom's noise, from the leaves up: how likely each is, up to a constant.

    π_v = g_v · (π_1 ∗ … ∗ π_m) over the children of v,   π = f at a leaf,   f(0) = g(0) = 1.

A table ends where the sums of some children, or one leaf, lie beyond a bound B; `Bounds` chooses it
such that what lies beyond is as unlikely as `conditioned` needs. All sums are of positive terms, so
that each number has a small relative error, however small it is. Tables are kept near 1 by powers
of two, which change no digit: of 250 leaves the weights would be larger than any float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from tallyveil.errors import StatementTooComplex
from tallyveil.inference import NoiseLaw
from tallyveil.inference.noise import FloatArray
from tallyveil.inference.tree import Node
from tallyveil.mechanisms.constrained.weights import Tilt, Weights, weights_of

__all__ = ["LOG_FALLBACK", "MOST", "Bounds", "Table", "Tables", "too_many_sums"]

LOG_FALLBACK: Final = -58 * math.log(2)  # ln of how often what lies beyond the tables is proposed
MOST: Final = 10_000_000  # numbers of all tables
_Kind: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class Bounds:
    """For sums of leaves of one law: P(|S| > B) times e^{``excess``} is less than the chance of the
    fallback."""

    weights: Weights
    excess: float

    def tilt(self, leaves: int) -> Tilt:
        return min(self.weights.tilts, key=lambda one: self._bound(one, leaves))

    def bound(self, leaves: int) -> int:
        return math.ceil(self._bound(self.tilt(leaves), leaves))

    def _bound(self, tilt: Tilt, leaves: int) -> float:
        return (self.excess - LOG_FALLBACK + leaves * tilt.cost) / tilt.rate * (1 + 1e-9) + 1


@dataclass(frozen=True, eq=False)
class Table:
    """``weights`` of −B … B, times 2^``power`` for all; ``prefixes[j]`` those of the sums of the
    first j of the ``children``, each up to a constant, none of a leaf."""

    weights: FloatArray
    size: int
    children: Sequence[Table] = ()
    prefixes: Sequence[FloatArray] = ()
    power: int = 0

    @cached_property
    def bound(self) -> int:
        return len(self.weights) // 2


class Tables:
    """Of an atom, whose leaves have noise of one ``law``: ``of[number]`` is a node's table, and
    ``order[number]`` are its children in the order that the table has them.

    Raises ValueError for leaves of several laws, and StatementTooComplex for too large tables.
    """

    def __init__(self, root: Node, law: NoiseLaw, bounds: Bounds) -> None:
        self.bounds = bounds
        self._law, self._left = law, MOST
        self._kinds: dict[_Kind, int] = {}
        self._tables: list[Table] = []
        self.of: dict[int, Table] = {}
        self.order: dict[int, tuple[Node, ...]] = {}
        kind = self._add(root)
        table = self._tables[kind]
        weights = table.weights
        # ln of the sum of all weights, as far as the tables go.
        whole = float(weights[len(weights) // 2] if root.exact else weights.sum())
        self.log_total = math.log(whole) + table.power * math.log(2)

    @property
    def numbers(self) -> int:
        """How many there are in the tables."""
        return MOST - self._left

    def _add(self, node: Node) -> int:
        """The number of the node's kind: those of one kind share a table."""
        pairs = sorted(((self._add(child), child) for child in node.children), key=_first)
        law = None if node.exact else node.law
        kind = (law, *(number for number, _ in pairs))
        number = self._kinds.setdefault(kind, len(self._tables))
        if number == len(self._tables):
            inside = [self._tables[own] for own, _ in pairs]
            self._tables.append(self._inner(law, inside) if inside else self._leaf(law))
        self.of[node.number] = self._tables[number]
        self.order[node.number] = tuple(child for _, child in pairs)
        return number

    def _leaf(self, law: NoiseLaw | None) -> Table:
        if law != self._law:
            raise ValueError("the leaves of an atom have noise of one law")
        bound = self.bounds.bound(1)
        return Table(self._take(weights_of(self._law).at(_steps(bound))), 1)

    def _inner(self, law: NoiseLaw | None, inside: Sequence[Table]) -> Table:
        prefixes, size, power = [np.ones(1)], 0, 0
        for table in inside:
            size, power = size + table.size, power + table.power
            last = prefixes[-1]
            if not table.children:
                longer = weights_of(self._law).convolved(last, table.bound)
            else:
                longer = np.convolve(last, table.weights)
            middle = len(longer) // 2
            bound = min(middle, self.bounds.bound(size))
            kept = self._take(longer[middle - bound : middle + bound + 1])
            more = math.frexp(float(kept.max()))[1]
            prefixes.append(np.ldexp(kept, -more))
            power += more
        weights = prefixes[-1]
        if law is not None:
            weights = weights * weights_of(law).at(_steps(len(weights) // 2))
        return Table(weights, size, tuple(inside), tuple(prefixes), power)

    def _take(self, table: FloatArray) -> FloatArray:
        self._left -= len(table)
        if self._left < 0:
            raise too_many_sums()
        return table


def too_many_sums() -> StatementTooComplex:
    return StatementTooComplex(
        "the sums that noise under constraints can have are too many to be tabled",
        hint="Ask for fewer counts at a time, or for less noise.",
    )


def _first(pair: tuple[int, Node]) -> int:
    return pair[0]


def _steps(bound: int) -> FloatArray:
    return np.arange(-bound, bound + 1, dtype=np.float64)
