"""Tables of the weights of the sums of an atom's noise, from the leaves up.

A weight is a probability up to a constant factor:

    π_v = g_v · (π_1 ∗ … ∗ π_m) over the children of v,   π = f at a leaf,   f(0) = g(0) = 1.

The children of a count are split in two halves, and each half in two again; equal halves share a
table, so a hundred equal children need few tables. A table ends where the sum of a half, or one
leaf, exceeds a bound B; `TailBounds` chooses B such that what lies beyond is as unlikely as
`conditioned` needs, by the noise of the leaves or by that of the counts inside it. All sums are of
positive terms, so each number has a small relative error, however small it is, and `Tables.error`
bounds what all of them do to a draw. Tables are scaled by powers of two, which is exact, so that no
product of two weights overflows or is denormal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import NoiseLaw
from tallyveil.inference.conditional.tree import Node
from tallyveil.mechanisms.constrained.law_weights import LawWeights, Tilt, together, weights_of

__all__ = ["LOG_FALLBACK", "MOST", "SumTable", "Tables", "TailBounds", "too_many_sums"]

LOG_FALLBACK: Final = -58 * math.log(2)  # ln of the probability of proposing from the fallback
MOST: Final = 10_000_000  # numbers of all tables
_WORK: Final = 6_000_000_000  # multiplications: about 2 s
_PIECE: Final = 200_000_000
_ROUNDING: Final = 2.0**-53  # the unit of all errors
_INACCURATE: Final = 2.0**-10
_LARGEST: Final = 490  # all weights of a table are between 2^-500 and 2^490
_LEAST: Final = 2.0**-500
_Kind: TypeAlias = tuple[object, ...]
_Pair: TypeAlias = tuple[int, Node]
"""A node after the number of its kind."""


@dataclass(frozen=True)
class TailBounds:
    """Bounds B for sums S of leaves of one law: P(|S| > B) times e^{``excess``} is less than the
    probability of the fallback.

    A proposal with a tilt t of n leaves is too rare by at most e^{n · cost − t|S|} ∏ g(S_v), with
    the counts v inside that have noise of their own. Where these cover the leaves once, ``counts``
    is a law that is at least ∏ g(S_v) at S.
    """

    weights: LawWeights
    excess: float

    def tilt(self, leaves: int, counts: NoiseLaw | None = None) -> Tilt:
        return min(self.weights.tilts, key=lambda one: self._bound(one, leaves, counts))

    def bound(self, leaves: int, counts: NoiseLaw | None = None) -> int:
        return math.ceil(self._bound(self.tilt(leaves, counts), leaves, counts))

    def _bound(self, tilt: Tilt, leaves: int, counts: NoiseLaw | None) -> float:
        least = self.excess - LOG_FALLBACK + leaves * tilt.cost
        found = least / tilt.rate if counts is None else weights_of(counts).reach(least, tilt.rate)
        return found * (1 + 1e-9) + 1


@dataclass(frozen=True, eq=False)
class SumTable:
    """Weights of the values −B … B of the sum of ``size`` leaves: ``weights`` · 2^``power``."""

    weights: FloatArray
    size: int
    power: int = 0

    @cached_property
    def bound(self) -> int:
        return len(self.weights) // 2


class _Plan(NamedTuple):
    """A table to build: of a leaf, or of the sum of one or two tables ``inside``, by their numbers,
    the second no longer than the first.

    ``law`` is that of the sum's own noise. ``plain``: no sum inside has noise of its own.
    ``by_leaf``: the second table is added leaf by leaf. ``counts``: the law of counts inside that
    cover all leaves (`TailBounds`). ``error`` bounds the relative error of each weight, in units of
    2⁻⁵³.
    """

    size: int
    bound: int
    law: NoiseLaw | None
    error: float
    inside: tuple[int, ...] = ()
    plain: bool = True
    by_leaf: bool = False
    counts: NoiseLaw | None = None

    @property
    def length(self) -> int:
        return 2 * self.bound + 1


class Tables:
    """The tables of an atom whose leaves have noise of one ``law``.

    ``of[number]`` is a node's table, and ``halves[number]`` are the one or two nodes that it is the
    sum of. Halves that are not counts themselves have negative numbers. ``tilts[number]`` is what
    the bound of a node's table rests on.

    ``log_total`` is K̂, about ln K for the sum K of all weights within the tables. Let a proposal go
    down the tables, by `conditioned`'s steps. Then K̂ + ``error`` is at least ln p(u) / q₁(u) for
    all u within them: a step among L values of two tables of errors e and e′ loses a factor of at
    most 1 + (2e + 2e′ + 5L + 40) 2⁻⁵³ (docs/mathematics.md, "Conditioned noise").

    Raises ValueError if the leaves have several laws, and StatementTooComplex if the tables would
    be too large; both before any table is built.
    """

    def __init__(self, root: Node, law: NoiseLaw, bounds: TailBounds) -> None:
        self.bounds = bounds
        self._law, self._left, self._work = law, MOST, _WORK
        self._kinds: dict[_Kind, int] = {}
        self._plans: list[_Plan] = []
        self._numbers = dict[int, int]()
        self.halves: dict[int, tuple[Node, ...]] = {}
        self._joins = itertools.count(1)
        kind = self._add(root)
        made = list[SumTable]()
        for plan in self._plans:
            made.append(self._build(plan, made))
        self.of = {node: made[number] for node, number in self._numbers.items()}
        table = made[kind]
        weights = table.weights
        tilts = [bounds.tilt(plan.size, plan.counts) for plan in self._plans]
        self.tilts = {node: tilts[number] for node, number in self._numbers.items()}
        whole = float(weights[len(weights) // 2] if root.exact else weights.sum())
        self.log_total = math.log(whole) + table.power * math.log(2)
        self.error = self._error(root, self._plans[kind])

    def _error(self, root: Node, whole: _Plan) -> float:
        """The errors of all steps, of K̂, and of its logarithm."""
        plans = {node: self._plans[number] for node, number in self._numbers.items()}
        total = whole.error + whole.length + 4 * abs(self.log_total) + 40
        if not root.exact:
            total += _step_error(whole)
        for halves in self.halves.values():
            if len(halves) > 1:
                total += _step_error(*(plans[half.number] for half in halves))
        found = total * _ROUNDING
        if not found < _INACCURATE:
            raise too_many_sums()
        return found * (1 + 2 * _INACCURATE)  # products of errors

    @property
    def numbers(self) -> int:
        """How many numbers the tables hold."""
        return MOST - self._left

    def _add(self, node: Node) -> int:
        """Return the number of the node's kind, and plan its table."""
        pairs = sorted(((self._add(child), child) for child in node.children), key=itemgetter(0))
        return self._join(node, None if node.exact else node.law, pairs)

    def _join(self, node: Node, law: NoiseLaw | None, pairs: Sequence[_Pair]) -> int:
        if len(pairs) > 2:
            half = len(pairs) // 2
            pairs = [self._half(pairs[:half]), self._half(pairs[half:])]
        inside = tuple(number for number, _ in pairs)
        number = self._kinds.setdefault((law, *inside), len(self._plans))
        if number == len(self._plans):
            self._plans.append(self._sum(law, inside) if inside else self._leaf(law))
        self._numbers[node.number] = number
        if pairs:
            self.halves[node.number] = tuple(child for _, child in pairs)
        return number

    def _half(self, pairs: Sequence[_Pair]) -> _Pair:
        if len(pairs) == 1:
            return pairs[0]
        node = Node(-next(self._joins), None, tuple(child for _, child in pairs))
        return self._join(node, None, pairs), node

    def _leaf(self, law: NoiseLaw | None) -> _Plan:
        if law != self._law:
            raise ValueError("the leaves of an atom have noise of one law")
        bound = self.bounds.bound(1)
        plan = _Plan(1, bound, law, weights_of(self._law).error(bound))
        self._take(plan.length, 0)
        return plan

    def _sum(self, law: NoiseLaw | None, inside: Sequence[int]) -> _Plan:
        """Plan the sum of one or two tables.

        The shorter one is added leaf by leaf if that is less work. The weights then include all
        combinations of the two tables' values, as drawing requires, and a few more.
        """
        inside = tuple(sorted(inside, key=lambda number: self._plans[number].bound)[::-1])
        one, *others = (self._plans[number] for number in inside)
        plain = law is None and all(self._plans[number].plain for number in inside)
        plan = _Plan(one.size, one.bound, law, one.error, inside, plain, counts=one.counts)
        for other in others:
            leaf, size = self.bounds.bound(1), one.size + other.size
            counts, law_of_leaf = together(one.counts, other.counts), weights_of(self._law)
            bound = min(one.bound + other.bound, self.bounds.bound(size, counts))
            steps = bound + leaf * (other.size + 1) // 2
            by_leaf, work = other.size * law_of_leaf.work(steps, leaf), one.length * other.length
            plan = plan._replace(
                size=size,
                bound=bound,
                by_leaf=other.plain and (other.size == 1 or by_leaf < work),
                counts=counts,
            )
            self._take(plan.length, by_leaf if plan.by_leaf else work)
            if plan.by_leaf:
                error = other.size * law_of_leaf.convolution_error(leaf)
            else:
                error = other.error + other.length + work / _PIECE + 3
            plan = plan._replace(error=one.error + error)
        if law is not None:
            bound = self.bounds.bound(plan.size, law)
            if bound < plan.bound or plan.counts is None:
                plan = plan._replace(bound=min(bound, plan.bound), counts=law)
            plan = plan._replace(error=plan.error + weights_of(law).error(plan.bound) + 1)
        return plan

    def _build(self, plan: _Plan, made: Sequence[SumTable]) -> SumTable:
        """Build the table of ``plan``; ``made`` are the tables before it."""
        if not plan.inside:
            weights, power = _scaled(weights_of(self._law).at(_steps(plan.bound)))
            return SumTable(weights, 1, power)
        one, *others = (made[number] for number in plan.inside)
        weights, power = one.weights, one.power
        for other in others:
            if plan.by_leaf:
                weights, more = self._add_leaves(weights, other.size, plan.bound)
            else:
                weights, more = _scaled(_truncated(_convolve(weights, other.weights), plan.bound))
                more += other.power
            power += more
        weights = _truncated(weights, plan.bound)
        if plan.law is not None:
            weights, more = _scaled(weights * weights_of(plan.law).at(_steps(plan.bound)))
            power += more
        if not weights.min() >= _LEAST:
            raise too_many_sums()
        return SumTable(weights, plan.size, power)

    def _add_leaves(self, weights: FloatArray, leaves: int, bound: int) -> tuple[FloatArray, int]:
        """Add ``leaves`` leaves to a sum. Return the scaled weights and the power of two."""
        law, leaf, power = weights_of(self._law), self.bounds.bound(1), 0
        for left in reversed(range(leaves)):
            deadline.check()
            weights, more = _scaled(_truncated(law.convolved(weights, leaf), bound + left * leaf))
            power += more
        return weights, power

    def _take(self, numbers: int, work: int) -> None:
        self._left -= numbers
        self._work -= work
        if min(self._left, self._work) < 0:
            raise too_many_sums()


