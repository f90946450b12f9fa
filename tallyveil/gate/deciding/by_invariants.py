"""How exact counts change a decision: which noise is possible, and what is charged.

Rows are charged as translates where that serves the ledger best (`translates`), bought by way of
others (`designed`), or get noise that adds up as they do (`conditioning`). A forecast reports what
that saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.conditioning import Conditioning, Spread
from tallyveil.gate.deciding.control import Control
from tallyveil.gate.deciding.designed import Designed, ErrorComparison
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.purchase import Purchase
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.deciding.translates import Saving, Translates
from tallyveil.gate.settings import Target
from tallyveil.mechanisms import AUTO, BY_DESIGN, EXTENDED, TOGETHER
from tallyveil.mechanisms.flowchart import IMAGED, PROJECTED
from tallyveil.rewriter import Workload

__all__ = ["ByInvariants", "TableInvariants"]


class TableInvariants(NamedTuple):
    """For a table with exact counts."""

    translates: Translates
    conditioning: Conditioning


@dataclass(eq=False)
class ByInvariants:
    """``tables`` are those with exact counts. Threads may share it."""

    choice: Choice
    control: Control
    tables: Mapping[str, TableInvariants]

    def noise(self, request: Request, workload: Workload, noise: Noise) -> Noise:
        """The table's noise, at the scales of the design if its rows are bought by one.

        Raises FeatureNotSupported for a mechanism with a public range if sums of rows are exact.
        """
        if noise.mechanism.needs_range and workload.table in self.tables:
            self.tables[workload.table].conditioning.check_apart(workload, noise.mechanism.name)
        if request.by_invariants not in BY_DESIGN:
            return noise
        return replace(noise, scales=self._designed(request, workload, noise).scales)

    def bought(
        self, request: Request, wanted: Mapping[str, Noise], purchases: list[Purchase]
    ) -> list[Purchase]:
        """The purchases, by way of other rows if the request's mechanism buys those."""
        if request.by_invariants not in BY_DESIGN:
            return purchases
        found = []
        for one in purchases:
            workload = request.workloads[one.table]
            charge = self._designed(request, workload, wanted[one.table]).charge
            found.append(one.charged_as(charge))
        return found

    def _designed(self, request: Request, workload: Workload, noise: Noise) -> Designed:
        """Raises FeatureNotSupported if nothing is exact, if the target is not a cost, and if the
        table has an inference control, which examines rows as they are asked."""
        table = workload.table
        asked = request.by_invariants or request.mechanism
        own = self._exact(table, asked)
        if request.target.half_width is not None or self.control.state([table]):
            raise FeatureNotSupported(
                f"{asked} needs a target that is a cost, and a table without inference control",
                hint="SET dp.rho, or SET dp.mechanism = extended.",
            )
        return own.translates.designed(
            asked,
            workload,
            lambda charged: self.choice.scales(noise.mechanism, charged, request.target),
            request.sql,
        )

    def mechanism(self, request: Request, table: str) -> str:
        """The mechanism of the request; if noise is drawn jointly, that of the table's measure."""
        asked = request.by_invariants
        if asked not in TOGETHER:
            return request.mechanism
        return self._exact(table, asked).conditioning.noise

    def charged(self, request: Request, purchases: list[Purchase]) -> list[Purchase]:
        """Charge what serves the ledger best where counts are exact, or what the request names.

        Raises FeatureNotSupported for the latter if no counts are exact or there are too many rows.
        """
        asked = request.by_invariants
        if asked is not None:
            tables = [self._exact(one.table, asked) for one in purchases]
        if asked in (PROJECTED, IMAGED, *BY_DESIGN):
            return purchases
        if asked == EXTENDED:
            pairs = zip(purchases, tables, strict=True)
            return [one.charged_as(own.translates.extended(one.charge)) for one, own in pairs]
        target = request.target
        if asked in TOGETHER:
            purchases = [self._widened(one, target, asked) for one in purchases]
        best = [self._best(request, one) for one in purchases]
        if asked not in TOGETHER:
            return best
        return [
            own.conditioning.conditioned(p, target, asked)
            for p, own in zip(best, tables, strict=True)
        ]

    def _best(self, request: Request, purchase: Purchase) -> Purchase:
        """Charge what serves the ledger best, also other rows if they serve."""
        own = self.tables.get(purchase.table)
        if own is None:
            return purchase
        # Other rows serve if neither a half-width nor inference control is about the rows asked.
        chosen = request.mechanism == AUTO and request.by_invariants is None
        costs = request.target.half_width is None and not self.control.state([purchase.table])
        best = own.translates.best(purchase.charge, request.analyst, others=chosen and costs)
        return purchase.charged_as(best)

    def _widened(self, purchase: Purchase, target: Target, asked: str) -> Purchase:
        """The purchase with the widest joint noise that meets a half-width. Raises as
        `Conditioning.check`."""
        charge = purchase.charge
        scales = self.tables[purchase.table].conditioning.widest(charge, target, asked)
        if scales == charge.scales or purchase.raised_to_least_cost:
            return purchase
        noise = Noise(purchase.mechanism, scales)
        paid = self.choice.at_least_cost(noise, charge.workload, scales)
        charge = replace(charge, scales=paid)
        return replace(purchase, charge=charge, raised_to_least_cost=paid != scales)

    def _exact(self, table: str, asked: str) -> TableInvariants:
        found = self.tables.get(table)
        if found is None:
            raise FeatureNotSupported(
                f'{asked} needs exact counts, and table "{table}" has none',
                hint="SET dp.mechanism = auto.",
            )
        return found

    def spreads(self, purchases: Sequence[Purchase]) -> dict[str, Spread]:
        return {
            one.table: self.tables[one.table].conditioning.spread(one.charge, one.columns)
            for one in purchases
            if one.joint_noise is not None
        }

    def comparisons(
        self, plain: Sequence[Purchase], purchases: Sequence[Purchase]
    ) -> dict[str, ErrorComparison]:
        found = {}
        for asked, one in zip(plain, purchases, strict=True):
            if one.table in self.tables and not asked.by_other_rows:
                own = self.tables[one.table].translates
                compared = own.compared(asked.charge, one.charge)
                if compared is not None:
                    found[one.table] = compared
        return found

    def savings(
        self, plain: Sequence[Purchase], purchases: Sequence[Purchase]
    ) -> dict[str, Saving]:
        found = {}
        for asked, one in zip(plain, purchases, strict=True):
            if one.charge.translates:
                own = self.tables[one.table].translates
                saving = own.saving(replace(asked.charge, translates=()), one.charge)
                found[one.table] = saving.over(() if one.by_other_rows else one.columns)
        return found
