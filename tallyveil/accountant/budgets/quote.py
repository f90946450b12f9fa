"""Quotes: the effect of charges on budgets, shares and the ledger's size, and errors that say why a
charge is refused and what to do instead.

A charge counts as one row for each answer, and as the bytes of its statement and its coefficients
plus `account.ANSWER_BYTES` for each answer. So its size is known before anything is charged, does
not depend on drawn values, and follows from the ledger alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.accountant.budgets.account import Account, Amount, Room
from tallyveil.errors import (
    BudgetExceeded,
    InvalidParameterValue,
    LedgerError,
    RecordingLimitExceeded,
    TallyveilError,
)
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.units import rounded_down, rounded_up, text_down, text_up

__all__ = [
    "Quote", "Recording", "TableQuote", "cost_text", "exceeded", "listed", "report_charge",
]  # fmt: skip


@dataclass(frozen=True)
class TableQuote:
    """The effect of some charges on the budget of ``table``, or on an analyst's share of it, in
    ``measure``. All of ``tables`` share that budget.

    ``cost`` is their cost by themselves; where other cells have spent more, the remainder falls by
    less. ``analyst`` is the owner of the share, None for the budget itself; ``has_share`` is False
    if the share does not exist.
    """

    table: str
    cost: Fraction
    remaining_before: Fraction
    remaining_after: Fraction
    allowed: bool
    measure: Measure = "epsilon"
    analyst: str | None = None
    has_share: bool = True
    tables: tuple[str, ...] = ()

    @property
    def budget(self) -> str:
        """Which budget it is, for messages."""
        names = [f'"{name}"' for name in self.tables]
        return f"the budget of table{'s' if len(names) > 1 else ''} {listed(names)}"

    @property
    def owner(self) -> str:
        """Whose budget it is, for messages."""
        return listed(self.tables)


def listed(names: Sequence[str]) -> str:
    """The names, joined by "and"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True)
class Quote:
    """A statement's quote, table by table; ``shares`` are the analyst's own, where the table has
    shares."""

    tables: tuple[TableQuote, ...]
    shares: tuple[TableQuote, ...] = ()

    def __getitem__(self, table: str) -> TableQuote:
        for quote in self.tables:
            if quote.table == table:
                return quote
        raise KeyError(table)

    @property
    def refused(self) -> TableQuote | None:
        """The budget or share that is exceeded; of several the one with the least left."""
        refused = [quote for quote in (*self.tables, *self.shares) if not quote.allowed]
        return min(refused, key=lambda quote: quote.remaining_before, default=None)

    @property
    def allowed(self) -> bool:
        return self.refused is None


def cost_text(quote: Quote) -> str:
    """The cost by table, rounded up to ten significant digits."""
    several = len(quote.tables) > 1
    return "cost " + " + ".join(
        f"{t.measure} {text_up(t.cost, 10)}" + (f" ({t.owner})" if several else "")
        for t in quote.tables
    )


def report_charge(error: BaseException, charged: Quote | None, *, known: bool = True) -> None:
    """Let the error of a statement without an answer report whether it was ``charged``, as far as
    that is ``known``."""
    if charged is not None and isinstance(error, TallyveilError):
        found = (
            f"The charge is kept ({cost_text(charged)}), but its noisy answers were not recorded."
            " To ask again costs again."
        )
    elif isinstance(error, LedgerError):
        found = (
            "Nothing was charged."
            if known
            else "Whether this was charged is not known: dp.budget reports it once the ledger can"
            " be read."
        )
    else:
        return
    error.explain(found)


