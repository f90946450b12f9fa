"""The columns of FROM, and facts about them, which are looked up through subqueries and common
tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, TypeAlias, TypeVar

from sqlglot import exp

from tallyveil.errors import StatementTooComplex
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.record_queries import KIND, definition_of, renamed, sources
from tallyveil.rewriter.sql.nodes import is_star, leaves

__all__ = ["Columns", "Lookup", "Place", "items_for"]

MAX_COLUMNS: Final = 10_000

T = TypeVar("T")

Place: TypeAlias = tuple[exp.Expr, int]
"""An item of FROM, and the number of one of its columns."""

_Column: TypeAlias = tuple[str, exp.Expr | Place]


class Columns:
    """The columns of each item of one statement's FROMs, computed once and cached."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._selected: dict[int, list[_Column]] = {}
        self._named: dict[int, list[str]] = {}
        self._kept: list[exp.Expr] = []  # so that no id is reused

    def column_names(self, column: exp.Column) -> list[str]:
        """The names of all columns that are visible where this column's name is found.

        That is in the innermost FROM that has the name, in any case.
        """
        select = column.find_ancestor(exp.Select)
        while select is not None:
            if not column.table and column.name in _merged(select):
                return [column.name]
            found = [n for source in items_for(column, select) for n in self.names(source)]
            if any(name.lower() == column.name.lower() for name in found):
                return found
            select = _enclosing(select)
        return []

    def places(self, column: exp.Column, select: exp.Select) -> list[Place]:
        """The places in the SELECT's own FROM that the column may mean."""
        return [
            (source, self.names(source).index(column.name))
            for source in items_for(column, select)
            if column.name in self.names(source)
        ]

    def value(self, select: exp.Select, number: int) -> exp.Expr | Place | None:
        """The SELECT's column of that number: an expression, or for ``*`` its place in FROM."""
        columns = self._columns(select)
        return columns[number][1] if number < len(columns) else None

    def names(self, source: exp.Expr) -> list[str]:
        """The names of the columns of an item of FROM, as it renames them.

        Raises StatementTooComplex if * of * gives too many.
        """
        if id(source) not in self._named:
            self._kept.append(source)
            self._named[id(source)] = renamed(source, self._listed(source))
        return self._named[id(source)]

    def _listed(self, source: exp.Expr) -> list[str]:
        definition = definition_of(source)
        if definition is not None:
            return renamed(definition, self._items(definition.this))
        if source.meta_get(KIND) == "protected":
            return list(self._catalog.domains[source.name].names)
        if source.meta_get(KIND) == "public":
            return list(self._catalog.public[source.name.removeprefix("__public_")])
        return self._items(source.this if isinstance(source, exp.Subquery) else source)

    def are_known(self, source: exp.Expr) -> bool:
        """Whether `names` surely has all columns of an item of FROM."""
        if renamed(source, ()) or source.meta_get(KIND) in ("protected", "public"):
            return True
        definition = definition_of(source)
        if definition is None and not isinstance(source, exp.Subquery):
            return False
        first = leaves(source if definition is None else definition.this)[0]
        return isinstance(first, exp.Select) and all(
            self.are_known(inner)
            for inner in (sources(first) if any(map(is_star, first.expressions)) else ())
        )

    def _items(self, query: exp.Expr) -> list[str]:
        """The names of a query's columns; a UNION has those of its first query."""
        first = leaves(query)[0]
        if isinstance(first, exp.Values):
            width = len(first.expressions[0].expressions)
            return renamed(first, [f"column{number + 1}" for number in range(width)])
        return [name for name, _ in self._columns(first)] if isinstance(first, exp.Select) else []

    def _columns(self, select: exp.Select) -> list[_Column]:
        if id(select) not in self._selected:
            self._kept.append(select)
            columns: list[_Column] = []
            for item in select.expressions:
                if is_star(item):
                    columns += self._star(select, item)
                else:
                    columns.append((item.alias_or_name, item.unalias()))
                if len(columns) > MAX_COLUMNS:
                    raise StatementTooComplex(
                        f"a subquery of the statement has more than {MAX_COLUMNS} columns",
                        hint="Name the columns instead of writing *.",
                    )
            self._selected[id(select)] = columns
        return self._selected[id(select)]

    def _star(self, query: exp.Select, item: exp.Expr) -> list[_Column]:
        """The columns of * or table.*; * has a column of USING once."""
        columns: list[_Column] = [
            (name, (source, number))
            for source in items_for(item, query)
            for number, name in enumerate(self.names(source))
        ]
        if isinstance(item, exp.Column) and item.table:
            return columns
        merged, seen = _merged(query), set[str]()
        kept = []
        for column in columns:
            if column[0] not in merged or column[0] not in seen:
                kept.append(column)
            seen.add(column[0])
        return kept

    def refuse_wide(self, tree: exp.Expr) -> None:
        """Raise StatementTooComplex if * gives more than MAX_COLUMNS columns."""
        for select in tree.find_all(exp.Select):
            if any(map(is_star, select.expressions)):
                for source in sources(select):
                    self.names(source)


