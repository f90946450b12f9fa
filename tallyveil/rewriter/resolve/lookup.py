"""A fact about a column: through FROM, subqueries and common tables to what it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from sqlglot import exp

from tallyveil.errors import StatementTooComplex
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.resolve.catalog import Catalog
from tallyveil.rewriter.resolve.names import Reference
from tallyveil.rewriter.resolve.records import KIND, sources
from tallyveil.rewriter.sql.check import is_star

__all__ = ["MAX_COLUMNS", "Lookup"]

MAX_COLUMNS: Final = 10_000

T = TypeVar("T")


class Lookup(ABC, Generic[T]):
    """A fact about each of one statement's expressions, computed once, which those of columns
    take from what the columns are of.

    ``of`` is to be asked before the expression is changed.
    """

    def __init__(self, references: Iterable[Reference], catalog: Catalog) -> None:
        self._common = {id(r.node): r.definition for r in references if r.definition is not None}
        self._catalog = catalog
        self.relations: dict[str, str] = {}  # names of relations met so far, by their lower case
        self._known: dict[int, T | None] = {}
        self._found: dict[tuple[int, str], T | None] = {}
        self._named: dict[int, list[str]] = {}
        self._kept: list[exp.Expr] = []  # so that no id is used twice

    @abstractmethod
    def _expression(self, node: exp.Expr) -> T | None:
        """The fact about what is neither a column nor a query."""

    @abstractmethod
    def _public(self, table: str, name: str) -> T | None:
        """The fact about a public table's column."""

    @abstractmethod
    def _attribute(self, table: str, attribute: Attribute) -> T | None:
        """The fact about an attribute of a protected table."""

    @abstractmethod
    def _united(self, sides: Sequence[T | None]) -> T | None:
        """The fact about a column that has the values of several."""

    def _values(self, rows: exp.Values, name: str | None, alias: exp.TableAlias | None) -> T | None:
        """The fact about a column of VALUES; None where nobody asks."""
        return None

    def of(self, node: exp.Expr | None) -> T | None:
        """None where it is not known."""
        if node is None:
            return None
        if id(node) not in self._known:
            self._known[id(node)] = None  # a definition in a circle has none
            self._kept.append(node)
            self._known[id(node)] = self._compute(node)
        return self._known[id(node)]

    def column_names(self, column: exp.Column) -> list[str]:
        """The names of the columns that the column's may mean: of the subqueries in its FROM.

        The innermost FROM that has the name, in whichever case, decides.
        """
        select = column.find_ancestor(exp.Select)
        while select is not None:
            if not column.table and column.name in _merged(select):
                return [column.name]
            found: list[str] = []
            for name, source in _sources(select):
                if not column.table or column.table == name:
                    found += self._names(source)
            if any(name.lower() == column.name.lower() for name in found):
                return found
            select = _enclosing(select)
        return []

    def _names(self, source: exp.Expr) -> list[str]:
        """The names of the columns of a subquery, a common, a protected or a public table.

        Raises StatementTooComplex where * of * makes too many of them.
        """
        holder = self._common.get(id(source), source)
        if id(holder) not in self._named:
            self._kept.append(holder)
            self._named[id(holder)] = self._listed(holder)
        return self._named[id(holder)]

    def _listed(self, source: exp.Expr) -> list[str]:
        if source.meta.get(KIND) == "protected":
            return list(self._catalog.domains[source.name].names)
        if source.meta.get(KIND) == "public":
            return list(self._catalog.public[source.name])
        if not isinstance(source, exp.Subquery | exp.CTE):
            return []
        alias = source.args.get("alias")
        renamed = [c.name for c in alias.columns] if alias is not None else []
        return [*renamed, *self._items(source.this)[len(renamed) :]]

    def _items(self, query: exp.Expr) -> list[str]:
        """The names of a query's columns."""
        first, names = _leaves(query)[0], list[str]()
        if not isinstance(first, exp.Select):
            return names
        for item in first.expressions:
            if is_star(item):
                names += self._star(first, item)
            else:
                names.append(item.alias_or_name)
            if len(names) > MAX_COLUMNS:
                raise StatementTooComplex(
                    f"a subquery of the statement has more than {MAX_COLUMNS} columns",
                    hint="Name the columns instead of writing *.",
                )
        return names

    def _star(self, query: exp.Select, item: exp.Expr) -> list[str]:
        """The names that * or table.* stands for: * has a column of USING once."""
        names = [name for inner in _starred(query, item) for name in self._names(inner)]
        if isinstance(item, exp.Column):
            return names
        once = _merged(query)
        first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        return [name for n, name in enumerate(names) if name not in once or first[name] == n]

    def refuse_wide(self, tree: exp.Expr) -> None:
        """Raise StatementTooComplex where * stands for more than MAX_COLUMNS columns."""
        for select in tree.find_all(exp.Select):
            if any(map(is_star, select.expressions)):
                for _, source in _sources(select):
                    self._names(source)

    def _compute(self, node: exp.Expr) -> T | None:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Query):
            return self._output(node, None)
        return self._expression(node)

    def _column(self, column: exp.Column) -> T | None:
        select = column.find_ancestor(exp.Select)
        while select is not None:
            for name, source in _sources(select):
                if not column.table or column.table == name:
                    found = self.in_source(source, column.name)
                    if found is not None:
                        return found
            if not column.table:
                for item in select.expressions:
                    if isinstance(item, exp.Alias) and item.alias == column.name:
                        return self.of(item.this)
            select = _enclosing(select)
        return None

    def in_source(self, source: exp.Expr, name: str) -> T | None:
        """Of the column called ``name`` of an item of FROM."""
        key = (id(self._common.get(id(source), source)), name)
        if key not in self._found:
            self._found[key] = None
            self._kept.append(source)
            self._found[key] = self._looked_up(source, name)
        return self._found[key]

    def _looked_up(self, source: exp.Expr, name: str) -> T | None:
        if isinstance(source, exp.Subquery):
            return self._output(source.this, name, source.args.get("alias"))
        if isinstance(source, exp.Values):
            return self._output(source, name)
        definition = self._common.get(id(source))
        if definition is not None:
            return self._output(definition.this, name, definition.args.get("alias"))
        if not isinstance(source, exp.Table):
            return None
        if source.meta.get(KIND) == "public":
            return self._public(source.name, name)
        domain = self._catalog.domains.get(source.name)
        if source.meta.get(KIND) != "protected" or domain is None or name not in domain:
            return None
        return self._attribute(source.name, domain[name])

    def _output(
        self, query: exp.Expr, name: str | None, alias: exp.TableAlias | None = None
    ) -> T | None:
        """Of the column called ``name``, or of the first one."""
        if isinstance(query, exp.Subquery):
            return self._output(query.this, name, alias)
        if isinstance(query, exp.SetOperation):
            return self._united(self._sides(query, name, alias))
        if isinstance(query, exp.Values):
            return self._values(query, name, alias or query.args.get("alias"))
        if not isinstance(query, exp.Select):
            return None
        renamed = [c.name for c in alias.columns] if alias is not None else []
        for number, item in enumerate(query.expressions):
            if is_star(item):
                starred = self._starred(query, item, name)
                if starred is not None:
                    return starred
                continue
            called = renamed[number] if number < len(renamed) else item.alias_or_name
            if name is None or called == name:
                return self.of(item.unalias())
        return None

    def _sides(
        self, query: exp.SetOperation, name: str | None, alias: exp.TableAlias | None
    ) -> list[T | None]:
        """Of the columns that stand in one place: each side may call them by names of its own."""
        sides = _leaves(query)
        if name is None:
            return [self._output(side, None) for side in sides]
        named = [self._items(side) for side in sides]
        renamed = [c.name for c in alias.columns] if alias is not None else []
        names = [*renamed, *named[0][len(renamed) :]]
        place = names.index(name) if name in names else len(names)
        return [
            self._output(side, own[place]) if place < len(own) else None
            for side, own in zip(sides, named, strict=True)
        ]

    def _starred(self, select: exp.Select, item: exp.Expr, name: str | None) -> T | None:
        """Of a column of * or table.*"""
        if name is None:
            return None
        found = [self.in_source(source, name) for source in _starred(select, item)]
        return next((one for one in found if one is not None), None)


def _leaves(query: exp.Expr) -> list[exp.Expr]:
    """The queries that a UNION is of, from left to right."""
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


def _starred(select: exp.Select, item: exp.Expr) -> list[exp.Expr]:
    """What * or table.* stands for."""
    table = item.table if isinstance(item, exp.Column) else ""
    return [source for name, source in _sources(select) if not table or name == table]


def _merged(select: exp.Select) -> set[str]:
    """The columns that JOIN … USING makes one of two."""
    joins = select.args.get("joins") or ()
    return {name.name for join in joins for name in join.args.get("using") or ()}


def _enclosing(select: exp.Select) -> exp.Select | None:
    """The SELECT whose columns are visible here too: that of an expression this one stands in."""
    node: exp.Expr = select
    while isinstance(node.parent, exp.Subquery | exp.SetOperation):
        node = node.parent
    if isinstance(node.parent, exp.From | exp.Join | exp.CTE):
        return None
    return node.find_ancestor(exp.Select)


def _sources(select: exp.Select) -> list[tuple[str, exp.Expr]]:
    """The (name, table or subquery) of FROM and its joins."""
    return [(node.alias_or_name, node) for node in sources(select)]
