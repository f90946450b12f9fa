"""Noise that adds up as the rows of a purchase do: `dp.mechanism = conditioned`, or knorm.

The bought rows and the invariants form a tree. The noise is independent noise, conditioned on
adding up in this tree and drawn exactly. It costs what the independent noise costs, and spreads
less. The answers are integers that satisfy the invariants as they are drawn.

On disjoint groups, Laplace noise conditioned on some of their sums being 0 has weights e^{−‖u‖₁/b}
there: the k-norm mechanism, whose body is the hull of the moves of a record between groups that
leave these sums unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Charge, Drawn, Joint
from tallyveil.cache import Cache
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.purchase import Purchase
from tallyveil.gate.settings import Target
from tallyveil.inference import ErrorLaw
from tallyveil.inference.conditional.conditional import ConditionalLaw
from tallyveil.invariants import Hierarchy, Span, hierarchy, tied
from tallyveil.mechanisms import CONDITIONED, Adjacency, Measure, sensitivity
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tallyveil.mechanisms.flowchart import KNORM
from tallyveil.rewriter import Workload
from tallyveil.workload.workload import Column

__all__ = ["Conditioning", "Spread"]

_ROW: Final = 500  # bytes that a drawn row takes in the cache
_WIDEST: Final = 64.0  # times the independent noise that has the half-width, at most
_NEAR: Final = 1.005  # the ratio of two factors at which the search for the best ends
_HINT: Final = "SET dp.mechanism = imaged, or auto: both agree with the invariants too."


class Spread(NamedTuple):
    """How joint noise spreads: by column its least and greatest deviation and that of independent
    noise, in the column's units. ``invariants``: the SQL of those that take part."""

    invariants: list[str]
    deviations: Mapping[int, tuple[float, float, float]]


@dataclass(frozen=True, eq=False)
class _Draw:
    joint: Joint
    drawn: Drawn
    noise: Conditioned

    @property
    def weight(self) -> int:
        return 8 * self.noise.numbers + _ROW * len(self.drawn.owners)


class _Limit(NamedTuple):
    """The greatest half-width that joint noise may have."""

    law: ConditionalLaw
    place: int
    most: float

    def half_width(self, factor: float, confidence: Fraction) -> float:
        """The half-width of noise that is ``factor`` times as wide."""
        deadline.check()
        noises = self.law.scaled(factor).single(self.place)
        return ErrorLaw(np.ones(1), noises).half_width(confidence)


