"""An offer: rows that can be bought together, with the noise, and what would be charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from tallyveil.accountant import Account, Charge
from tallyveil.arrays import IntArray
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.exact_counts import ExactCounts, Follow
from tallyveil.knowledge import Bought, Found
from tallyveil.mechanisms import AnyMechanism

__all__ = ["Information", "Limits", "Offer", "Strategy"]


@dataclass(frozen=True)
class Offer:
    """Rows of one table's workload: the ``rows[n]`` of its column ``columns[n]``.

    ``asked`` is the charge for these rows as they are asked, of which rows 0, 1, … of the n-th
    column are they. ``charge`` is what would be bought: these rows, perhaps charged as translates
    or with noise drawn together, or others, which with what is exact determine these."""

    charge: Charge
    asked: Charge
    mechanism: AnyMechanism
    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]
    raised_to_least_cost: bool = False
    """Whether the rows get more precise than asked, since a statement has a least cost."""
    cheaper: bool = False
    """Whether other rows meet a half-width at less cost."""
    gain: float = 1.0
    """What share of the variances of the rows as asked those by the offer have, on average."""
    shown: Noise | None = None
    """What EXPLAIN shows in place of the noise wanted."""

    @property
    def by_other_rows(self) -> bool:
        return self.charge.workload is not self.asked.workload

    @property
    def row_count(self) -> int:
        """The number of rows of the workload that become known."""
        return sum(map(len, self.rows))

    @property
    def table(self) -> str:
        return self.charge.table

    def charged_as(self, charge: Charge) -> Offer:
        """The offer by another charge: for the same rows, or for others that determine these."""
        raised = self.raised_to_least_cost and charge.workload is self.asked.workload
        return replace(self, charge=charge, raised_to_least_cost=raised)

    def bought(self, charge_id: int, values: tuple[tuple[int, ...], ...]) -> Bought:
        """What becomes known once the charge is paid and answered with these values."""
        return Bought(
            charge_id,
            self.mechanism,
            self.columns,
            self.rows,
            self.charge.scales,
            values,
            self.by_other_rows,
        )


class Information(NamedTuple):
    """Of one table's rows: the ``noise`` wanted, what is ``known``, and the offer of the rows
    ``asked`` that are not known precisely enough."""

    noise: Noise
    known: Found
    asked: Offer


class Limits(NamedTuple):
    """What one table allows. ``exact``: its exact counts, if any. ``controlled``: its inference
    control examines rows as they are asked. ``follow``: whether rows can be estimated from others.
    """

    account: Account
    choice: Choice
    exact: ExactCounts | None
    controlled: bool
    follow: Follow


Strategy: TypeAlias = Callable[[Request, Information, Limits], Iterator[Offer]]
"""Make offers of the rows that information has as asked, without charging anything.

Raises FeatureNotSupported if the request names the strategy, and the rows do not allow it."""
