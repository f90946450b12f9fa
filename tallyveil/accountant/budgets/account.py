"""The policy's declarations about a budget, and what is left of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms import answered
from tallyveil.mechanisms.adjacency import Adjacency, Neighbours, Window
from tallyveil.mechanisms.measure import MEASURES, Measure
from tallyveil.mechanisms.units import CEILING, UNIT, from_units, positive
from tallyveil.mechanisms.zcdp import epsilon_of
from tallyveil.policy.domain import Domain
from tallyveil.policy.limits import Limits

__all__ = [
    "ANSWER_BYTES",
    "OTHERS",
    "PLANS",
    "Account",
    "Amount",
    "Balance",
    "Room",
    "Share",
    "is_plan",
]

ANSWER_BYTES: Final = 8
_MEGABYTE: Final = 10**6
OTHERS: Final = "\0others"
"""Stands for everybody but a table's plans, among analysts."""
PLANS: Final = "\0plans"
"""Stands for all plans of a table."""


def is_plan(analyst: str) -> bool:
    """Whether it is a plan that charges, and nobody who could log in."""
    return analyst.startswith("plan ")


@dataclass(frozen=True)
class Share:
    """The most an analyst's charges may cost a privacy unit, in the table's measure.

    ``epsilon`` is the declared ε if it was declared as ε at a δ, otherwise None.
    """

    budget: Fraction
    epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", positive(self.budget, "a share"))

    @property
    def units(self) -> int:
        """The share in whole units, rounded down."""
        return math.floor(self.budget * UNIT)


@dataclass(frozen=True)
class Amount:
    rows: int = 0
    size: int = 0  # in bytes

    @classmethod
    def of(cls, mechanism: str, sql: str, columns: bytes, height: int) -> Amount:
        """The amount that a charge takes. Answers of a mechanism that records none count as
        no rows."""
        rows = height if answered(mechanism) else 0
        return cls(rows, len(sql.encode()) + len(columns) + ANSWER_BYTES * rows)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.rows + other.rows, self.size + other.size)

    def left_of(self, rows: int, megabytes: int) -> Amount:
        """What remains of a limit, at least 0."""
        return Amount(max(0, rows - self.rows), max(0, megabytes * _MEGABYTE - self.size))


@dataclass(frozen=True)
class Room:
    """The amount recorded, and the amount left."""

    held: Amount
    left: Amount


