"""What is said of a charge: what it cost, and in an error after it that it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from tallyveil.accountant import Quote
from tallyveil.errors import TallyveilError
from tallyveil.gate.request import Request

__all__ = ["charge_explained", "cost_text", "number"]


def number(value: Fraction | float) -> str:
    """Short, and exact as far as anyone reads."""
    return format(float(value), ".10g")


def cost_text(quote: Quote) -> str:
    several = len(quote.tables) > 1
    return "cost " + " + ".join(
        f"{t.measure} {number(t.cost)}" + (f" ({t.table})" if several else "") for t in quote.tables
    )


@contextmanager
def charge_explained(request: Request, quote: Quote | None) -> Iterator[None]:
    """An error inside says what was charged before it, if anything was, and that this is kept."""
    try:
        yield
    except TallyveilError as error:
        if quote is not None:
            charged = f"The noisy answers were charged before ({cost_text(quote)}), and are kept."
            free = "Another expression over the same aggregates is answered from history, free."
            if request.source == "fresh":
                free = f"SET dp.source = auto: {free[0].lower()}{free[1:]}"
            error.detail = " ".join(filter(None, (error.detail, charged)))
            error.hint = " ".join(filter(None, (error.hint, free)))
        raise
