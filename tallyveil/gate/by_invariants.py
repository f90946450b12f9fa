"""What counts that are exact change in a decision: which noise there may be, and what is charged.

Rows are charged as translates where that serves the ledger best (`translations`), bought by way of
others (`designed`), or with noise that adds up as they do (`conditioning`), and what that is worth
is said in a forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tallyveil.accountant import Accountant
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.choice import Choice, Noise
from tallyveil.gate.conditioning import Conditioning, Spread
from tallyveil.gate.control import Control
from tallyveil.gate.designed import Comparison, Designed
from tallyveil.gate.purchase import Purchase
from tallyveil.gate.request import Request
from tallyveil.gate.settings import Target
from tallyveil.gate.translations import Follow, Saving, Translations
from tallyveil.knowledge import Knowledge
from tallyveil.mechanisms import AUTO, BY_DESIGN, EXTENDED, TOGETHER
from tallyveil.mechanisms.flowchart import IMAGED, PROJECTED
from tallyveil.rewriter import Workload

__all__ = ["ByInvariants"]


@dataclass(eq=False)
class ByInvariants:
    """By table with counts that are exact its ``translations`` and ``conditionings``. Threads may
    share it."""

    accountant: Accountant
    choice: Choice
    knowledge: Mapping[str, Knowledge]
    control: Control
    translations: Mapping[str, Translations]
    conditionings: Mapping[str, Conditioning]

    def noise(self, request: Request, workload: Workload, noise: Noise) -> Noise:
        """What is asked of a table's noise, where its rows may be bought by way of others."""
        if request.by_invariants not in BY_DESIGN:
            return noise
        return replace(noise, scales=self._designed(request, workload, noise).scales)

    def bought(
        self, request: Request, wanted: Mapping[str, Noise], purchases: list[Purchase]
    ) -> list[Purchase]:
        """By way of other rows, if the request says so."""
        if request.by_invariants not in BY_DESIGN:
            return purchases
        found = []
        for one in purchases:
            workload = request.workloads[one.table]
            charge = self._designed(request, workload, wanted[one.table]).charge
            found.append(one.charged_as(charge))
        return found

    def _designed(self, request: Request, workload: Workload, noise: Noise) -> Designed:
        """Raises FeatureNotSupported where there is nothing exact, for a target that is no cost,
        and for a table with an inference control, which looks at rows as they are asked."""
        table = workload.table
        asked = request.by_invariants or request.mechanism
        own = self._exact(table, asked)
        if request.target.half_width is not None or self.control.state([table]):
            raise FeatureNotSupported(
                f"{asked} is for what a statement may cost, of tables without an inference control",
                hint="SET dp.rho, or SET dp.mechanism = extended.",
            )
        return own.designed(
            asked,
            workload,
            self.knowledge[table].follow,
            lambda charged: self.choice.scales(noise.mechanism, charged, request.target),
            request.sql,
        )

    def mechanism(self, request: Request, table: str) -> str:
        """What is drawn together is noise of the table's measure."""
        asked = request.by_invariants
        if asked not in TOGETHER:
            return request.mechanism
        self._exact(table, asked)
        return self.conditionings[table].noise

    def charged(self, request: Request, purchases: list[Purchase]) -> list[Purchase]:
        """Charged as what serves the ledger best where counts are exact, or as the request says.

        Raises FeatureNotSupported for that where none are, or the rows are too many."""
        asked = request.by_invariants
        if asked is not None:
            tables = [self._exact(one.table, asked) for one in purchases]
        if asked in (PROJECTED, IMAGED, *BY_DESIGN):
            return purchases
        if asked == EXTENDED:
            pairs = zip(purchases, tables, strict=True)
            return [one.charged_as(own.extended(one.charge)) for one, own in pairs]
        target = request.target
        if asked in TOGETHER:
            purchases = [self._widened(one, target, asked) for one in purchases]
        best = [self._best(request, one) for one in purchases]
        if asked not in TOGETHER:
            return best
        return [self.conditionings[one.table].conditioned(one, target, asked) for one in best]

    def _best(self, request: Request, purchase: Purchase) -> Purchase:
        """Charged as what serves the ledger best, by other rows too if these may follow."""
        own, table = self.translations.get(purchase.table), purchase.table
        if own is None:
            return purchase
        follow = self._follow(request, table)
        best = own.best(purchase.charge, self.accountant, request.analyst, follow)
        return purchase.charged_as(best)

    def _widened(self, purchase: Purchase, target: Target, asked: str) -> Purchase:
        """With the noise that meets a half-width where it is drawn together. Raises what is known
        before it is laid out."""
        own, charge = self.conditionings[purchase.table], purchase.charge
        scales = own.widest(charge, target, asked)
        if scales == charge.scales or purchase.raised:
            return purchase
        noise = Noise(purchase.mechanism, scales)
        paid = self.choice.at_least_cost(noise, charge.workload, scales)
        return replace(purchase, charge=replace(charge, scales=paid), raised=paid != scales)

    def _follow(self, request: Request, table: str) -> Follow | None:
        """Whether rows may be told from others that are bought in their place: for a cost, where
        nothing looks at rows as they are asked."""
        chosen = request.mechanism == AUTO and request.by_invariants is None
        if not chosen or request.target.half_width is not None or self.control.state([table]):
            return None
        return self.knowledge[table].follow

    def _exact(self, table: str, asked: str) -> Translations:
        found = self.translations.get(table)
        if found is None:
            raise FeatureNotSupported(
                f'{asked} is for tables with counts that are exact, and table "{table}" has none',
                hint="SET dp.mechanism = auto.",
            )
        return found

    def spreads(self, purchases: Sequence[Purchase]) -> dict[str, Spread]:
        found = {}
        for one in purchases:
            if one.together is not None:
                found[one.table] = self.conditionings[one.table].spread(one.charge, one.columns)
        return found

    def comparisons(
        self, plain: Sequence[Purchase], purchases: Sequence[Purchase]
    ) -> dict[str, Comparison]:
        found = {}
        for asked, one in zip(plain, purchases, strict=True):
            own = self.translations.get(one.table)
            if own is not None and not asked.indirect:
                follow = self.knowledge[one.table].follow
                compared = own.compared(asked.charge, one.charge, self.accountant, follow)
                if compared is not None:
                    found[one.table] = compared
        return found

    def savings(
        self, plain: Sequence[Purchase], purchases: Sequence[Purchase]
    ) -> dict[str, Saving]:
        found = {}
        for asked, one in zip(plain, purchases, strict=True):
            if one.charge.translates:
                table = self.translations[one.table]
                before = replace(asked.charge, translates=())
                saving = table.saving(before, one.charge, self.accountant)
                found[one.table] = saving.over(() if one.indirect else one.columns)
        return found