def exceeded(quote: TableQuote) -> BudgetExceeded:
    """The error for a quote that is not allowed."""
    # Rounded to the safe side: the cost up, the remainder down.
    requested, remaining = rounded_up(quote.cost), rounded_down(quote.remaining_before)
    costs = (
        f"it costs {quote.measure} {text_up(quote.cost, 6)}, and"
        f" {text_down(quote.remaining_before, 6)} remains for the records asked about most"
    )
    hint = (
        f"Ask with a smaller dp.{quote.measure} or a wider dp.half_width, about records with"
        " budget left, or again what is answered from history for free."
    )
    if quote.analyst is None:
        message = f"{quote.budget} does not allow this: {costs}"
    elif quote.has_share:
        message = (
            f'the share of analyst "{quote.analyst}" in {quote.budget} does not allow this:'
            f" {costs} by this analyst"
        )
    else:
        message = f'analyst "{quote.analyst}" has no share of {quote.budget}'
        hint = (
            "What history knows is answered for free. The custodian's policy says who may spend,"
            " and how much."
        )
    return BudgetExceeded(
        message,
        requested=requested,
        remaining=remaining,
        unit=quote.measure,
        analyst=quote.analyst,
        hint=hint,
    )


def too_cheap(quote: TableQuote, least: Fraction) -> InvalidParameterValue:
    """The error for a statement whose cost is positive and below ``least``."""
    unit = quote.measure
    # Rounded up, so that a statement at the cost shown is accepted.
    amount = text_up(least, 6)
    return InvalidParameterValue(
        f'this costs {unit} {float(quote.cost):.6g} of table "{quote.table}"; the least a'
        f" statement may cost is {unit} {amount}",
        detail="Every answer stays in the ledger for good, so none is recorded at next to no cost.",
        hint=f"SET dp.{unit} = {amount} or more, or a narrower dp.half_width. What history"
        " knows is free: SET dp.source = history. The custodian may lower limits.least_cost of"
        " the table.",
    )


def out_of_room(
    table: str, analyst: str | None, wanted: int, left: int, unit: str
) -> RecordingLimitExceeded:
    """The error for a statement whose record exceeds the room left."""
    whose, key = f'table "{table}"', unit if unit == "rows" else "megabytes"
    if analyst is not None:
        whose, key = f'analyst "{analyst}" about {whose}', f"analyst_{key}"
    return RecordingLimitExceeded(
        f"the ledger would record {wanted:,} {unit} for this, and has room for {left:,} more"
        f" of {whose}",
        hint="Ask for fewer groups or aggregates at once, or again what is answered from history"
        f" for free. The custodian may raise limits.{key} of the table.",
    )


class Recording:
    """Counts the recorded amounts. Used under the accountant's lock."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self.amounts: dict[tuple[str, str], Amount] = {}
        """By table and analyst."""
        self._tables: dict[str, Amount] = {}

    def add(self, table: str, analyst: str, amount: Amount) -> None:
        self._tables[table] = self._held(table) + amount
        self.amounts[table, analyst] = self._held(table, analyst) + amount

    def room(self, table: str, analyst: str | None = None) -> Room:
        """A table's room in total, or for one analyst's questions within the table's limits."""
        own = None if analyst is None else self._held(table, analyst)
        return self._accounts[table].room(self._held(table), own)

    def _held(self, table: str, analyst: str | None = None) -> Amount:
        if analyst is None:
            return self._tables.get(table, Amount())
        return self.amounts.get((table, analyst), Amount())

    def check(self, quote: Quote, asked: Sequence[tuple[str, Amount]], analyst: str) -> None:
        """Refuse a statement below the least cost, or for which there is no room.

        ``asked`` is the amount of each of its charges, by table. A cost of 0 is refused too: the
        gate answers by itself what no record can change, and requests no charge for it.

        Raises InvalidParameterValue (22023) and RecordingLimitExceeded (53400).
        """
        for one in quote.tables:
            own = (self._accounts[name] for name, _ in asked if name in one.tables)
            least = max(account.least_cost for account in own)
            if not one.cost or one.cost < least:
                raise too_cheap(one, least)
        for table in dict.fromkeys(name for name, _ in asked):
            takes = sum((amount for name, amount in asked if name == table), Amount())
            for whose in (None, analyst):
                left = self.room(table, whose).left
                if takes.rows > left.rows:
                    raise out_of_room(table, whose, takes.rows, left.rows, "rows")
                if takes.size > left.size:
                    raise out_of_room(table, whose, takes.size, left.size, "bytes")
