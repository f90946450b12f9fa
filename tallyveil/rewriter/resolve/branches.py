"""Record-wise relations in normal form: a union of flat SELECTs over the domain relation.

Every projection, filter, join with public tables and UNION ALL of records is a bag union of
`Branch`es, each of which reads the records once:

    SELECT values FROM record [LEFT] JOIN public … WHERE conditions

Filters of a branch commute with the joins that follow, since these keep the record's side; those
before a RIGHT JOIN, which also keeps public rows without a record, are part of its ON. A record
contributes the sum over the branches of the rows it gives there. A row that matches twice counts
twice, and so does its sensitivity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import AmbiguousColumn, UndefinedColumn, UndefinedTable
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.resolve.record_queries import OUTER, level_nodes
from tallyveil.rewriter.sql.nodes import ambiguous, as_type, duckdb_sql, meant, position
from tallyveil.rewriter.sql.size import Size

__all__ = [
    "FIELD", "RECORD", "UNION", "Branch", "DomainSource", "Field", "Records", "is_resolved",
    "names_of", "own_columns", "public_queries",
]  # fmt: skip

# The key in the meta of a value that replaces a column, for the number of that column of FROM.
FIELD: Final = "field"

RECORD: Final = "__record"
UNION: Final = "__records"


@dataclass(frozen=True)
class Field:
    """A column of FROM: the name of its table, its own name, whether USING hides it, and the number
    of commas before it. USING sees only columns after the last comma.
    """

    table: str
    name: str
    hidden: bool = False
    part: int = 0


@dataclass
class Branch:
    """A flat SELECT: ``values`` are over the attributes of ``__record`` and the joined tables."""

    joins: list[exp.Join] = field(default_factory=list)
    where: list[exp.Expr] = field(default_factory=list)
    values: list[exp.Expr] = field(default_factory=list)


@dataclass
class Records:
    """The rows of FROM, each of which belongs to a record of one protected table.

    ``fields[i]`` is the value ``values[i]`` of every branch. ``size`` limits how a block's queries
    expand: a column that is named twice at every depth doubles each time.
    """

    domain: Domain
    fields: list[Field]
    branches: list[Branch]
    size: Size

    @property
    def kept(self) -> frozenset[str]:
        return DomainSource(self.branches).kept

    def knows(self, name: str) -> bool:
        return any(f.name == name and not f.hidden for f in self.fields)

    def find(self, column: exp.Column) -> int:
        """Return the number of the field that a column means.

        Raises UndefinedTable, UndefinedColumn, AmbiguousColumn.
        """
        table, name = column.table, column.name
        if table and not any(f.table == table for f in self.fields):
            raise UndefinedTable(
                f'missing FROM-clause entry for table "{table}"', position=position(column)
            )
        found = [
            number
            for number, f in enumerate(self.fields)
            if f.name.lower() == name.lower() and (f.table == table if table else not f.hidden)
        ]
        # DuckDB ignores case; in PostgreSQL's dialect another case was refused before.
        exact = [number for number in found if self.fields[number].name == name]
        found = exact or found
        if not found:
            raise UndefinedColumn(
                f'column "{name}" does not exist', hint=self._hint(name), position=position(column)
            )
        if len(found) > 1:
            raise ambiguous(column)
        return found[0]

    def _hint(self, name: str) -> str:
        names = tuple(f.name for f in self.fields)
        if any(f.table == name for f in self.fields):
            return f"{name} is a table: count(*) counts its rows."
        if names == tuple(one.name for one in self.domain.own):
            every = f"The attributes of {self.domain.table} are {', '.join(names)}."
        else:
            every = f"The columns here are {', '.join(dict.fromkeys(names))}."
        return meant(name, names) + every

    def substitute(self, node: exp.Expr, branch: Branch) -> exp.Expr:
        """Return a copy of the expression with every column replaced by its value in the branch."""
        holder = exp.Paren(this=node.copy())
        self.size.add(holder)
        for column in own_columns(holder):
            column.replace(self.value(branch, self.find(column), column))
        result: exp.Expr = holder.this
        return result

    def value(self, branch: Branch, number: int, column: exp.Column) -> exp.Expr:
        """Return the branch's value that replaces a column, which names the field ``number``."""
        value = branch.values[number]
        self.size.add(value)
        return value_of(value, column)

    def shared(self, name: exp.Identifier, fields: Sequence[Field], part: int) -> tuple[int, int]:
        """Return the numbers of the two columns that a name in USING merges; ``fields`` are those
        on its right. On its left it sees columns after the last comma, since a comma joins last.

        Raises UndefinedColumn, AmbiguousColumn.
        """
        left = [
            number
            for number, f in enumerate(self.fields)
            if f.name == name.name and f.part == part and not f.hidden
        ]
        right = [number for number, f in enumerate(fields) if f.name == name.name]
        if not left or len(right) != 1:
            raise UndefinedColumn(
                f'column "{name.name}" specified in USING clause does not exist on both sides',
                hint="After a comma in FROM, USING sees only the items that follow it."
                if part
                else None,
                position=position(name),
            )
        if len(left) > 1:
            raise AmbiguousColumn(
                f'common column name "{name.name}" appears more than once in left table',
                position=position(name),
            )
        return left[0], len(self.fields) + right[0]

    def joined(self, others: Sequence[Field], join: exp.Join) -> Records:
        """Return every row with the matching rows of a public table."""
        fields = [*self.fields, *others]
        new = [exp.column(f.name, join.this.alias, quoted=True) for f in others]
        branches = [
            replace(b, joins=[*b.joins, join], values=[*b.values, *new]) for b in self.branches
        ]
        return Records(self.domain, fields, branches, self.size)


