"""The type of a column, and whether its values are an attribute's cells, constants or others.

A group key is a column above the aggregation and keeps its values: a bin is represented by its
lower edge there too, a day by its midnight. Functions that only select one of several values (MAX,
COALESCE, LAG) keep them as well.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, NamedTuple, TypeAlias

from sqlglot import exp

from tallyveil.errors import UndefinedFunction
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.private.linear import is_constant
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.lookup import Lookup
from tallyveil.rewriter.resolve.record_queries import reads_records
from tallyveil.rewriter.sql.nodes import function_name
from tallyveil.rewriter.sql.types import common_type, declared_type, family, postgres_type
from tallyveil.rewriter.sql.vocabulary import static_type

__all__ = [
    "OF_TYPE_NAME", "Lineage", "NameColumns", "Origin", "Origins", "ResultTypes", "Scope",
    "constants_among", "holder",
]  # fmt: skip


class Scope(Lookup[str]):
    """The types of one statement's expressions, each computed once.

    Call ``type_of`` before changing the expression.
    """

    def type_of(self, node: exp.Expr | None) -> str | None:
        """The type as `types` names it, or None if it takes DuckDB to know."""
        return self.of(node)

    def need_family(
        self, node: exp.Expr, argument: exp.Expr, families: Container[str | None], hint: str
    ) -> None:
        """Raise UndefinedFunction for an argument of another family. DuckDB would convert it;
        PostgreSQL has no such function.
        """
        kind = self.type_of(argument)
        if kind is not None and family(kind) not in families:
            raise UndefinedFunction(
                f"function {function_name(node)}({postgres_type(kind)}) does not exist", hint=hint
            )

    def at_record_level(self, node: exp.Expr) -> bool:
        """Whether the expression is over single records of a protected table, not aggregated.

        Common tables of records must be expanded first (`definitions`).
        """
        select = node.find_ancestor(exp.Select)
        return select is not None and reads_records(select) and node.find(exp.AggFunc) is None

    def _expression(self, node: exp.Expr) -> str | None:
        return static_type(node, self.type_of)

    def _public(self, table: str, name: str) -> str | None:
        return declared_type(self._catalog.public[table].get(name.lower()))

    def _attribute(self, table: str, attribute: Attribute) -> str | None:
        """The source's type if comparisons depend on it, else the declared type."""
        if not attribute.coarse or attribute.truncates is None:
            return attribute.sql_type
        return "TIMESTAMP" if attribute.truncates == "TIMESTAMP" else "TIMESTAMPTZ"

    def _united(self, sides: Sequence[str | None]) -> str | None:
        return common_type(sides)


class ResultTypes(Scope):
    """The types of a statement's result, in which attributes have their declared types."""

    def __init__(self, catalog: Catalog, dialect: str) -> None:
        super().__init__(catalog)
        self._dialect = dialect

    def with_zone(self, query: exp.Expr) -> list[str]:
        """For each column of the query in order, its name if it has a time zone, else ''."""
        names = self._items(query)
        kinds = (self._output(query, number) for number in range(len(names)))
        return [n if kind == "TIMESTAMPTZ" else "" for n, kind in zip(names, kinds, strict=True)]

    def _attribute(self, table: str, attribute: Attribute) -> str | None:
        return attribute.sql_type

    def _expression(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            kind = self.type_of(node.this)
            # DuckDB casts a date to a timestamp, PostgreSQL to one with time zone.
            if kind is None or (kind == "DATE" and self._dialect == "duckdb"):
                return None
        return super()._expression(node)


OF_TYPE_NAME: Final = "of_type_name"
"""The mark of a constant that PostgreSQL has as the type name: current_user and its like."""


class NameColumns(Lookup[bool]):
    """Which columns are of PostgreSQL's type name: constants that are marked so."""

    def among(self, query: exp.Expr) -> frozenset[int]:
        """The numbers of these columns of the query."""
        numbers = range(len(self._items(query)))
        return frozenset(number for number in numbers if self._output(query, number))

    def _expression(self, node: exp.Expr) -> bool:
        return bool(node.meta_get(OF_TYPE_NAME))

    def _public(self, table: str, name: str) -> bool:
        return False

    def _attribute(self, table: str, attribute: Attribute) -> bool:
        return False

    def _united(self, sides: Sequence[bool | None]) -> bool:
        return all(sides)


class Origin(NamedTuple):
    """An attribute of a protected table."""

    table: str
    name: str


Origins: TypeAlias = tuple[Origin | exp.Expr | None, ...]
"""The attributes and the constants that a value may come from; None is anything else."""

_ANYTHING: Final[Origins] = (None,)

_PICKING: Final = (
    exp.Paren, exp.Min, exp.Max, exp.AnyValue, exp.Window, exp.Filter, exp.Any, exp.First, exp.Last,
    exp.FirstValue, exp.LastValue, exp.NthValue, exp.IgnoreNulls, exp.RespectNulls,
)  # fmt: skip


class Lineage(Lookup[Origins]):
    """Where the values of one statement's columns come from."""

    def constants(self, node: exp.Expr) -> list[exp.Expr]:
        """The constants among the possible values of an expression."""
        return constants_among(self.of(node))

    def _expression(self, node: exp.Expr) -> Origins:
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Null):
            return ()
        parts = _picked(node)
        if parts:
            return self._united([self.of(part) for part in parts])
        if isinstance(node, exp.Null):
            return ()
        return (node,) if is_constant(node) else _ANYTHING

    def _public(self, table: str, name: str) -> Origins:
        return _ANYTHING

    def _attribute(self, table: str, attribute: Attribute) -> Origins:
        return (Origin(table, attribute.name),)

    def _united(self, sides: Sequence[Origins | None]) -> Origins:
        """The origins of all sides, each attribute once."""
        found = [one for side in sides for one in (_ANYTHING if side is None else side)]
        plain = dict.fromkeys(one for one in found if not isinstance(one, exp.Expr))
        return (*plain, *(one for one in found if isinstance(one, exp.Expr)))


def constants_among(origins: Origins | None) -> list[exp.Expr]:
    return [one for one in origins or () if isinstance(one, exp.Expr)]


def _picked(node: exp.Expr) -> list[exp.Expr]:
    """The expressions of which one is the value of the node."""
    match node:
        case exp.Coalesce():
            return [node.this, *node.expressions]
        case exp.Case():
            return [*(branch.args["true"] for branch in node.args["ifs"]), *_default(node)]
        case exp.Lag() | exp.Lead():
            return [node.this, *_default(node)]
    return [node.this] if isinstance(node, _PICKING) and not node.expressions else []


def _default(node: exp.Expr) -> list[exp.Expr]:
    default = node.args.get("default")
    return [] if default is None else [default]


def holder(node: exp.Expr) -> exp.Expr | None:
    """The enclosing expression that may have the node's value as its own, or None."""
    around = node.parent
    if isinstance(around, exp.If):
        around = around.parent
    if around is None or not any(part is node for part in _picked(around)):
        return None
    return around
