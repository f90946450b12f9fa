"""What some charges would do to the budgets and shares they are taken from; and the words of a
refused charge: what does not allow it, and what to do instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from tallyveil.errors import BudgetExceeded, InvalidParameterValue, RecordingLimitExceeded
from tallyveil.mechanisms.measure import Measure

__all__ = ["Quote", "TableQuote", "exceeded", "out_of_room", "too_cheap"]


@dataclass(frozen=True)
class TableQuote:
    """What some charges would do to one table's budget, or to an analyst's share of it, in
    ``measure``.

    ``cost`` is their cost on their own; where other cells have spent more, ``spent`` grows by
    less. ``exact`` is False where ``spent_after`` is an upper bound. ``analyst`` is whose share it
    is, None for the budget itself; ``has_share`` is False if there is no such share.
    """

    table: str
    cost: Fraction
    spent_before: Fraction
    spent_after: Fraction
    remaining_before: Fraction
    remaining_after: Fraction
    allowed: bool
    exact: bool
    measure: Measure = "epsilon"
    analyst: str | None = None
    has_share: bool = True


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
        """The budget or share that does not allow it; of several the one with least left."""
        refused = [quote for quote in (*self.tables, *self.shares) if not quote.allowed]
        return min(refused, key=lambda quote: quote.remaining_before, default=None)

    @property
    def allowed(self) -> bool:
        return self.refused is None


_UP = Context(prec=6, rounding=ROUND_CEILING)


def exceeded(quote: TableQuote) -> BudgetExceeded:
    """The error for a quote that is not allowed."""
    # Shown rounded to the private side: what is asked up, what is left down.
    requested, remaining = float(quote.cost), float(quote.remaining_before)
    if Fraction(requested) < quote.cost:
        requested = math.nextafter(requested, math.inf)
    if Fraction(remaining) > quote.remaining_before:
        remaining = math.nextafter(remaining, 0.0)
    costs = f"it costs {quote.measure} {requested:.6g}, and {remaining:.6g} remains where most was"
    hint = (
        f"Ask with a smaller dp.{quote.measure} or a wider dp.half_width, about records that"
        " less was asked about, or again what is answered from history for free."
    )
    if quote.analyst is None:
        message = f'the budget of table "{quote.table}" does not allow this: {costs} asked'
    elif quote.has_share:
        message = (
            f'the share of analyst "{quote.analyst}" in the budget of table "{quote.table}" does'
            f" not allow this: {costs} asked by this analyst"
        )
    else:
        message = f'analyst "{quote.analyst}" has no share of the budget of table "{quote.table}"'
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
    # Rounded up, so that whoever sets it gets an answer.
    amount = float(_UP.divide(Decimal(least.numerator), Decimal(least.denominator)))
    return InvalidParameterValue(
        f'this costs {unit} {float(quote.cost):.6g} of table "{quote.table}"; the least a'
        f" statement may cost is {unit} {amount:.6g}",
        detail="Every answer stays in the ledger for good, so none is recorded at next to no cost.",
        hint=f"SET dp.{unit} = {amount:.6g} or more, or a narrower dp.half_width. What history"
        " knows is free: SET dp.source = history. The custodian may lower limits.least_cost of"
        " the table.",
    )


def out_of_room(
    table: str, analyst: str | None, wanted: int, left: int, unit: str
) -> RecordingLimitExceeded:
    """The error for a statement of which more would be recorded than there is room for."""
    whose, key = f'table "{table}"', unit if unit == "rows" else "megabytes"
    if analyst is not None:
        whose, key = f'analyst "{analyst}" about {whose}', f"analyst_{key}"
    return RecordingLimitExceeded(
        f"the ledger would record {wanted:,} {unit} for this, and has room for {left:,} more"
        f" of {whose}",
        hint="Ask for fewer groups or aggregates at once, or again what is answered from history"
        f" for free. The custodian may raise limits.{key} of the table.",
    )
