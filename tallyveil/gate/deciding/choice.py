"""Chooses the mechanism: the one that was asked for, or the one that serves best.

A table's mechanisms are those that its policy allows and its budget can count. One with a public
range serves if the workload's rows are plain counts and n is known: from its own text, or from
`ranges`. Under ``dp.mechanism = auto`` the choice is the mechanism

- of least variance, summed over the rows, for a cost in dp.epsilon or dp.rho;
- of least cost, for a target in dp.half_width;

and among equals the one registered first. Mechanisms of one law are equals. It is additive: its
answers are unbiased, join the estimates and add up. A mechanism with a public range is biased, and
is taken only by its name or, as in ``auto(properties=wh)``, by properties. Then COUNT Fig. 5
decides, at the n and the scales that are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tallyveil.accountant import Account
from tallyveil.cache import Recent
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.gate.deciding.alternatives import (
    Alternatives,
    allowed,
    completed,
    reason_against,
    unfit,
    without_range,
)
from tallyveil.gate.deciding.noise import Noise, Selection
from tallyveil.gate.declared.ranges import Ranges
from tallyveil.gate.settings import Target
from tallyveil.gate.strategies.multiples import once_each
from tallyveil.mechanisms import (
    AUTO,
    BY_DESIGN,
    AnyMechanism,
    CountMechanism,
    chart_of,
    lacks_range,
    mechanism,
    statement_scales,
    with_range,
)
from tallyveil.mechanisms.flowchart import Flowchart
from tallyveil.mechanisms.measure import power
from tallyveil.mechanisms.units import from_units
from tallyveil.policy import Table
from tallyveil.rewriter import Workload

__all__ = ["Choice"]

# Keeps a cost that is rounded to units from staying below the least cost.
_INWARDS: Final = 1 - 2**-30
_SAME: Final = 1 + 1e-12  # scales that differ by less are one, rounded twice


class Choice:
    """Chooses for the tables of one policy."""

    def __init__(
        self, tables: Mapping[str, Table], accounts: Mapping[str, Account], ranges: Ranges
    ) -> None:
        self._accounts = accounts
        self._ranges = ranges
        self._alternatives = Alternatives(
            accounts, {name: allowed(table) for name, table in tables.items()}
        )
        self._latest: Recent[Workload, Noise] = Recent(8)

    def allowed(self, table: str) -> tuple[str, ...] | None:
        """The mechanisms that the policy allows, None for all."""
        return self._alternatives.allowed[table]

    def noise(
        self, workload: Workload, target: Target, asked: str, *,
        additive: bool = False, named: str | None = None,
    ) -> Noise:  # fmt: skip
        """The mechanism ``asked`` for, or under "auto" the best, at the scales of the target.

        The choice depends on the policy and the arguments alone, so a repeated statement with the
        same settings gets the cached one.

        ``additive``: only additive noise serves. ``named``: what the analyst wrote, if ``asked`` is
        only its noise.

        Raises FeatureNotSupported if it cannot serve, InvalidParameterValue for a target that the
        table's budget cannot pay or the noise cannot meet, and StatementTooComplex if it cannot
        be computed.
        """
        key = (target, asked, additive, named)

        def made() -> Noise:
            noise = self._chosen(workload, *key)
            if named not in BY_DESIGN:
                noise = self._once_each(noise, workload, target)
            _compute_law(noise.mechanism, noise.scales)
            return noise

        return self._latest.get(workload, key, made)

    def _once_each(self, noise: Noise, workload: Workload, target: Target) -> Noise:
        costs, chosen = target.half_width is None, noise.mechanism
        return once_each(noise, workload, lambda part: self.scales(chosen, part, target), costs)

    def _chosen(
        self, workload: Workload, target: Target, asked: str, additive: bool, named: str | None
    ) -> Noise:
        if asked != AUTO:
            chart = chart_of(asked)
            if chart is not None:
                return self._charted(workload, target, chart, additive)
            return self._named(workload, target, asked, additive, named)
        found = list(self._candidates(workload, target))
        if not found:
            raise FeatureNotSupported(
                f'no mechanism of table "{workload.table}" answers this at such a cost or target',
                hint=self._alternatives.instead_of_auto(workload, target),
            )
        if len(found) == 1:
            return found[0]
        return min(found, key=lambda noise: self._rank(noise, workload, target))

    def scales(
        self,
        noise: AnyMechanism,
        workload: Workload,
        target: Target,
        like: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """The scales at which ``noise`` meets the target; for a cost they are in proportion to
        ``like``, if given, or about so (`statement_scales`). Raises as `noise`."""
        account = self._accounts[workload.table]
        if target.rho is not None:
            if account.measure == "epsilon":
                raise InvalidParameterValue(
                    f'the budget of table "{workload.table}" is of epsilon, and dp.rho is set',
                    hint="SET dp.epsilon or dp.half_width instead.",
                )
            return noise.scales_for(workload, target.rho, account.relation, "rho", like)
        if target.epsilon is not None and noise.needs_delta:
            return self._with_delta(noise, workload, target.epsilon, target, like)
        if target.epsilon is not None:
            return noise.scales_for(workload, target.epsilon, account.relation, "epsilon", like)
        if isinstance(noise, CountMechanism):
            raise FeatureNotSupported(
                "dp.half_width is set, but the intervals of a mechanism with a public range have no"
                " half-width in common: how far one extends to each side depends on the answer",
                hint="SET dp.epsilon instead, or SET dp.mechanism = auto.",
            )
        movable = noise.scales_for(workload, Fraction(1), account.relation, account.measure)
        return tuple(
            noise.scale_for_half_width(
                math.floor((target.half_width or 0) / column.multiplier), target.confidence
            )
            if scale > 0
            else 0.0
            for column, scale in zip(workload.columns, movable, strict=True)
        )

    def _with_delta(
        self,
        noise: AnyMechanism,
        workload: Workload,
        epsilon: Fraction,
        target: Target,
        like: Sequence[float] | None,
    ) -> tuple[float, ...]:
        """The scales for a cost in ε of noise that needs a δ: the one set, or the budget's."""
        account = self._accounts[workload.table]
        delta = account.delta if target.delta is None else target.delta
        if delta is None:
            raise FeatureNotSupported(
                f"{noise.name} has no cost in epsilon alone, and the budget of table"
                f' "{workload.table}" has no delta',
                hint="SET dp.delta = 1e-6, say, or SET dp.mechanism = auto.",
            )
        return statement_scales(
            workload, epsilon, delta, account.relation, target.calibration, like
        )

    def part(
        self, noise: Noise, workload: Workload, rows: Selection, part: Workload, target: Target
    ) -> tuple[float, ...] | None:
        """The scales for the ``part`` of a workload that has only some of its ``rows``; ``noise``
        was chosen for the workload.

        For a cost no scale is greater than that of ``noise``. So each row is bought as precisely as
        the whole workload would make it, and a repeated statement does not buy it again. None if
        the part might be charged more than the whole at the same scales, since costs are bounds. A
        mechanism with a public range keeps its scales, for which its law is computed already,
        unless they cost too little.
        """
        whole = tuple(noise.scales[n] for n in rows.columns)
        ranged = isinstance(noise.mechanism, CountMechanism)
        if not ranged:
            found = self.scales(noise.mechanism, part, target, whole)
            no_greater = (one <= own * _SAME for one, own in zip(found, whole, strict=True))
            if target.half_width is not None or all(no_greater):
                return found
        every = noise.all_bought(workload)
        others = tuple(noise.scales[n] for n in every.columns)
        most = self.cost(noise.mechanism, every.taken_from(workload), others)
        cost = self.cost(noise.mechanism, part, whole)
        if cost > most:
            return None
        if not ranged:
            return self.at_least_cost(noise, part, whole)
        if cost < self._accounts[part.table].least_cost:
            whole = self.scales(noise.mechanism, part, target, whole)
            _compute_law(noise.mechanism, whole)
        return whole

    def at_least_cost(
        self, noise: Noise, part: Workload, scales: tuple[float, ...]
    ) -> tuple[float, ...]:
        """The scales, all reduced by one factor if they cost less than the least cost of a
        statement."""
        account = self._accounts[part.table]
        while True:
            cost = self.cost(noise.mechanism, part, scales)
            share = cost / account.least_cost if account.least_cost else 1
            if not 0 < share < 1:
                return scales
            factor = float(share) ** (1 / power(account.measure)) * _INWARDS
            scales = tuple(scale * factor for scale in scales)

    def _named(
        self, workload: Workload, target: Target, asked: str, additive: bool, named: str | None
    ) -> Noise:
        table, measure = workload.table, self._accounts[workload.table].measure
        noise, origin = self._with_range(asked, workload)
        if not self._alternatives.allows(table, asked, noise):
            barred = "is not among the mechanisms of its policy"
            raise self._alternatives.refusal(asked, barred, workload, additive, named)
        if noise is None:
            raise without_range(asked, completed(asked), table)
        reason = reason_against(noise, measure) or unfit(noise, workload, additive)
        if reason is not None:
            raise self._alternatives.refusal(asked, reason, workload, additive, named)
        return Noise(noise, self.scales(noise, workload, target), origin=origin)

    def _charted(
        self, workload: Workload, target: Target, chart: Flowchart, additive: bool
    ) -> Noise:
        """Follow the flowchart. All of Fig. 5's mechanisms have the same scales."""
        n, origin = chart.n, None
        if n is None:
            known = self._ranges.of(workload)
            if known is None:
                filled = chart.name.replace("(", "(n=…, ", 1)
                raise without_range(chart.name, f"'{filled}'", workload.table)
            n, origin = known.n, known.origin
        geometric = CountMechanism("truncated_geometric", n)
        reason = unfit(geometric, workload, additive)
        if reason is not None:
            raise self._alternatives.refusal(chart.name, reason, workload, additive)
        alike = Noise(geometric, self.scales(geometric, workload, target))
        chosen = chart.chosen(n, self._once_each(alike, workload, target).scales)
        return replace(self._named(workload, target, chosen.name, additive, None), origin=origin)

    def _candidates(self, workload: Workload, target: Target) -> Iterator[Noise]:
        """What "auto" chooses from."""
        account, seen = self._accounts[workload.table], []
        for spec in self._alternatives.considered(workload.table):
            noise = mechanism(spec)
            if (
                isinstance(noise, CountMechanism)
                or reason_against(noise, account.measure) is not None
            ):
                continue
            if noise.law(1.0) in seen or (target.epsilon is not None and noise.needs_delta):
                continue
            seen.append(noise.law(1.0))
            yield Noise(noise, self.scales(noise, workload, target))

    def _with_range(self, spec: str, workload: Workload) -> tuple[AnyMechanism | None, str | None]:
        """The mechanism, and where n is from if ``spec`` lacks it; both None if n is unknown."""
        if not lacks_range(spec):
            return mechanism(spec), None
        known = self._ranges.of(workload)
        if known is None:
            return None, None
        return with_range(spec, known.n), known.origin

    def _rank(self, noise: Noise, workload: Workload, target: Target) -> float:
        if target.half_width is None:
            return sum(
                column.height * float(column.multiplier) ** 2 * noise.mechanism.worst_error(scale)
                for column, scale in zip(workload.columns, noise.scales, strict=True)
            )
        return float(self.cost(noise.mechanism, workload, noise.scales))

    def cost(self, noise: AnyMechanism, workload: Workload, scales: tuple[float, ...]) -> Fraction:
        """What a workload costs at these scales, in the measure of the table's budget."""
        account = self._accounts[workload.table]
        return from_units(noise.loss(workload, scales, account.relation, account.measure).bound)


def _compute_law(noise: AnyMechanism, scales: Sequence[float]) -> None:
    """Compute the law before anything is charged. It is cached for the release.

    Raises StatementTooComplex or InvalidParameterValue if it cannot be computed.
    """
    if isinstance(noise, CountMechanism):
        for scale in {scale for scale in scales if scale}:
            noise.matrix(scale)
