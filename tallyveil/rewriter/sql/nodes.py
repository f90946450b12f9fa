"""Properties of tree nodes that every pass needs, and constructors of small expressions."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import AmbiguousColumn, StatementError
from tallyveil.rewriter.sql import vocabulary as known

__all__ = [
    "COMPARISONS", "all_nodes", "ambiguous", "as_type", "call", "conjunction", "conjuncts",
    "duckdb_sql", "filtered", "function_name", "is_constant", "is_star", "leaves", "meant",
    "own_alias", "position", "rendered", "unfiltered", "unlink", "visit", "whole_number",
]  # fmt: skip

N = TypeVar("N", bound=exp.Expr)
Operator: TypeAlias = type[exp.Binary]

_LONGEST_NAME: Final = 63


@dataclass(frozen=True)
class Comparison:
    """``flipped`` holds of (b, a) if this holds of (a, b); ``opposite`` if this does not."""

    sign: str
    holds: Callable[[Any, Any], bool]
    flipped: Operator
    opposite: Operator


# The six operators that compare two values.
COMPARISONS: Final[Mapping[type[exp.Expr], Comparison]] = {
    exp.EQ: Comparison("=", operator.eq, exp.EQ, exp.NEQ),
    exp.NEQ: Comparison("<>", operator.ne, exp.NEQ, exp.EQ),
    exp.LT: Comparison("<", operator.lt, exp.GT, exp.GTE),
    exp.LTE: Comparison("<=", operator.le, exp.GTE, exp.GT),
    exp.GT: Comparison(">", operator.gt, exp.LT, exp.LTE),
    exp.GTE: Comparison(">=", operator.ge, exp.LTE, exp.LT),
}


def position(node: exp.Expr) -> int | None:
    """Where the node begins in its statement, counting characters from 1."""
    starts = [at for n in node.walk() if (at := n.meta_get("start")) is not None]
    return min(starts) + 1 if starts else None


def ambiguous(column: exp.Column, hint: str | None = None) -> AmbiguousColumn:
    message = f'column reference "{column.name}" is ambiguous'
    return AmbiguousColumn(message, hint=hint, position=position(column))


def function_name(node: exp.Expr) -> str:
    """The name a user would know the function by."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if type(node) in known.NAMES:
        return known.NAMES[type(node)]
    written = node.meta_get("written")
    if written is not None:
        return str(written)
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key


def meant(name: str, known: Iterable[str]) -> str:
    """The start of a hint if one of the known names is spelt nearly alike, else nothing."""
    names = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name[:_LONGEST_NAME].lower(), names, n=1, cutoff=0.75)
    found = names[near[0]] if near else name
    return "" if found == name else f"Did you mean {found}? "


def is_constant(node: exp.Expr) -> bool:
    """Whether the expression mentions no column, aggregate or query."""
    varying = (exp.Column, exp.AggFunc, exp.Window, exp.Query)
    return not any(isinstance(n, varying) for n in node.walk())


def is_star(item: exp.Expr) -> bool:
    """Whether an item of a SELECT is * or name.*."""
    return isinstance(item.this if isinstance(item, exp.Column) else item, exp.Star)


def all_nodes(tree: exp.Expr, *types: type[N]) -> list[N]:
    """As `find_all`, which is compiled: no other thread runs until it returns."""
    return [node for node in tree.walk() if isinstance(node, types)]


def visit(nodes: Iterable[N], look: Callable[[N], None]) -> None:
    """Call ``look`` with each node. An error without a position gets the node's, unless the node is
    a whole query.
    """
    for node in nodes:
        deadline.check()
        try:
            look(node)
        except StatementError as error:
            if error.position is None and not isinstance(node, exp.Query):
                error.position = position(node)
            raise


def whole_number(node: object) -> int | None:
    """The value of a number that is written in digits alone."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        return int(node.this)
    return None


def own_alias(table: exp.Table) -> exp.TableAlias:
    """The name of a table in FROM, with the names that its columns are given there."""
    given = table.args.get("alias")
    columns = [column.copy() for column in given.columns] if given is not None else []
    name = exp.to_identifier(table.alias or table.name, quoted=True)
    return exp.TableAlias(this=name, columns=columns)


def leaves(query: exp.Expr) -> list[exp.Expr]:
    """The queries that a UNION combines, from left to right."""
    found, stack = [], [query]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.SetOperation):
            stack += [node.expression, node.this]
        elif isinstance(node, exp.Subquery):
            stack.append(node.this)
        else:
            found.append(node)
    return found


def unlink(trees: Iterable[exp.Expr]) -> None:
    """Remove each node's link to its parent, after the last step that follows one.

    A tree without these links is freed with the last reference to it. With them it lasts until a
    collection of garbage, which stops all threads for as long as it takes to free all such trees.
    """
    for tree in trees:
        for node in all_nodes(tree, exp.Expr):
            node.parent = None


def duckdb_sql(node: exp.Expr) -> str:
    """The tree as SQL for DuckDB, with every name in quotes."""
    deadline.check()
    return rendered(node, "duckdb", identify=True, comments=False)


def rendered(node: exp.Expr, dialect: str, **options: Any) -> str:
    """The tree as SQL. The generator changes a tree, so that it gets a copy, which is unlinked."""
    copy = node.copy()
    text: str = copy.sql(dialect, copy=False, **options)
    unlink([copy])
    return text


def as_type(node: exp.Expr, kind: str | exp.DataType) -> exp.Cast:
    """``CAST(node AS kind)``, the type by DuckDB's name."""
    return exp.Cast(this=node, to=exp.DataType.build(kind, dialect="duckdb"))


def filtered(aggregate: exp.Expr) -> exp.Expr:
    """An aggregate with its FILTER, if it has one."""
    around = aggregate.parent
    return around if isinstance(around, exp.Filter) and around.this is aggregate else aggregate


def unfiltered(aggregate: exp.Expr) -> exp.Expr:
    """An aggregate without its FILTER, if it has one."""
    inner: exp.Expr = aggregate.this if isinstance(aggregate, exp.Filter) else aggregate
    return inner


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that must all be true for a row to pass; NULL does not pass."""
    found, stack = list[exp.Expr](), [condition]
    while stack:
        node = stack.pop()
        inner = node.unnest()
        if isinstance(inner, exp.And):
            stack += [inner.expression, inner.this]
        else:
            found.append(node)
    return found


def conjunction(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Join one or more conditions by AND. The parser's own `and_` takes no subquery as one."""
    whole, *others = parts
    for other in others:
        left, right = (
            n if isinstance(n, exp.And) else exp.paren(n, copy=False) for n in (whole, other)
        )
        whole = exp.And(this=left, expression=right)
    return whole