class Conditioning:
    """For one table; ``sources`` has the SQL of each declared row. Threads may share it.

    ``refused`` says why its rows cannot have such noise, if the policy forbids it.
    """

    def __init__(
        self, span: Span, sources: Sequence[str], measure: Measure, refused: str | None = None
    ) -> None:
        self._span, self._sources, self._refused = span, sources, refused
        self.noise: Final = "laplace" if measure == "epsilon" else "gaussian"
        self._tied: WeakKeyDictionary[Workload, bool] = WeakKeyDictionary()
        self._trees: WeakKeyDictionary[Workload, Hierarchy | str] = WeakKeyDictionary()
        self._draws: Cache[_Draw] = Cache(1024, 1 << 28, lambda _, draw: draw.weight)

    def check(self, workload: Workload, target: Target, asked: str) -> Hierarchy:
        """Return how the rows add up that mechanism ``asked`` buys.

        Raises FeatureNotSupported if they are no hierarchy, or if only independent noise has the
        (ε, δ) that the target asks for.
        """
        reason = self._refused or (self._no_norm(workload) if asked == KNORM else None)
        tree = reason or self._tree(workload)
        if isinstance(tree, str):
            raise FeatureNotSupported(
                f'{asked} cannot answer this about table "{workload.table}": {tree}', hint=_HINT
            )
        in_delta = target.epsilon is not None and self.noise == "gaussian"
        if tree.ties and in_delta and target.calibration != "zcdp":
            # Its τ² is for noise on all integers: those that add up lie further apart.
            raise FeatureNotSupported(
                f"{asked} noise has an epsilon and a delta by way of rho only, but"
                f" dp.calibration = {target.calibration} is for independent noise",
                hint="SET dp.calibration = zcdp.",
            )
        return tree

    def check_apart(self, workload: Workload, asked: str) -> None:
        """Raises FeatureNotSupported unless no sum of the rows, which answers of mechanism
        ``asked`` would miss, is exact."""
        found = self._tied.get(workload)
        if found is None:
            found = self._tied[workload] = tied(workload.columns, self._span) is not False
        if found:
            raise FeatureNotSupported(
                f'{asked} cannot answer this about table "{workload.table}": its answers are biased'
                " and do not agree with exact counts, which tie the rows together",
                hint="SET dp.mechanism = auto, or ask for fewer rows at once.",
            )

    def conditioned(self, purchase: Purchase, target: Target, asked: str) -> Purchase:
        """The purchase with joint noise; unchanged if its rows do not add up, and the noise is
        independent anyway.

        Raises as `check`, and StatementTooComplex for too many rows, or too wide noise, to be drawn
        jointly and exactly.
        """
        charge = purchase.charge
        tree = self.check(charge.workload, target, asked)
        if not tree.ties:
            return purchase
        draw = self._drawn(charge, tree, asked)
        charge = replace(charge, mechanism=CONDITIONED, joint=draw.joint)
        return replace(purchase, charge=charge, joint_noise=(draw.drawn.tree, draw.noise))

    def spread(self, charge: Charge, columns: Sequence[int]) -> Spread:
        """How far the charge's noise spreads, and the invariants that it adds up to. Column n of
        the charge is numbered columns[n]."""
        drawn, tree = charge.drawn_together, self._tree(charge.workload)
        if drawn is None or isinstance(tree, str):
            raise TypeError("independent noise does not add up")
        numbers, laws = drawn.marginals
        each = [law.functional(np.array([place]), np.ones(1)).variance for law, place in laws]
        own = dict[int, tuple[float, float, float]]()
        for number, (column, rows) in enumerate(_rows(charge)):
            law = drawn.tree.laws[rows.start]
            plain = 0.0 if law is None or not law.scale else law.variance
            variances = [plain if n < 0 else each[n] for n in {*numbers[rows].tolist()}]
            unit = float(column.multiplier)
            low, high = min(variances), max(variances)
            least, most, alone = (unit * math.sqrt(v) for v in (low, high, plain))
            own[columns[number]] = least, most, alone
        sources = list(dict.fromkeys(self._sources[n] for n in tree.declared))
        return Spread(sources, own)

    def widest(self, charge: Charge, target: Target, asked: str) -> tuple[float, ...]:
        """The scales of a charge, as wide as a half-width allows, since joint noise spreads less
        than the independent noise that they were chosen for."""
        tree, half = self.check(charge.workload, target, asked), target.half_width
        if half is None or not tree.ties:
            return charge.scales
        _, drawn = self._law(charge, tree, asked)
        numbers, laws = drawn.marginals
        most = np.full(len(laws), math.inf)
        tied = list[bool]()
        for column, rows in _rows(charge):
            own = numbers[rows]
            tied.append(bool((own >= 0).any()))
            if tied[-1] and (own < 0).any():
                return charge.scales
            if tied[-1]:
                most[own] = np.minimum(most[own], math.floor(half / column.multiplier))
        limits = [_Limit(*law, own) for law, own in zip(laws, most.tolist(), strict=True)]
        factor = _factor(limits, target.confidence)
        return tuple(
            scale * factor if own else scale for scale, own in zip(charge.scales, tied, strict=True)
        )

    def _tree(self, workload: Workload) -> Hierarchy | str:
        found = self._trees.get(workload)
        if found is None:
            found = self._trees[workload] = hierarchy(workload.columns, self._span)
        return found

    def _no_norm(self, workload: Workload) -> str | None:
        """Why the noise is not that of a k-norm, as the end of a sentence; None if it is."""
        if self.noise != "laplace":
            return "it needs a budget of epsilon"
        disjoint = len(workload.columns) == 1 and (
            sensitivity(workload.columns[0], Adjacency("add_remove"), "epsilon") <= 1
        )
        return None if disjoint else "it needs counts of one set of disjoint groups"

    def _drawn(self, charge: Charge, tree: Hierarchy, asked: str) -> _Draw:
        key = charge.workload, charge.scales
        kept = self._draws.find(key)
        if kept is not None:
            return kept
        joint, drawn = self._law(charge, tree, asked)
        draw = _Draw(joint, drawn, Conditioned(drawn.tree))
        self._draws.put(key, draw)
        return draw

    def _law(self, charge: Charge, tree: Hierarchy, asked: str) -> tuple[Joint, Drawn]:
        joint = Joint(CONDITIONED, sum(charge.heights), tree.parents)
        try:
            drawn = replace(charge, joint=joint).drawn_together
        except ValueError:
            drawn = None
        if drawn is None:
            raise FeatureNotSupported(
                f"{asked} cannot answer this: rows that add up would have noise of several scales",
                hint=_HINT,
            )
        return joint, drawn


def _rows(charge: Charge) -> Iterator[tuple[Column, slice]]:
    """The columns of a charge, and which of the charge's rows belong to each."""
    first = 0
    for column in charge.workload.columns:
        yield column, slice(first, first + column.height)
        first += column.height


def _factor(limits: Sequence[_Limit], confidence: Fraction) -> float:
    """How many times as wide all noises may be; 1 if they may not be wider."""

    def fit(factor: float) -> bool:
        return all(one.half_width(factor, confidence) <= one.most for one in limits)

    # The tightest limit comes first: it is nearly always the first to be exceeded.
    limits = sorted(limits, key=lambda one: one.most - one.half_width(1.0, confidence))
    low, high = 1.0, 1.25
    while high < _WIDEST and fit(high):
        low, high = high, high * 1.25
    while high > low * _NEAR:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low
