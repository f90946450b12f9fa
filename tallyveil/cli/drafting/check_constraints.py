"""What a table's CHECK constraints say about the values of a column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

__all__ = ["Checked", "checked"]


class Checked(NamedTuple):
    """The values, or the lowest and highest value, that a column's constraints allow, as far as
    they are simple; and the constraints."""

    values: tuple[Any, ...] | None
    low: Any
    high: Any
    words: tuple[str, ...]


def checked(column: str, checks: Sequence[str]) -> Checked:
    """What constraints of the form ``column BETWEEN a AND b``, ``column >= a``, ``column IN (…)``
    and their conjunctions say of the column."""
    values, lows, highs, words = None, [], [], []
    for text in checks:
        with suppress(SqlglotError):
            tree = sqlglot.parse_one(text, read="duckdb")
            if not any(_is(column, found) for found in tree.find_all(exp.Column)):
                continue
            words.append(tree.sql("duckdb"))
            for condition in _conditions(tree):
                match condition:
                    case exp.In() if _is(column, condition.this):
                        values = _literals(condition.expressions) or values
                    case exp.Between() if _is(column, condition.this):
                        lows.append(_literal(condition.args["low"]))
                        highs.append(_literal(condition.args["high"]))
                    case exp.GTE() if _is(column, condition.this):
                        lows.append(_literal(condition.expression))
                    case exp.LTE() if _is(column, condition.this):
                        highs.append(_literal(condition.expression))
    low = max((v for v in lows if v is not None), default=None)
    high = min((v for v in highs if v is not None), default=None)
    return Checked(values, low, high, tuple(words))


def _conditions(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        for side in (tree.left, tree.right):
            yield from _conditions(side)
    else:
        yield tree


def _is(column: str, node: exp.Expr) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Column) and node.name.lower() == column.lower()


def _literals(nodes: Sequence[exp.Expr]) -> tuple[Any, ...] | None:
    """The distinct values of a list of literals of one type, in order."""
    found = list(dict.fromkeys(map(_literal, nodes)))
    alike = {type(value) for value in found}
    return tuple(found) if len(alike) == 1 and None not in found else None


def _literal(node: exp.Expr) -> str | int | dt.date | None:
    """A text, whole number or day; None for anything else."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        number = _literal(node.this)
        return -number if isinstance(number, int) else None
    if isinstance(node, exp.Cast) and node.to.is_type("date"):
        with suppress(ValueError):
            return dt.date.fromisoformat(node.this.name)
        return None
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        with suppress(ValueError):
            return int(node.name)
    return None