class Lookup(Columns, ABC, Generic[T]):
    """A fact about each of one statement's expressions, computed once. A column has that of the
    expression that it names.

    Call ``of`` before changing the expression.
    """

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.relations: dict[str, str] = {}  # names of relations met so far, by their lower case
        self._known: dict[int, T | None] = {}
        self._found: dict[tuple[int, int], T | None] = {}

    @abstractmethod
    def _expression(self, node: exp.Expr) -> T | None:
        """The fact about an expression that is neither a column nor a query."""

    @abstractmethod
    def _public(self, table: str, name: str) -> T | None:
        """The fact about a public table's column."""

    @abstractmethod
    def _attribute(self, table: str, attribute: Attribute) -> T | None:
        """The fact about an attribute of a protected table."""

    @abstractmethod
    def _united(self, sides: Sequence[T | None]) -> T | None:
        """The fact about a column that has the values of several expressions."""

    def of(self, node: exp.Expr | None) -> T | None:
        """Return the fact about an expression, or None if it is not known."""
        if node is None:
            return None
        if id(node) not in self._known:
            self._known[id(node)] = None  # a circular definition has none
            self._kept.append(node)
            self._known[id(node)] = self._compute(node)
        return self._known[id(node)]

    def _compute(self, node: exp.Expr) -> T | None:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Query):
            return self._output(node, 0)
        return self._expression(node)

    def _column(self, column: exp.Column) -> T | None:
        select = column.find_ancestor(exp.Select)
        while select is not None:
            for place in self.places(column, select):
                found = self._in_place(*place)
                if found is not None:
                    return found
            if not column.table:
                for item in select.expressions:
                    if isinstance(item, exp.Alias) and item.alias == column.name:
                        return self.of(item.this)
            select = _enclosing(select)
        return None

    def in_source(self, source: exp.Expr, name: str) -> T | None:
        """The fact about the column ``name`` of an item of FROM."""
        names = self.names(source)
        return self._in_place(source, names.index(name)) if name in names else None

    def _in_place(self, source: exp.Expr, number: int) -> T | None:
        definition = definition_of(source)
        key = (id(source if definition is None else definition), number)
        if key not in self._found:
            self._found[key] = None
            self._kept.append(source)
            self._found[key] = self._looked_up(source, definition, number)
        return self._found[key]

    def _looked_up(self, source: exp.Expr, definition: exp.CTE | None, number: int) -> T | None:
        if definition is not None:
            return self._output(definition.this, number)
        kind = source.meta_get(KIND)
        if kind not in ("protected", "public"):
            return self._output(source, number)
        name = self._listed(source)[number]
        if kind == "public":
            return self._public(source.name, name)
        return self._attribute(source.name, self._catalog.domains[source.name][name])

    def _output(self, query: exp.Expr, number: int) -> T | None:
        """The fact about a column by number: the sides of a UNION may name it differently."""
        sides = leaves(query)
        found = [self._of_side(side, number) for side in sides]
        return found[0] if len(sides) == 1 else self._united(found)

    def _of_side(self, query: exp.Expr, number: int) -> T | None:
        if isinstance(query, exp.Values):
            rows = [row.expressions for row in query.expressions]
            return self._united([self.of(row[number]) for row in rows if number < len(row)])
        value = self.value(query, number) if isinstance(query, exp.Select) else None
        return self._in_place(*value) if isinstance(value, tuple) else self.of(value)


def items_for(node: exp.Expr, select: exp.Select) -> list[exp.Expr]:
    """The items of FROM that a column or ``*`` may belong to. It may name its table."""
    table = node.table if isinstance(node, exp.Column) else ""
    return [item for item in sources(select) if not table or item.alias_or_name == table]


def _merged(select: exp.Select) -> set[str]:
    """The names of the columns that JOIN … USING merges."""
    joins = select.args.get("joins") or ()
    return {name.name for join in joins for name in join.args.get("using") or ()}


def _enclosing(select: exp.Select) -> exp.Select | None:
    """The SELECT whose columns are visible too, if this one is nested in its expressions."""
    node: exp.Expr = select
    while isinstance(node.parent, exp.Subquery | exp.SetOperation):
        node = node.parent
    if isinstance(node.parent, exp.From | exp.Join | exp.CTE):
        return None
    return node.find_ancestor(exp.Select)
