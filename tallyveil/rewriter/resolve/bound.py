"""What each column of a statement is, and what is known about the value of each expression.

Names are resolved once for a statement. A group key is a column above the aggregation and keeps its
values: a bin is represented by its lower edge there too, a day by its midnight. Functions that only
select one of several values (MAX, COALESCE, LAG) keep them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from sqlglot import exp

from tallyveil.errors import StatementTooComplex
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.record_queries import KIND, definition_of, renamed, sources
from tallyveil.rewriter.sql.nodes import is_constant, is_star, leaves
from tallyveil.rewriter.sql.types import common_type, declared_type
from tallyveil.rewriter.sql.vocabulary import static_type

__all__ = ["OF_TYPE_NAME", "Bound", "Facts", "Origin", "Origins", "Place", "items_for", "picked"]

MAX_COLUMNS: Final = 10_000

OF_TYPE_NAME: Final = "of_type_name"
"""The mark of a constant that PostgreSQL has as the type name: current_user and its like."""

Place: TypeAlias = tuple[exp.Expr, int]
"""An item of FROM, and the number of one of its columns."""

_Column: TypeAlias = tuple[str, int | Place]
"""A SELECT's column: its name, and its item's number, or for * the place in FROM it is taken from.
"""


class Origin(NamedTuple):
    """An attribute of a protected table."""

    table: str
    name: str


Origins: TypeAlias = tuple[Origin | exp.Expr | None, ...]
"""The attributes and expressions of which one is the value; None is anything else."""


class Facts(NamedTuple):
    """What is known about the value of an expression.

    ``type`` and ``declared`` are its type as `types` names it, or None if it takes DuckDB to know.
    An attribute has the source's type if comparisons depend on it, and in ``declared`` always the
    declared one. ``names`` says whether it is a constant marked `OF_TYPE_NAME`.
    """

    type: str | None = None
    declared: str | None = None
    origins: Origins = (None,)
    names: bool = False

    @property
    def constants(self) -> list[exp.Expr]:
        """The constants among its possible values."""
        return [one for one in self.origins if isinstance(one, exp.Expr) and is_constant(one)]


class Bound:
    """The columns of each item of FROM of one statement, and the facts about its expressions. A
    column has those of the expression that it names.

    Ask before changing an expression. Names hold for the statement, facts until ``forget_facts``,
    after each pass.
    """

    def __init__(self, catalog: Catalog, dialect: str) -> None:
        self.relations: dict[str, str] = {}  # names of relations met so far, by their lower case
        self._catalog = catalog
        self._dialect = dialect
        self._selected: dict[int, list[_Column]] = {}
        self._named: dict[int, list[str]] = {}
        self._facts: dict[int | tuple[int, int], Facts] = {}
        # Nodes whose ids are keys above, so that no id is reused.
        self._named_nodes: list[exp.Expr] = []
        self._nodes: list[exp.Expr] = []

    def forget_facts(self) -> None:
        self._facts.clear()
        self._nodes.clear()

    def forget_columns(self) -> None:
        """After columns were added to queries."""
        self._selected.clear()
        self._named.clear()
        self.forget_facts()

    # Names

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
        if not 0 <= number < len(columns):
            return None
        found = columns[number][1]
        if isinstance(found, tuple):
            return found
        item: exp.Expr = select.expressions[found]
        return item.unalias()

    def written(self, query: exp.Expr, number: int) -> list[exp.Expr]:
        """The expressions that a query's column is: one for each side of a UNION, and none for a
        column of a table."""
        found: list[exp.Expr] = []
        for side in leaves(query):
            value = self.value(side, number) if isinstance(side, exp.Select) else None
            if isinstance(value, tuple):
                found += self._written_in(*value)
            elif value is not None:
                found.append(value)
        return found

    def named(self, column: exp.Column) -> list[exp.Expr]:
        """As `written`, of the column of a query in FROM, or the item, that a name means."""
        meant = self._meant(column)
        if isinstance(meant, tuple):
            return self._written_in(*meant)
        return [] if meant is None else [meant]

    def _meant(self, column: exp.Column) -> Place | exp.Expr | None:
        """The innermost place in FROM, or item of a SELECT, that has the column's name."""
        select = column.find_ancestor(exp.Select)
        while select is not None:
            for place in self.places(column, select):
                return place
            if not column.table:
                for item in select.expressions:
                    if isinstance(item, exp.Alias) and item.alias == column.name:
                        meant: exp.Expr = item.this
                        return meant
            select = _enclosing(select)
        return None

    def _written_in(self, source: exp.Expr, number: int) -> list[exp.Expr]:
        definition = definition_of(source)
        return self.written(source if definition is None else definition.this, number)

    def names(self, source: exp.Expr) -> list[str]:
        """The names of the columns of an item of FROM, as it renames them.

        Raises StatementTooComplex if * of * gives too many.
        """
        if id(source) not in self._named:
            self._named_nodes.append(source)
            self._named[id(source)] = renamed(source, self._listed(source))
        return self._named[id(source)]

    def _listed(self, source: exp.Expr) -> list[str]:
        definition = definition_of(source)
        if definition is not None:
            return renamed(definition, self._items(definition.this))
        if source.meta_get(KIND) == "protected":
            return [one.name for one in self._catalog.domains[source.name].own]
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
            self._named_nodes.append(select)
            columns: list[_Column] = []
            for number, item in enumerate(select.expressions):
                if is_star(item):
                    columns += self._star(select, item)
                else:
                    columns.append((item.alias_or_name, number))
                if len(columns) > MAX_COLUMNS:
                    raise StatementTooComplex(
                        f"a subquery of the statement has more than {MAX_COLUMNS} columns",
                        hint="Name the columns instead of writing *.",
                    )
            self._selected[id(select)] = columns
        return self._selected[id(select)]

    def _star(self, query: exp.Select, item: exp.Expr) -> list[_Column]:
        """The columns of * or table.*; * has a column of USING once."""
        whole = not (isinstance(item, exp.Column) and item.table)
        merged, seen = _merged(query) if whole else set[str](), set[str]()
        columns: list[_Column] = []
        for source in items_for(item, query):
            for number, name in enumerate(self.names(source)):
                if name not in merged or name not in seen:
                    columns.append((name, (source, number)))
                seen.add(name)
        return columns

    def refuse_wide(self, tree: exp.Expr) -> None:
        """Raise StatementTooComplex if * gives more than MAX_COLUMNS columns."""
        for select in tree.find_all(exp.Select):
            if any(map(is_star, select.expressions)):
                for source in sources(select):
                    self.names(source)

    # Facts

    def type_of(self, node: exp.Expr | None) -> str | None:
        return self.of(node).type

    def declared_type_of(self, node: exp.Expr | None) -> str | None:
        return self.of(node).declared

    def of(self, node: exp.Expr | None) -> Facts:
        """The facts about an expression, or about the first column of a query."""
        if node is None:
            return Facts()
        if id(node) not in self._facts:
            self._facts[id(node)] = Facts()  # nothing is known of a circular definition
            self._nodes.append(node)
            self._facts[id(node)] = self._found(node)
        return self._facts[id(node)]

    def result(self, query: exp.Expr) -> list[tuple[str, Facts]]:
        """The name of each column of a query, and the facts about it."""
        names = self._items(query)
        return [(name, self._output(query, number)) for number, name in enumerate(names)]

    def in_source(self, source: exp.Expr, name: str) -> Facts:
        """The facts about the column ``name`` of an item of FROM."""
        names = self.names(source)
        return self._in_place(source, names.index(name)) if name in names else Facts()

    def _found(self, node: exp.Expr) -> Facts:
        if isinstance(node, exp.Column):
            meant = self._meant(node)
            return self._in_place(*meant) if isinstance(meant, tuple) else self.of(meant)
        if isinstance(node, exp.Query):
            return self._output(node, 0)
        declared = static_type(node, self.declared_type_of)
        if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            operand = self.declared_type_of(node.this)
            # DuckDB casts a date to a timestamp, PostgreSQL to one with time zone.
            if operand is None or (operand == "DATE" and self._dialect == "duckdb"):
                declared = None
        origins: Origins = (node,)
        parts = picked(node)
        if parts:
            origins = _origins(self.of(part) for part in parts)
        elif isinstance(node.this if isinstance(node, exp.Cast) else node, exp.Null):
            origins = ()
        names = bool(node.meta_get(OF_TYPE_NAME))
        return Facts(static_type(node, self.type_of), declared, origins, names)

    def _in_place(self, source: exp.Expr, number: int) -> Facts:
        definition = definition_of(source)
        key = (id(source if definition is None else definition), number)
        if key not in self._facts:
            self._facts[key] = Facts()
            self._nodes.append(source)
            self._facts[key] = self._looked_up(source, definition, number)
        return self._facts[key]

    def _looked_up(self, source: exp.Expr, definition: exp.CTE | None, number: int) -> Facts:
        kind = source.meta_get(KIND)
        if kind == "public":
            types = self._catalog.public[source.name.removeprefix("__public_")]
            found = declared_type(types.get(self._listed(source)[number].lower()))
            return Facts(found, found)
        if kind == "protected":
            attribute = self._catalog.domains[source.name][self._listed(source)[number]]
            kind = declared = declared_type(attribute.sql_type)
            if attribute.coarse and attribute.truncates is not None:
                kind = "TIMESTAMP" if attribute.truncates == "TIMESTAMP" else "TIMESTAMPTZ"
            return Facts(kind, declared, (Origin(source.name, attribute.name),))
        return self._output(source if definition is None else definition.this, number)

    def _output(self, query: exp.Expr, number: int) -> Facts:
        """The facts about a column by number: the sides of a UNION may name it differently."""
        return _united([self._of_side(side, number) for side in leaves(query)])

    def _of_side(self, query: exp.Expr, number: int) -> Facts:
        if isinstance(query, exp.Values):
            rows = [row.expressions for row in query.expressions]
            return _united([self.of(row[number]) for row in rows if number < len(row)])
        value = self.value(query, number) if isinstance(query, exp.Select) else None
        return self._in_place(*value) if isinstance(value, tuple) else self.of(value)


