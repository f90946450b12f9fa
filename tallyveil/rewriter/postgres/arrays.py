"""Array literals: PostgreSQL reads '{1,2}' as an array where one is wanted, DuckDB does not."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tallyveil.errors import InvalidTextRepresentation
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import position

__all__ = ["any_element"]

# One element, quoted or not, and what follows it. Nested arrays are not read.
_ELEMENT: Final = re.compile(
    r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\\s](?:[^",{}\\]*[^",{}\\\s])?))\s*'
)


def any_element(node: exp.Any, scope: Scope) -> exp.Expr | None:
    """``x = ANY ('{…}')``, with or without a cast, as drivers write a list."""
    wanted = node.this.unnest()
    inner = wanted.this if isinstance(wanted, exp.Cast) else wanted
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    if isinstance(wanted, exp.Cast):
        kind = wanted.to
    else:
        comparison = node.parent
        beside = comparison.this if comparison is not None else None
        kind = exp.DataType.build(f"{scope.type_of(beside) or 'VARCHAR'}[]", dialect="duckdb")
    values = exp.Array(expressions=_elements(inner))
    return exp.Any(this=exp.paren(exp.cast(values, kind.copy())))


def _elements(literal: exp.Literal) -> list[exp.Expr]:
    text = literal.name.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise _malformed(literal)
    body, at, found = text[1:-1], 0, list[exp.Expr]()
    while body.strip():
        match = _ELEMENT.match(body, at)
        if match is None:
            raise _malformed(literal)
        quoted, plain = match.groups()
        if plain is not None and plain.upper() == "NULL":
            found.append(exp.null())
        else:
            value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
            found.append(exp.Literal.string(value))
        at = match.end()
        if at == len(body):
            break
        if body[at] != ",":
            raise _malformed(literal)
        at += 1
    return found


def _malformed(literal: exp.Literal) -> InvalidTextRepresentation:
    return InvalidTextRepresentation(
        f"malformed array literal: '{literal.name[:40]}'",
        hint="Write it like '{1,2,3}', one-dimensional, with quotes around odd elements.",
        position=position(literal),
    )
