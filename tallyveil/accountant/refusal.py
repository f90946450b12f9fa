"""The words of a refused charge: which budget or share ran out, and what to do instead."""

from __future__ import annotations

import math
from fractions import Fraction

from tallyveil.accountant.quote import TableQuote
from tallyveil.errors import BudgetExceeded

__all__ = ["exceeded"]


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
