"""What type a column has: through FROM, subqueries and common tables to declared attributes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlglot import exp

from tallyveil.errors import StatementTooComplex
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.resolve.catalog import Catalog
from tallyveil.rewriter.resolve.names import Reference
from tallyveil.rewriter.resolve.records import KIND, reads_records, sources
from tallyveil.rewriter.sql.check import is_star
from tallyveil.rewriter.sql.types import common_type, declared_type, static_type

__all__ = ["MAX_COLUMNS", "Scope"]

MAX_COLUMNS: Final = 10_000


class Scope:
    """The types of one statement's expressions, each computed once.

    ``type_of`` is to be asked before the expression is changed.
    """

    def __init__(self, references: Iterable[Reference], catalog: Catalog) -> None:
        self._common = {id(r.node): r.definition for r in references if r.definition is not None}
        self._catalog = catalog
        self.relations: dict[str, str] = {}  # names of relations met so far, by their lower case
        self._known: dict[int, str | None] = {}
        self._found: dict[tuple[int, str], str | None] = {}
        self._named: dict[int, list[str]] = {}
        self._kept: list[exp.Expr] = []  # so that no id is used twice

    def type_of(self, node: exp.Expr | None) -> str | None:
        """The type as `types` names it, or None where it takes DuckDB to tell."""
        if node is None:
            return None
        if id(node) not in self._known:
            self._known[id(node)] = None  # a definition in a circle has no type
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
        query, alias = source.this, source.args.get("alias")
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        names: list[str] = []
        for item in query.expressions if isinstance(query, exp.Select) else ():
            if is_star(item):
                names += self._star(query, item)
            else:
                names.append(item.alias_or_name)
            if len(names) > MAX_COLUMNS:
                raise StatementTooComplex(
                    f"a subquery of the statement has more than {MAX_COLUMNS} columns",
                    hint="Name the columns instead of writing *.",
                )
        renamed = [c.name for c in alias.columns] if alias is not None else []
        return [*renamed, *names[len(renamed) :]]

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

    def at_record_level(self, node: exp.Expr) -> bool:
        """Whether the expression is about single records: of a protected table, not aggregated.

        Common tables of records are to be written out before (`common`).
        """
        select = node.find_ancestor(exp.Select)
        return select is not None and reads_records(select) and node.find(exp.AggFunc) is None

    def _compute(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Query):
            return self._output(node, None)
        return static_type(node, self.type_of)

    def _column(self, column: exp.Column) -> str | None:
        select = column.find_ancestor(exp.Select)
        while select is not None:
            for name, source in _sources(select):
                if not column.table or column.table == name:
                    found = self._in_source(source, column.name)
                    if found is not None:
                        return found
            if not column.table:
                for item in select.expressions:
                    if isinstance(item, exp.Alias) and item.alias == column.name:
                        return self.type_of(item.this)
            select = _enclosing(select)
        return None

    def _in_source(self, source: exp.Expr, name: str) -> str | None:
        key = (id(self._common.get(id(source), source)), name)
        if key not in self._found:
            self._found[key] = None
            self._kept.append(source)
            self._found[key] = self._looked_up(source, name)
        return self._found[key]

    def _looked_up(self, source: exp.Expr, name: str) -> str | None:
        if isinstance(source, exp.Subquery):
            return self._output(source.this, name, source.args.get("alias"))
        definition = self._common.get(id(source))
        if definition is not None:
            return self._output(definition.this, name, definition.args.get("alias"))
        if not isinstance(source, exp.Table):
            return None
        if source.meta.get(KIND) == "public":
            return declared_type(self._catalog.public[source.name].get(name.lower()))
        domain = self._catalog.domains.get(source.name)
        protected = source.meta.get(KIND) == "protected" and domain is not None
        return _attribute_type(domain[name]) if protected and domain and name in domain else None

    def _output(
        self, query: exp.Expr, name: str | None, alias: exp.TableAlias | None = None
    ) -> str | None:
        """The type of the column called ``name``, or of the first one."""
        if isinstance(query, exp.Subquery):
            return self._output(query.this, name, alias)
        if isinstance(query, exp.SetOperation):
            sides = (query.this, query.expression)
            return common_type([self._output(side, name, alias) for side in sides])
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
                return self.type_of(item.unalias())
        return None

    def _starred(self, select: exp.Select, item: exp.Expr, name: str | None) -> str | None:
        """The type of a column of * or table.*"""
        if name is None:
            return None
        found = [self._in_source(source, name) for source in _starred(select, item)]
        return next((kind for kind in found if kind is not None), None)


def _attribute_type(attribute: Attribute) -> str:
    """The source's, where it decides what a comparison means."""
    if not attribute.coarse or attribute.truncates is None:
        return attribute.sql_type
    return "TIMESTAMP" if attribute.truncates == "TIMESTAMP" else "TIMESTAMPTZ"


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