def _step_error(*tables: _Plan) -> float:
    """The error of one choice among the values of one or two tables, in units of 2⁻⁵³."""
    return 2 * sum(one.error for one in tables) + 5 * min(one.length for one in tables) + 40


def too_many_sums() -> StatementTooComplex:
    return StatementTooComplex(
        "noise under constraints has too many possible sums for its tables",
        hint="Ask for fewer counts at a time, or for less noise.",
    )


def _scaled(weights: FloatArray) -> tuple[FloatArray, int]:
    """Divide the weights by 2^power such that the largest is about 2^490; return them and power."""
    power = math.frexp(float(weights.max()))[1] - _LARGEST
    return np.ldexp(weights, -power), power


def _truncated(weights: FloatArray, bound: int) -> FloatArray:
    """Return the weights of −bound … bound."""
    middle = len(weights) // 2
    return weights if bound >= middle else weights[middle - bound : middle + bound + 1]


def _convolve(one: FloatArray, other: FloatArray) -> FloatArray:
    """Convolve piece by piece, so that a cancelled statement stops soon."""
    found = np.zeros(len(one) + len(other) - 1)
    step = max(1, _PIECE // len(one))
    for start in range(0, len(other), step):
        deadline.check()
        piece = other[start : start + step]
        found[start : start + len(one) + len(piece) - 1] += np.convolve(one, piece)
    return found


def _steps(bound: int) -> FloatArray:
    return np.arange(-bound, bound + 1, dtype=np.float64)
