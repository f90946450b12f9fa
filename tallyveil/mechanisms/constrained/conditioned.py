"""Noise on a tree of counts, conditioned on their adding up: drawn exactly (belief revision).

    P(u) = p(u) / K,   p(u) = ∏_leaves f(u_i) ∏_nodes g_v(Σ_{i in v} u_i),

with f and g the laws of the leaves' and the nodes' own noise, g 1 where a node has none and a point
mass at 0 where it is exact. It is the law of independent noise on all counts, given that the noise
of each is the sum of those inside it (INVARIANTS §5.1): whole numbers, symmetric about 0, and
independent of the counts. x + u satisfies the constraints, and moving a record from cell to cell
multiplies P by at most e^{Σ 1/b} over the counts that this moves and that are not exact; for
Gaussian noise ρ is Σ 1/2σ² over them. So it costs what the independent noises cost together; exact
counts cost nothing, for tables that agree on them.

It is drawn by rejection. A proposal q₁ goes down the tables (`sum_tables`), with the probabilities
of each step as multiples of 2⁻⁶¹, rounded up, so that p(u) ≤ e^{K̂ + M} q₁(u) wherever q₁ > 0: the
sum telescopes, and M = `Tables.error` bounds the errors of the floats. A fallback q₂, chosen in
2⁻⁵⁸ of all cases, proposes what the tables leave out: independent noise, tilted (`law_weights`) on
the leaves of a set B, where B is any of the sets whose sums are bounded. An outcome of q₁ is
accepted with probability p / (e^{K̂ + M} q₁), about 1 − 10⁻⁷, and one of q₂ beyond the tables
likewise; so accepted outcomes have exactly the law P, without any cut-off.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import NoiseLaw
from tallyveil.inference.conditional.tree import Node, Tree
from tallyveil.mechanisms.constrained.group_draw import Groups
from tallyveil.mechanisms.constrained.law_weights import Tilt, happens, weights_of
from tallyveil.mechanisms.constrained.sum_tables import MOST, Tables, TailBounds, too_many_sums
from tallyveil.mechanisms.noise.exact_draws import random_words
from tallyveil.mechanisms.units import decimal

__all__ = ["Atom", "Conditioned"]

_BITS: Final = 61
_ALL: Final = 1 << _BITS
_DRAWN: Final = 10_000  # in about 0.2 s
_GUARD: Final = 1 << 10  # of 2^61, covers the rounding of sums of doubles
_ROOM: Final = 1 << 13
_NEAR: Final = 1e-8  # exceeds the error of a difference of logarithms
_FALLBACKS: Final = 1 << 6  # of 2^64
_LIKELY: Final = 20.0  # first guess of an upper bound of ln Σ ∏ f − ln Σ p


class Conditioned:
    """The noise of a tree's leaves. Building it is slow, drawing is fast. Threads may share it.

    Raises FeatureNotSupported for laws that cannot be conditioned, ValueError if the leaves of an
    atom have different laws, and StatementTooComplex if the tables would be too large.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        groups, others = list[Node](), list[Node]()
        for root in deadline.stoppable(tree.atoms, 50):
            (groups if Groups.has(root) else others).append(root)
        if sum(len(root.leaves) for root in others) > _DRAWN:
            raise StatementTooComplex(
                f"more than {_DRAWN:,} counts add up at several levels, or have Gaussian noise: "
                "they are drawn one by one, which cannot be cancelled once it is charged",
                hint="Ask for fewer counts at a time, or SET dp.mechanism = imaged.",
            )
        self._groups = Groups(groups)
        self._kinds: dict[int, Atom] = {}
        shapes = dict[tuple[object, ...], int]()
        self._atoms = [(self._atom(root, _shape(root, shapes)), root) for root in others]

    def _atom(self, root: Node, shape: int) -> Atom:
        """Return the atom for ``root``. Atoms of one shape are shared: their laws are equal."""
        atom = self._kinds.get(shape)
        if atom is None:
            deadline.check()
            atom = self._kinds[shape] = Atom(root)
            if self.numbers > MOST:
                raise too_many_sums()
        return atom

    @property
    def numbers(self) -> int:
        """How many numbers the tables hold."""
        return sum(atom.tables.numbers for atom in self._kinds.values())

    @property
    def rows(self) -> int:
        """How many counts the tree has."""
        return len(self._tree.parents)

    def draw(self) -> list[int]:
        """Draw the noise of each leaf, in the tree's order."""
        found = dict.fromkeys(self._tree.leaves, 0)
        found.update(zip(self._groups.leaves, self._groups.draw(), strict=True))
        for atom, root in self._atoms:
            deadline.check()
            found.update(zip(root.leaves, atom.draw(), strict=True))
        return list(found.values())


