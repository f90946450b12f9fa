"""The words of a refused charge: what does not allow it, and what to do instead."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from tallyveil.accountant.quote import TableQuote
from tallyveil.errors import BudgetExceeded, InvalidParameterValue, RecordingLimitExceeded

__all__ = ["exceeded", "out_of_room", "too_cheap"]

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
