"""Constants as a statement writes them, whatever brackets, sign and casts are around them."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

__all__ = ["WrittenConstant", "as_written"]


class WrittenConstant(NamedTuple):
    """``value`` is the text of a number, with its sign, or the text in quotes, a truth value, or
    None for NULL; ``casts`` are the types that it is cast to, one after the other.
    """

    value: str | bool | None
    quoted: bool
    casts: tuple[exp.DataType, ...]

    @property
    def text(self) -> str | None:
        """What a text in quotes says, at most one cast around it, as a parameter has."""
        text = isinstance(self.value, str) and self.quoted and len(self.casts) < 2
        return str(self.value) if text else None


def as_written(node: exp.Expr) -> WrittenConstant | None:
    """None of an expression that has to be evaluated."""
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
