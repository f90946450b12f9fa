"""Messages about a charge: its cost, what remains, and in errors after it that it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from tallyveil.accountant import Balance, BudgetReports, Quote, cost_text, listed, report_charge
from tallyveil.errors import TallyveilError
from tallyveil.gate.deciding.request import Request
from tallyveil.mechanisms.units import text_down, text_up

__all__ = [
    "at_least",
    "at_most",
    "charge_explained",
    "number",
    "percent",
    "remaining",
    "unanswered",
]


_DIGITS: Final = 10


def number(value: Fraction | float) -> str:
    """The value in at most ten significant digits, rounded to the nearest."""
    return format(float(value), f".{_DIGITS}g")


def at_most(amount: Fraction) -> str:
    """An amount that is spent or limited, rounded up as `number` rounds."""
    return text_up(amount, _DIGITS)


def at_least(amount: Fraction) -> str:
    """An amount that remains, rounded down as `number` rounds."""
    return text_down(amount, _DIGITS)


def percent(confidence: Fraction) -> str:
    """The confidence, as the end of a sentence about intervals."""
    return f"at {number(confidence * 100)} %"


def remaining(budgets: BudgetReports, table: str, analyst: str) -> str:
    """What the table has left, with those that share its budget, and, if that has shares, what the
    analyst has left."""
    balance, share = budgets.balance(table), budgets.share(table, analyst)
    whole = f"{_left(balance)} remains for {listed(budgets.sharing(table))}"
    if balance.delta is not None:
        whole += (
            f", where epsilon {text_up(balance.epsilon_spent, 6)} of"
            f" {text_up(balance.epsilon_budget, 6)} is spent at delta {text_up(balance.delta, 6)}"
        )
    if share is None:
        return whole
    return f"{whole}; {_left(share) if share.budget else 'nothing'} of it for {analyst}"


def _left(balance: Balance) -> str:
    unit = "" if balance.delta is None else "rho "
    return f"{at_least(balance.remaining)} of {unit}{at_most(balance.budget)}"


@contextmanager
def charge_explained(request: Request, quote: Quote | None) -> Iterator[None]:
    """Errors inside report what was charged before, if anything was, and that it is kept."""
    try:
        yield
    except TallyveilError as error:
        if quote is not None:
            free = "Other expressions over the same aggregates are answered from history, free."
            if request.source == "fresh":
                free = f"SET dp.source = auto: {free[0].lower()}{free[1:]}"
            error.explain(
                f"The noisy answers were charged before ({cost_text(quote)}), and are kept."
            )
            error.hint = " ".join(filter(None, (error.hint, free)))
        raise


@contextmanager
def unanswered(quote: Quote) -> Iterator[None]:
    """Errors inside report that the statement was charged, and its answers were not recorded."""
    try:
        yield
    except TallyveilError as error:
        report_charge(error, quote)
        raise
