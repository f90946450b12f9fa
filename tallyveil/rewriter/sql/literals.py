"""Constants as they are written in a statement, with any brackets, sign and casts around them."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

__all__ = ["WrittenConstant", "as_written", "written_text"]


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
