"""Parameters by name: DuckDB's ``$name``, for which a mapping has the value."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sqlglot.tokenizer_core import TokenType

from tallyveil.errors import UndefinedParameter
from tallyveil.rewriter.sql.statement_text import Dialect, split

__all__ = ["by_number"]


def by_number(sql: str, values: Mapping[str, Any], dialect: Dialect) -> tuple[str, list[Any]]:
    """Replace each ``$name`` by ``$n``, and return the text with the values in that order.

    Blanks fill the place of longer names, so that positions in the text stay. Raises
    UndefinedParameter for a name without a value, a value without a name, and for ``?``.
    """
    tokens = [token for piece in split(sql, dialect) for token in piece.tokens]
    numbers: dict[str, int] = {}
    parts, end = [], 0
    for sign, token in pairwise(tokens):
        if sign.token_type is not TokenType.PARAMETER:
            continue
        name = sql[token.start : token.end + 1]
        if name not in values:
            raise _undefined(f"there is no value for parameter ${name}", sign.start)
        number = numbers.setdefault(name, len(numbers) + 1)
        parts += [sql[end : sign.start], f"${number}".ljust(len(name) + 1)]
        end = token.end + 1
    marks = [token for token in tokens if token.text == "?"]
    if marks and marks[0].token_type is TokenType.PLACEHOLDER:
        raise _undefined("? has no name", marks[0].start)
    others = [name for name in values if name not in numbers]
    if others:
        raise _undefined(f"the statement has no parameter ${others[0]}")
    return "".join(parts) + sql[end:], [values[name] for name in numbers]


def _undefined(message: str, start: int | None = None) -> UndefinedParameter:
    return UndefinedParameter(
        message,
        hint="Write $name for each name of the values, or ? for each value of a list.",
        position=None if start is None else start + 1,
    )