@dataclass(frozen=True)
class DomainSource:
    """FROM of a domain query: one branch, or the union of several with the columns ``used``."""

    branches: Sequence[Branch]
    used: Sequence[int] = ()

    @property
    def plain(self) -> bool:
        """Whether it is only the domain relation, in which attributes vary independently."""
        return len(self.branches) == 1 and not self.branches[0].joins

    @property
    def kept(self) -> frozenset[str]:
        """The joined tables of which rows without a record are kept: that of a RIGHT JOIN, and
        those joined to it by its own columns."""
        kept: set[str] = set()
        for join in self.branches[0].joins if len(self.branches) == 1 else ():
            if join.side == "RIGHT" or (kept and names_of(join) <= {*kept, join.this.alias}):
                kept.add(join.this.alias)
        return frozenset(kept)

    @property
    def inner(self) -> DomainSource:
        """The rows that have a record."""
        (branch,) = self.branches
        joins = [
            exp.Join(this=j.this, on=j.args["on"]) if j.side == "RIGHT" else j for j in branch.joins
        ]
        return DomainSource([replace(branch, joins=joins)], self.used)

    @property
    def cell(self) -> str:
        """SQL of the SELECT item for the record's cell."""
        if self.plain:
            return "__cell"
        return f'"{RECORD if len(self.branches) == 1 else UNION}".__cell AS __cell'

    @property
    def nodes(self) -> list[exp.Expr]:
        """Every expression in it."""
        parts: list[exp.Expr] = [join for branch in self.branches for join in branch.joins]
        if len(self.branches) > 1:
            for branch in self.branches:
                parts += [*branch.where, *(branch.values[number] for number in self.used)]
        return parts

    def sql(self, relation: str) -> str:
        """SQL that reads ``relation``, the domain relation in brackets, instead of the records."""
        if len(self.branches) == 1:
            return _from(relation, self.branches[0])
        selects = []
        for branch in self.branches:
            values = [f"{duckdb_sql(branch.values[n])} AS u{n}" for n in self.used]
            items = ", ".join([f'"{RECORD}".__cell', *values])
            where = " AND ".join(f"({duckdb_sql(condition)})" for condition in branch.where)
            select = f"SELECT {items} FROM {_from(relation, branch)}"
            selects.append(f"{select} WHERE {where}" if where else select)
        return f'({" UNION ALL ".join(selects)}) AS "{UNION}"'


def _from(relation: str, branch: Branch) -> str:
    return " ".join([f'{relation} AS "{RECORD}"', *(duckdb_sql(join) for join in branch.joins)])


def is_resolved(column: exp.Column) -> bool:
    """Whether the column belongs to FROM of a domain query. Such names are reserved."""
    return column.table.startswith(("__record", "__joined_"))


def names_of(node: exp.Expr) -> frozenset[str]:
    """The record's attributes and the joined tables that an expression or a join mentions. No
    attribute has the name of a joined table.
    """
    deadline.check()
    own = [node.this.alias] if isinstance(node, exp.Join) else []
    columns = [column for column in node.find_all(exp.Column) if is_resolved(column)]
    return frozenset([*own, *(c.name if c.table == RECORD else c.table for c in columns)])


def own_columns(node: exp.Expr) -> list[exp.Column]:
    """The columns of an expression, and the outer columns of queries nested in it."""
    return [inner for inner in level_nodes(node) if isinstance(inner, exp.Column)]


def public_queries(node: exp.Expr) -> list[exp.Expr]:
    """The outermost queries nested in an expression."""
    nodes = node.dfs(prune=lambda inner: isinstance(inner, exp.Query))
    return [inner for inner in nodes if isinstance(inner, exp.Query)]


def value_of(value: exp.Expr, column: exp.Column) -> exp.Expr:
    """A copy of a field's value that replaces the column that names it."""
    copy = typed_constant(value)
    if column.meta_get(OUTER):
        for inner in own_columns(copy):
            inner.meta[OUTER] = True
    if isinstance(copy, exp.Column):
        copy.meta.update({k: v for k, v in column.meta.items() if k != "coarse"})
        copy.this.meta.update(column.this.meta)
        return copy
    plain = isinstance(copy, exp.Func | exp.Paren) and not isinstance(copy, exp.Connector)
    return copy if plain else exp.paren(copy, copy=False)


def typed_constant(value: exp.Expr) -> exp.Expr:
    """A copy. A constant is cast to its type, since ``5`` in GROUP BY would be a position."""
    if isinstance(value, exp.Null):
        return exp.cast(value.copy(), "varchar")
    if not isinstance(value, exp.Literal):
        return value.copy()
    if value.is_string:
        return exp.cast(value.copy(), "varchar")
    text = value.this
    if text.isdigit():
        size = int(text)
        kind = "int" if size < 2**31 else "bigint" if size < 2**63 else "hugeint"
        return as_type(value.copy(), kind)
    if "e" in text.lower():
        return exp.cast(value.copy(), "double")
    digits, decimals = len(text.replace(".", "")), len(text.partition(".")[2])
    return as_type(value.copy(), f"decimal({digits}, {decimals})")