@dataclass(frozen=True)
class Account:
    """The policy of one table's budget: ``budget`` in ``measure`` per privacy unit.

    ``delta`` is the δ that converts a budget of ρ to ε, and ``epsilon`` the ε at that δ it was
    declared as, None if it was declared as ρ; both are None for a budget of pure ε.

    ``fingerprint`` identifies everything that determines the meaning of past charges (the domain,
    the neighbouring relation, the privacy unit); it binds a ledger to the table. ``declared`` is
    that declaration as JSON, without passwords. ``whole`` is True if no record is left out before
    it gets a cell, for example by a filter.

    ``limits`` bound what is recorded of the table. ``beside`` names tables of the ledger that hold
    the same rows, or that the policy does not declare, whose budgets add up with this one as the
    custodian accepts. Tables whose ``reads`` share a relation of the source may hold the same
    rows; None may be any relation.

    ``shares`` are the analysts' shares of the budget. Each is a cap on this analyst's charges,
    whatever the shares add up to; an analyst without one may not charge. If None, everybody may
    charge, up to the budget.

    ``head`` names the table whose budget and shares hold for this one too, None if it has its own:
    both have rows of the same units. ``closed``: another process charges that budget for a table
    that this one does not know, so nothing remains here. ``reserved`` is the part of the budget
    that only its plans may charge (`is_plan`). ``migrated`` is how many migrations its ``domain``
    has taken in (`migrations`). Where versions replace all rows, a unit keeps its values of the
    ``stable`` attributes. With a ``window`` the ``max_rows`` are those of its days.
    """

    domain: Domain
    neighbours: Neighbours
    max_rows: int
    budget: Fraction
    fingerprint: str
    whole: bool = True
    measure: Measure = "epsilon"
    delta: Fraction | None = None
    epsilon: Fraction | None = None
    shares: Mapping[str, Share] | None = field(default=None, hash=False)
    limits: Limits = field(default_factory=Limits)
    beside: tuple[str, ...] = ()
    reads: frozenset[str] | None = frozenset()
    declared: str = ""
    head: str | None = None
    closed: bool = False
    reserved: Fraction = Fraction(0)
    migrated: int = 0
    stable: tuple[str, ...] = ()
    window: Window | None = None

    def __post_init__(self) -> None:
        if self.measure not in MEASURES or (self.measure == "rho") != (self.delta is not None):
            raise InvalidParameterValue("a budget is of epsilon alone, or of rho with a delta")
        if self.delta is not None and not 0 < self.delta < 1:
            raise InvalidParameterValue(f"delta lies strictly between 0 and 1, not {self.delta}")
        exact = positive(self.budget, f"the budget of table {self.domain.table}")
        if not exact * UNIT < CEILING:
            raise InvalidParameterValue(
                f"the budget of table {self.domain.table} is at most {CEILING // UNIT}, not {exact}"
            )
        object.__setattr__(self, "budget", exact)
        _ = self.relation

    def may_share(self, other: Account) -> bool:
        """Whether both may read the same relation of the source."""
        if self.reads is None or other.reads is None:
            return True
        return bool(self.reads & other.reads)

    @property
    def relation(self) -> Adjacency:
        closed = self.domain.complete and self.whole
        return Adjacency(self.neighbours, self.max_rows, closed, self.window)

    @property
    def units(self) -> int:
        """The budget in whole units, rounded down."""
        return 0 if self.closed else math.floor(self.budget * UNIT)

    def part(self, whose: str) -> int:
        """The part of the budget that `PLANS` may charge, or `OTHERS`, in whole units, rounded
        down."""
        part = self.reserved if whose == PLANS else self.budget - self.reserved
        return 0 if self.closed else max(0, math.floor(part * UNIT))

    @property
    def least_cost(self) -> Fraction:
        """The least cost of a statement that is charged, in ``measure``."""
        return self.limits.least(self.budget)

    def room(self, held: Amount, own: Amount | None = None) -> Room:
        """The room if ``held`` is recorded of the table. With ``own``, the part of it that one
        analyst asked for, it is this analyst's room, which the table's limits bound as well.
        """
        left = held.left_of(self.limits.rows, self.limits.megabytes)
        if own is None:
            return Room(held, left)
        least = own.left_of(self.limits.analyst_rows, self.limits.analyst_megabytes)
        return Room(own, Amount(min(left.rows, least.rows), min(left.size, least.size)))

    def balance(self, spent: int, exact: bool, unplanned: int = 0) -> Balance:
        """The balance once ``spent`` units are spent, ``unplanned`` of them by others than plans:
        what remains is what remains to these."""
        found = self._balance(self.budget, self.epsilon, spent, exact)
        if not self.reserved:
            return found
        left = from_units(max(0, self.part(OTHERS) - unplanned))
        return replace(found, remaining=min(found.remaining, left))

    def share_balance(self, analyst: str, spent: int, exact: bool) -> Balance | None:
        """The balance of an analyst whose charges have spent ``spent`` units. Without a share
        nothing remains. None where the table has no shares.
        """
        if self.shares is None:
            return None
        share = self.shares.get(analyst)
        if share is None:
            return self._balance(Fraction(0), Fraction(0), spent, exact)
        return self._balance(share.budget, share.epsilon, spent, exact)

    def _balance(
        self, budget: Fraction, epsilon: Fraction | None, spent: int, exact: bool
    ) -> Balance:
        left = from_units(0 if self.closed else max(0, math.floor(budget * UNIT) - spent))
        return Balance(budget, from_units(spent), left, exact, self.measure, self.delta, epsilon)


@dataclass(frozen=True)
class Balance:
    """In ``measure`` per privacy unit; ``spent`` is an upper bound where not ``exact``.

    The last two fields are `Account`'s.
    """

    budget: Fraction
    spent: Fraction
    remaining: Fraction
    exact: bool
    measure: Measure = "epsilon"
    delta: Fraction | None = None
    epsilon: Fraction | None = None

    @property
    def bound(self) -> Fraction:
        """What all answers together may have cost at the end: the budget, or what is spent where
        the budget was lowered below it."""
        return max(self.budget, self.spent)

    @property
    def epsilon_bound(self) -> Fraction:
        """As `bound`, in ε, at ``delta`` for a budget of ρ; rounded up unless declared in ε."""
        return self.epsilon_budget if self.spent <= self.budget else self.epsilon_spent

    @property
    def epsilon_budget(self) -> Fraction:
        """The budget in ε, at ``delta`` for a budget of ρ; rounded up unless declared in ε."""
        return self._in_epsilon(self.budget) if self.epsilon is None else self.epsilon

    @property
    def epsilon_spent(self) -> Fraction:
        """What was spent in ε, at ``delta`` for a budget of ρ; rounded up."""
        return self._in_epsilon(self.spent)

    def _in_epsilon(self, amount: Fraction) -> Fraction:
        return amount if self.delta is None else Fraction(epsilon_of(amount, self.delta))
