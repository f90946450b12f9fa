"""Messages about a charge: its cost, what remains, and in errors after it that it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from tallyveil.accountant import Accountant, Balance, Quote
from tallyveil.errors import TallyveilError
from tallyveil.gate.deciding.request import Request

__all__ = ["charge_explained", "cost_text", "number", "percent", "remaining"]


def number(value: Fraction | float) -> str:
    """The value in at most ten significant digits."""
    return format(float(value), ".10g")


def percent(confidence: Fraction) -> str:
    """The confidence, as the end of a sentence about intervals."""
    return f"at {number(confidence * 100)} %"


def cost_text(quote: Quote) -> str:
    several = len(quote.tables) > 1
    return "cost " + " + ".join(
        f"{t.measure} {number(t.cost)}" + (f" ({t.table})" if several else "") for t in quote.tables
    )


def remaining(accountant: Accountant, table: str, analyst: str) -> str:
    """What the table has left and, if its budget has shares, what the analyst has left."""
    balance, share = accountant.balance(table), accountant.share(table, analyst)
    whole = f"{_left(balance)} remains for {table}"
    if balance.delta is not None:
        whole += (
            f", where epsilon {float(balance.epsilon_spent):.6g} of"
            f" {float(balance.epsilon_budget):.6g} is spent at delta {float(balance.delta):g}"
        )
    if share is None:
        return whole
    return f"{whole}; {_left(share) if share.budget else 'nothing'} of it for {analyst}"


def _left(balance: Balance) -> str:
    unit = "" if balance.delta is None else "rho "
    return f"{number(balance.remaining)} of {unit}{number(balance.budget)}"


@contextmanager
def charge_explained(request: Request, quote: Quote | None) -> Iterator[None]:
    """Errors inside report what was charged before, if anything was, and that it is kept."""
    try:
        yield
    except TallyveilError as error:
        if quote is not None:
            charged = f"The noisy answers were charged before ({cost_text(quote)}), and are kept."
            free = "Other expressions over the same aggregates are answered from history, free."
            if request.source == "fresh":
                free = f"SET dp.source = auto: {free[0].lower()}{free[1:]}"
            error.detail = " ".join(filter(None, (error.detail, charged)))
            error.hint = " ".join(filter(None, (error.hint, free)))
        raise
