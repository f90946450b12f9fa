"""Constants as they are written in a statement, with any brackets, sign and casts around them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, NumericValueOutOfRange

__all__ = ["WrittenConstant", "as_written", "check_number", "refuse_wide", "written_text"]

_NUMBER: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class WrittenConstant(NamedTuple):
    """``value`` is a number's text with its sign, a quoted text, a boolean, or None for NULL;
    ``casts`` are the types it is cast to, in the order of the casts.
    """

    value: str | bool | None
    quoted: bool
    casts: tuple[exp.DataType, ...]


def as_written(node: exp.Expr) -> WrittenConstant | None:
    """The constant, or None if the expression must be evaluated."""
    casts: list[exp.DataType] = []
    sign = ""
    while isinstance(node, exp.Paren | exp.Cast | exp.Neg):
        if isinstance(node, exp.Cast):
            casts.insert(0, node.to)
        elif isinstance(node, exp.Neg):
            sign = "" if sign else "-"
        node = node.this
    quoted = node.is_string
    match node:
        case exp.Literal() if not (sign and quoted):
            return WrittenConstant(sign + node.this, quoted, tuple(casts))
        case exp.Boolean() if not sign:
            return WrittenConstant(bool(node.this), quoted, tuple(casts))
        case exp.Null() if not sign:
            return WrittenConstant(None, quoted, tuple(casts))
    return None


def written_text(node: exp.Expr | None) -> str | None:
    """The value of a quoted text with at most one cast, as a parameter has; None for another."""
    found = None if node is None else as_written(node)
    if found is None or not found.quoted or len(found.casts) > 1:
        return None
    return str(found.value)


def check_number(text: str) -> None:
    """Refuse a number that DuckDB reads otherwise than it is written.

    Raises FeatureNotSupported, and NumericValueOutOfRange if a double rounds it to 0 or to
    infinity, or a whole number has more than 128 bits.
    """
    if not _NUMBER.fullmatch(text):
        raise FeatureNotSupported(
            f"the number {text[:40]} is not supported in this form",
            hint="Write it in decimal digits: 26, 1.5 or 1e20.",
        )
    if text.isdecimal():
        refuse_wide(int(text))
    elif "e" in text.lower():
        value, mantissa = float(text), re.split("[eE]", text)[0]
        if value == float("inf") or (value == 0 and mantissa.strip("0.")):
            raise NumericValueOutOfRange(
                "a number is out of range for double precision",
                hint="Write a number between 1e-307 and 1e308.",
            )


def refuse_wide(number: int) -> None:
    """Raise NumericValueOutOfRange beyond 128 bits: DuckDB would compare only the last 128, so that
    5 < 2²⁰⁰ is false.
    """
    if not -(2**127) <= number < 2**127:
        raise NumericValueOutOfRange(
            "a whole number needs more than 128 bits",
            hint="Write it with an exponent, such as 1e40: then it has double precision.",
        )
