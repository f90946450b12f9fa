"""Noise on the rows of a purchase that adds up as they do: `dp.mechanism = conditioned`, or knorm.

The rows that are bought, and the invariants, lay out a tree; the noise is independent noise given
that it adds up in this tree, drawn exactly. It costs what the independent noise costs, and less of
it is left: the answers are integers that satisfy the invariants as they are drawn.

On disjoint groups, Laplace noise given that some of their sums are 0 has weights e^{−‖u‖₁/b} there:
the k-norm mechanism, whose body is the hull of the moves of a record between groups whose sums stay
as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tallyveil.accountant import Charge, Drawn, Joint
from tallyveil.cache import Cache
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.purchase import Purchase
from tallyveil.gate.settings import Target
from tallyveil.invariants import Hierarchy, Span, hierarchy
from tallyveil.mechanisms import CONDITIONED, KNORM, Measure, Relation, sensitivity
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tallyveil.rewriter import Workload

__all__ = ["Conditioning", "Spread"]

_ROW: Final = 500  # bytes of a row that is drawn
_HINT: Final = "SET dp.mechanism = imaged, or auto: both agree with the invariants too."


class Spread(NamedTuple):
    """Of noise that is drawn together: by column its deviations, in the column's units, and that
    of independent noise; the invariants of this SQL take part."""

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


class Conditioning:
    """Of one table; ``sources`` has the SQL of each declared row. Threads may share it.

    ``refused`` says why its rows can have no such noise, if the policy does not allow it.
    """

    def __init__(
        self, span: Span, sources: Sequence[str], measure: Measure, refused: str | None = None
    ) -> None:
        self._span, self._sources, self._refused = span, sources, refused
        self.noise: Final = "laplace" if measure == "epsilon" else "gaussian"
        self._trees: WeakKeyDictionary[Workload, Hierarchy | str] = WeakKeyDictionary()
        self._draws: Cache[_Draw] = Cache(1024, 1 << 28, lambda _, draw: draw.weight)

    def conditioned(self, purchase: Purchase, target: Target, asked: str) -> Purchase:
        """The purchase with noise that is drawn together, by the name ``asked`` for; as it is where
        its rows add up to nothing, and the noise is independent whatever it agrees with.

        Raises FeatureNotSupported where they are no hierarchy, or independent noise alone has the
        (ε, δ) that the target asks for, and StatementTooComplex for too many rows, or too wide
        noise, to be drawn together exactly.
        """
        charge = purchase.charge
        tree = self._tree(charge.workload)
        reason = self._refused or (self._no_norm(charge.workload) if asked == KNORM else None)
        if reason is not None or isinstance(tree, str):
            raise FeatureNotSupported(
                f'{asked} cannot answer this about table "{charge.workload.table}":'
                f" {reason or tree}",
                hint=_HINT,
            )
        if not tree.ties:
            return purchase
        in_delta = target.epsilon is not None and purchase.mechanism.needs.delta
        if in_delta and target.calibration != "zcdp":
            # Its τ² is for noise on all integers: those that add up lie further apart.
            raise FeatureNotSupported(
                f"{asked} noise has an epsilon and a delta by way of rho only, and"
                f" dp.calibration = {target.calibration} is for independent noise",
                hint="SET dp.calibration = zcdp.",
            )
        draw = self._drawn(charge, tree, asked)
        charge = replace(charge, mechanism=CONDITIONED, joint=draw.joint)
        return replace(purchase, charge=charge, together=(draw.drawn.tree, draw.noise))

    def spread(self, charge: Charge, columns: Sequence[int]) -> Spread:
        """How far its noise spreads, and what it adds up by; its column n is columns[n] of those
        asked."""
        drawn, tree = charge.drawn_together, self._tree(charge.workload)
        if drawn is None or isinstance(tree, str):
            raise TypeError("independent noise adds up to nothing")
        own, first = dict[int, tuple[float, float, float]](), 0
        for number, (column, scale) in enumerate(
            zip(charge.workload.columns, charge.scales, strict=True)
        ):
            rows = range(first, first + column.height)
            first = rows.stop
            law = drawn.tree.laws[rows.start]
            plain = 0.0 if law is None or not scale else law.variance
            pairs = {(drawn.owners[row], drawn.places[row]) for row in rows}
            variances = [
                plain
                if owner < 0
                else drawn.laws[owner].functional(np.array([place]), np.ones(1)).variance
                for owner, place in pairs
            ]
            unit = float(column.multiplier)
            low, high = min(variances), max(variances)
            least, most, alone = (unit * math.sqrt(v) for v in (low, high, plain))
            own[columns[number]] = least, most, alone
        sources = list(dict.fromkeys(self._sources[n] for n in tree.declared))
        return Spread(sources, own)

    def _tree(self, workload: Workload) -> Hierarchy | str:
        found = self._trees.get(workload)
        if found is None:
            found = self._trees[workload] = hierarchy(workload.columns, self._span)
        return found

    def _no_norm(self, workload: Workload) -> str | None:
        """Why the noise would not be that of a k-norm, as the end of a sentence."""
        if self.noise != "laplace":
            return "it is for a budget of epsilon"
        disjoint = len(workload.columns) == 1 and (
            sensitivity(workload.columns[0], Relation("add_remove"), "epsilon") <= 1
        )
        return None if disjoint else "it is for counts of one set of disjoint groups"

    def _drawn(self, charge: Charge, tree: Hierarchy, asked: str) -> _Draw:
        key = charge.workload, charge.scales
        kept = self._draws.find(key)
        if kept is not None:
            return kept
        joint = Joint(CONDITIONED, sum(charge.heights), tree.parents)
        try:
            drawn = replace(charge, joint=joint).drawn_together
        except ValueError:
            drawn = None
        if drawn is None:
            raise FeatureNotSupported(
                f"{asked} cannot answer this: rows that add up have noise of several scales",
                hint=_HINT,
            )
        draw = _Draw(joint, drawn, Conditioned(drawn.tree))
        self._draws.put(key, draw)
        return draw