def _shape(node: Node, shapes: dict[tuple[object, ...], int]) -> int:
    """Return a number that equals another node's iff their subtrees have equal laws in order."""
    own = (node.law, *(_shape(child, shapes) for child in node.children))
    return shapes.setdefault(own, len(shapes))


@dataclass(frozen=True)
class _Set:
    """Leaves, by index, whose sum the tables bound by a ``tilt``. If the root is exact, ``last`` is
    the index of a leaf outside that all other leaves determine, else −1."""

    tilt: Tilt
    leaves: tuple[int, ...]
    outside: tuple[int, ...]
    last: int


class Atom:
    """The noise of the leaves of one root.

    ``bounds`` default to those that suit the tables; ``scale`` is K̂ + M. The fallback proposes in
    ``fallbacks`` of 2⁶⁴ cases.
    """

    def __init__(self, root: Node, bounds: TailBounds | None = None, fallbacks: int = _FALLBACKS):
        self.root, self._fallbacks = root, fallbacks
        self._places = {leaf: place for place, leaf in enumerate(root.leaves)}
        nodes = [root]
        for node in nodes:
            nodes.extend(node.children)
        self._noisy = [node for node in nodes if node.children and node.law and not node.exact]
        law = next(node.law for node in nodes if not node.children)
        if law is None:
            raise ValueError("every leaf has a law")
        self._weights = weights_of(law)
        # Each count is a set, and so is each half; the fallback has two signs for each.
        self.tables = self._build_tables(law, bounds, 4 * len(nodes))
        self.bounds = self.tables.bounds
        widest = max(len(table.weights) for table in self.tables.of.values())
        self.scale = self.tables.log_total + self.tables.error
        self._guard = _GUARD * np.arange(1, widest + 1, dtype=np.int64)

    def _build_tables(self, law: NoiseLaw, bounds: TailBounds | None, sets: int) -> Tables:
        """Build tables such that p(u) ≤ 2⁻⁵⁸ e^K̂ q₂(u) for all u beyond them."""
        if bounds is not None:
            return Tables(self.root, law, bounds)
        free = len(self._places) * float(self._weights.log_total())
        excess = _LIKELY
        while True:
            tables = Tables(self.root, law, TailBounds(self._weights, math.log(sets) + excess))
            if free - tables.log_total <= excess:
                return tables
            excess = free - tables.log_total + 1

    @cached_property
    def _sets(self) -> list[_Set]:
        found = [self._set(leaf, [place]) for leaf, place in self._places.items()]
        for number, halves in self.tables.halves.items():
            inside = [self._places[leaf] for half in halves for leaf in half.leaves]
            if not (self.root.exact and len(inside) == len(self._places)):
                found.append(self._set(number, inside))
        return found

    def _set(self, number: int, leaves: Sequence[int]) -> _Set:
        outside = sorted(set(self._places.values()).difference(leaves))
        last = outside.pop() if self.root.exact else -1
        return _Set(self.tables.tilts[number], tuple(leaves), tuple(outside), last)

    def draw(self) -> list[int]:
        """Draw the noise of each leaf of the root, in their order."""
        while True:
            beyond = secrets.randbits(64) < self._fallbacks
            values = self._propose_beyond() if beyond else self._propose_inside()
            if values is not None:
                return values

    def _propose_inside(self) -> list[int] | None:
        """Propose from the tables; None if the proposal is rejected."""
        values = [0] * len(self._places)
        words = random_words(len(self.tables.of) + 2)
        draws, counts = iter((words >> np.uint64(64 - _BITS)).astype(np.int64)), list[int]()
        root = self.tables.of[self.root.number]
        start = 0
        if not self.root.exact:
            place, count = self._step(root.weights, next(draws))
            counts.append(count)
            start = place - root.bound
        todo = [(self.root, start)]
        while todo:
            node, left = todo.pop()
            if not node.children:
                values[self._places[node.number]] = left
                continue
            first, *others = self.tables.halves[node.number]
            for other in others:
                mine, count = self._split(first.number, other.number, left, next(draws))
                counts.append(count)
                todo.append((other, left - mine))
                left = mine
            todo.append((first, left))
        return values if self._accepted(values, counts, int(words[-1])) else None

    def _split(self, one: int, other: int, total: int, draw: np.int64) -> tuple[int, int]:
        """Return what node ``one`` gets of ``total``, and the number of draws for it (`_step`)."""
        mine, rest = self.tables.of[one], self.tables.of[other]
        low, high = max(-mine.bound, total - rest.bound), min(mine.bound, total + rest.bound)
        left = rest.weights[rest.bound + total - high : rest.bound + total - low + 1][::-1]
        weights = mine.weights[mine.bound + low : mine.bound + high + 1] * left
        place, count = self._step(weights, draw)
        return low + place, count

    def _step(self, weights: FloatArray, draw: np.int64) -> tuple[int, int]:
        """Return the outcome of ``draw``, and how many of the 2⁶¹ draws lead to it: at least its
        share of the weights, less than 5L · 2⁻⁵³ of it for L weights (`_GUARD` covers what a sum, a
        product and a conversion of doubles lose of 2⁶¹: 2⁸ + 2⁸ + 1)."""
        sums = weights.cumsum()
        ends = (sums * ((_ALL - _GUARD * len(sums) - _ROOM) / sums[-1])).astype(np.int64)
        ends += self._guard[: len(ends)]
        ends[-1] = _ALL
        place = int(ends.searchsorted(draw, side="right"))
        return place, int(ends[place] - ends[place - 1] if place else ends[0])

    def _accepted(self, values: Sequence[int], counts: Sequence[int], word: int) -> bool:
        """Accept with probability p / (e^{K̂ + M} q₁), where q₁ is the product of counts / 2⁶¹."""
        proposed = math.fsum(map(math.log, counts)) - len(counts) * _BITS * math.log(2)
        exact = self.exponent(values)
        chance = math.exp(min(0.0, -float(exact) - self.scale - proposed))
        drawn = word / 2**64
        if abs(drawn - chance) > _NEAR:
            return drawn < chance

        def refined() -> Decimal:
            own = (-decimal(exact) - Decimal(self.scale)).exp()
            return own * (1 << _BITS * len(counts)) / math.prod(counts)

        return happens(refined, word)

    def exponent(self, values: Sequence[int]) -> Fraction:
        """Return −ln p(u)."""
        found = self._weights.exponent(values)
        for node in self._noisy:
            total = sum(values[self._places[leaf]] for leaf in node.leaves)
            if node.law is not None:
                found += weights_of(node.law).exponent([total])
        return found

    def _propose_beyond(self) -> list[int] | None:
        """Propose from the fallback; None if it lies within the tables or is rejected."""
        one = self._sets[secrets.randbelow(len(self._sets))]
        sign = 1 - 2 * secrets.randbits(1)
        values = [0] * len(self._places)
        tilted = self._weights.draw_tilted(one.tilt, len(one.leaves))
        for place, value in zip(one.leaves, tilted, strict=True):
            values[place] = sign * value
        for place, value in zip(one.outside, self._weights.draw(len(one.outside)), strict=True):
            values[place] = value
        if one.last >= 0:
            values[one.last] = -sum(values)
        if self.within(values):
            return None

        def chance() -> Decimal:
            own = (-decimal(self.exponent(values)) - Decimal(self.scale)).exp()
            share = Decimal(2**64 - self._fallbacks) / self._fallbacks
            return own * share / self.proposed(values)

        return values if happens(chance, secrets.randbits(64)) else None

    def proposed(self, values: Sequence[int]) -> Decimal:
        """Return q₂(u), in the precision of the context."""
        total, each = Decimal(0), self._weights.log_total()
        for one in self._sets:
            own = [values[place] for place in one.leaves]
            others = self._weights.exponent([values[place] for place in one.outside])
            plain = -decimal(others) - len(one.outside) * each
            for signed in (own, [-value for value in own]):
                total += (plain + self._weights.log_chance(signed, one.tilt)).exp()
        return total / (2 * len(self._sets))

    def within(self, values: Sequence[int]) -> bool:
        """Whether the tables cover the outcome."""
        if max(map(abs, values)) > self.bounds.bound(1):
            return False
        sums: dict[int, int] = dict(zip(self.root.leaves, values, strict=True))
        for number, halves in self.tables.halves.items():
            sums[number] = sum(sums[half.number] for half in halves)
            if abs(sums[number]) > self.tables.of[number].bound:
                return False
        return True
