"""Constants as they are written in a statement, with any brackets, sign and casts around them."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

__all__ = ["WrittenConstant", "as_written"]


class WrittenConstant(NamedTuple):
    """``value`` is a number's text with its sign, a quoted text, a boolean, or None for NULL;
    ``casts`` are the types it is cast to, in the order of the casts.
    """

    value: str | bool | None
    quoted: bool
    casts: tuple[exp.DataType, ...]

    @property
    def text(self) -> str | None:
        """The value if it is a quoted text with at most one cast, as a parameter has."""
        text = isinstance(self.value, str) and self.quoted and len(self.casts) < 2
        return str(self.value) if text else None


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
