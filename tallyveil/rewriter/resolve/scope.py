"""What type a column has: through FROM, subqueries and common tables to declared attributes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.resolve.catalog import Catalog
from tallyveil.rewriter.resolve.finiteness import Finiteness
from tallyveil.rewriter.resolve.lookup import MAX_COLUMNS, Lookup
from tallyveil.rewriter.resolve.names import Reference
from tallyveil.rewriter.resolve.records import reads_records
from tallyveil.rewriter.sql.types import common_type, declared_type, static_type

__all__ = ["MAX_COLUMNS", "Outputs", "Scope"]


class Scope(Lookup[str]):
    """The types of one statement's expressions, each computed once.

    ``type_of`` is to be asked before the expression is changed.
    """

    def __init__(self, references: Sequence[Reference], catalog: Catalog) -> None:
        super().__init__(references, catalog)
        self._finiteness = Finiteness(references, catalog)

    def is_finite(self, node: exp.Expr) -> bool:
        """Whether no date or timestamp that it can be is infinite."""
        return self._finiteness.of(node) is True

    def type_of(self, node: exp.Expr | None) -> str | None:
        """The type as `types` names it, or None where it takes DuckDB to tell."""
        return self.of(node)

    def at_record_level(self, node: exp.Expr) -> bool:
        """Whether the expression is about single records: of a protected table, not aggregated.

        Common tables of records are to be written out before (`common`).
        """
        select = node.find_ancestor(exp.Select)
        return select is not None and reads_records(select) and node.find(exp.AggFunc) is None

    def _expression(self, node: exp.Expr) -> str | None:
        return static_type(node, self.type_of)

    def _public(self, table: str, name: str) -> str | None:
        return declared_type(self._catalog.public[table].get(name.lower()))

    def _attribute(self, table: str, attribute: Attribute) -> str | None:
        """The source's, where it decides what a comparison means."""
        if not attribute.coarse or attribute.truncates is None:
            return attribute.sql_type
        return "TIMESTAMP" if attribute.truncates == "TIMESTAMP" else "TIMESTAMPTZ"

    def _values(self, values: Sequence[exp.Expr]) -> str | None:
        return common_type([self.of(value) for value in values])

    def _united(self, sides: Sequence[str | None]) -> str | None:
        return common_type(sides)


class Outputs(Scope):
    """The types of a statement's result, where attributes have those that they are declared of."""

    def __init__(self, references: Sequence[Reference], catalog: Catalog, dialect: str) -> None:
        super().__init__(references, catalog)
        self._dialect = dialect

    def with_zone(self, query: exp.Expr) -> list[str]:
        """For each column of the query, by its number, its name if it has a time zone, else ''."""
        names = self._items(query)
        kinds = (self._output(query, number) for number in range(len(names)))
        return [n if kind == "TIMESTAMPTZ" else "" for n, kind in zip(names, kinds, strict=True)]

    def _attribute(self, table: str, attribute: Attribute) -> str | None:
        return attribute.sql_type

    def _expression(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            kind = self.type_of(node.this)
            # DuckDB takes a date for a timestamp, PostgreSQL for one with a zone.
            if kind is None or (kind == "DATE" and self._dialect == "duckdb"):
                return None
        return super()._expression(node)