def _united(sides: Sequence[Facts]) -> Facts:
    """The facts about a column that has the values of several expressions."""
    return Facts(
        common_type([side.type for side in sides]),
        common_type([side.declared for side in sides]),
        _origins(sides),
        all(side.names for side in sides),
    )


def _origins(sides: Iterable[Facts]) -> Origins:
    """The origins of all sides, each attribute once."""
    found = [one for side in sides for one in side.origins]
    plain = dict.fromkeys(one for one in found if not isinstance(one, exp.Expr))
    return (*plain, *(one for one in found if isinstance(one, exp.Expr)))


_PICKING: Final = (
    exp.Paren, exp.Min, exp.Max, exp.AnyValue, exp.Window, exp.Filter, exp.Any, exp.First, exp.Last,
    exp.FirstValue, exp.LastValue, exp.NthValue, exp.IgnoreNulls, exp.RespectNulls,
)  # fmt: skip


def picked(node: exp.Expr) -> list[exp.Expr]:
    """The expressions of which one is the value of the node."""
    default = node.args.get("default")
    others = [] if default is None else [default]
    match node:
        case exp.Coalesce():
            return [node.this, *node.expressions]
        case exp.Case():
            return [*(branch.args["true"] for branch in node.args["ifs"]), *others]
        case exp.Lag() | exp.Lead():
            return [node.this, *others]
    return [node.this] if isinstance(node, _PICKING) and not node.expressions else []


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
