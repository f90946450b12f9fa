"""Read FROM of a SELECT over records, with its subqueries and joins, as `Records`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    AmbiguousColumn,
    FeatureNotSupported,
    UndefinedColumn,
    UndefinedTable,
)
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.branches import RECORD, Branch, Field, Records, public_queries
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.columns import mark_outer_columns, refuse_enclosing
from tallyveil.rewriter.resolve.from_items import PublicItems, refuse_protected, unite
from tallyveil.rewriter.resolve.keyed_joins import KeyedJoins
from tallyveil.rewriter.resolve.record_queries import (
    check_record_level,
    holds_records,
    own_parts,
    renamed,
    yields_records,
)
from tallyveil.rewriter.sql.nodes import conjunction, is_star, position
from tallyveil.rewriter.sql.size import Size

__all__ = ["FromClause"]


class FromClause:
    """Reads the FROM of one block, with its subqueries."""

    def __init__(self, catalog: Catalog, cursor: PublicCursor, bound: Bound) -> None:
        self._catalog = catalog
        self._cursor = cursor
        self._bound = bound
        self._joined = PublicItems(catalog, cursor)
        self._size = Size("the columns of nested queries", "Name each column less often.")

    @property
    def time_zone(self) -> str:
        """The session's time zone."""
        return self._cursor.time_zone

    def last_day(self, table: str) -> dt.date | None:
        """The last day that is over, of a table that grows."""
        return self._catalog.shown[table][1] if table in self._catalog.shown else None

    def read(self, select: exp.Select) -> Records:
        """Return the rows of FROM and its joins.

        Raises FeatureNotSupported if a row would not belong to one record.
        """
        joins = select.args.get("joins") or ()
        steps = [exp.Join(this=select.args["from_"].this), *joins]
        parts = _commas_before(steps)
        first = next(i for i, step in enumerate(steps) if holds_records(step.this))
        records = self._records(steps[first].this)
        records.fields = [replace(f, part=parts[first]) for f in records.fields]
        if first:
            records = self._before(records, steps[:first], steps[first], parts)
        keyed = KeyedJoins(self._catalog.keys, select)
        keyed.add(steps[first].this, records)
        for step, part in zip(steps[first + 1 :], parts[first + 1 :], strict=True):
            if holds_records(step.this):
                records = self._joined_records(records, step, part, keyed)
            else:
                records = self._join(records, step, part)
        return records

    def _joined_records(
        self, records: Records, step: exp.Join, part: int, keyed: KeyedJoins
    ) -> Records:
        """Join the records with those of another table of the same units, along the key."""
        other = self._records(step.this)
        other.fields = [replace(f, part=part) for f in other.fields]
        _refuse_repeated(records, other.fields, step)
        found = keyed.joined(records, other, step, self.check)
        keyed.add(step.this, other)
        return found[0] if len(found) == 1 else unite(step.this, found, self._cursor)

    def _before(
        self,
        records: Records,
        public: Sequence[exp.Join],
        step: exp.Join,
        parts: Sequence[int],
    ) -> Records:
        """Join the public tables before the protected one: the same joins in another order."""
        if _side(step):
            return self._mirrored(records, public, step, parts)
        for join in public:
            if _side(join) or join.args.get("using"):
                raise _another_order(join)
        *earlier, last = public
        for join, part in zip(earlier, parts, strict=False):
            records = self._join(records, join, part)
        conditions = [j.args["on"] for j in (last, step) if j.args.get("on") is not None]
        closing = exp.Join(this=last.this, using=step.args.get("using"))
        if conditions:
            closing.set("on", conjunction([condition.copy() for condition in conditions]))
        # A step with USING follows no comma, so it sees the same columns as the last one.
        return self._join(records, closing, parts[len(public) - 1])

    def _mirrored(
        self,
        records: Records,
        public: Sequence[exp.Join],
        step: exp.Join,
        parts: Sequence[int],
    ) -> Records:
        """Join the first public table from the protected side, and then those joined to it."""
        first, *others = public
        if others and (_side(step) == "RIGHT" or step.args.get("using")):
            raise _another_order(step)
        mirrored = exp.Join(this=first.this, side=_MIRRORED[_side(step)], on=step.args.get("on"))
        mirrored.set("using", step.args.get("using"))
        try:
            records = self._join(records, mirrored, parts[len(public)])
        except (UndefinedTable, UndefinedColumn):
            if others:  # perhaps ON names them
                raise _another_order(step) from None
            raise
        for join, part in zip(others, parts[1:], strict=False):
            if _side(join) in ("RIGHT", "FULL") or join.args.get("using"):
                raise _another_order(join)
            records = self._join(records, join, part)
        return records

    def _join(self, records: Records, step: exp.Join, part: int) -> Records:
        """Join the records with a public table."""
        side = _side(step)
        if side == "FULL" or (side == "RIGHT" and (len(records.branches) > 1 or records.kept)):
            raise _without_record(step)
        if side == "RIGHT" and part:  # a join before a comma comes last
            raise _another_order(step)
        source, fields = self._joined.read(step.this)
        _refuse_repeated(records, fields, step)
        using = step.args.get("using") or ()
        shared = [records.shared(name, fields, part) for name in using]
        merged = [Field(f.table, f.name, part=part) for f in fields]
        joined = records.joined(merged, exp.Join(this=source))
        for left, right in shared:  # a kept row has the value of the public side only
            hidden = left if side == "RIGHT" else right
            joined.fields[hidden] = replace(joined.fields[hidden], hidden=True)
        on = step.args.get("on")
        if on is not None:
            self.check(on, joined)
        for branch in joined.branches:
            parts: list[exp.Expr] = [
                exp.EQ(this=branch.values[i].copy(), expression=branch.values[j].copy())
                for i, j in shared
            ]
            if on is not None:
                parts.append(exp.paren(joined.substitute(on, branch), copy=False))
            if side == "RIGHT":
                parts += [exp.paren(condition, copy=False) for condition in branch.where]
                branch.where = []
            if parts or side:
                condition = conjunction(parts) if parts else exp.true()
                own = exp.Join(this=source.copy(), side=side or None, on=condition)
            else:
                own = exp.Join(this=source.copy(), kind="CROSS")
            branch.joins = [*branch.joins[:-1], own]
        return joined

    def mark(self, select: exp.Select, records: Records) -> None:
        """Mark the records' columns in queries nested in the SELECT's expressions."""
        for part in own_parts(select):
            mark_outer_columns(part, records, self._bound)

    def check(self, part: exp.Expr, records: Records) -> None:
        """Refuse expressions that combine records, and queries of other than public tables."""
        check_record_level(part)
        for query in public_queries(part):
            refuse_protected(query, query)
        for column in mark_outer_columns(part, records, self._bound):
            refuse_enclosing(column, records, self._bound)
            records.find(column)

    # Items of FROM

    def _records(self, source: exp.Expr) -> Records:
        if isinstance(source, exp.Table):
            return self._protected(source)
        return _named(self._query(source.this), source)

    def _protected(self, table: exp.Table) -> Records:
        domain = self._catalog.domains[table.name]
        values: list[exp.Expr] = []
        for attribute in domain.own:
            column = exp.column(attribute.name, RECORD, quoted=True)
            if (attribute.binned and not attribute.represented) or attribute.truncates:
                column.meta["coarse"] = True
            values.append(column)
        fields = [Field("", attribute.name) for attribute in domain.own]
        branch = Branch(where=self._over(table.name), values=values)
        return _named(Records(domain, fields, [branch], self._size), table)

    def _over(self, table: str) -> list[exp.Expr]:
        """The conditions that a record of a table that grows is of a day that is over, and of a
        cell that had records on its day."""
        found: list[exp.Expr] = []
        if table in self._catalog.shown:
            found.append(exp.LTE(**_beside(*self._catalog.shown[table])))
        attributes = {one.name: one for one in self._catalog.domains[table].attributes}
        for absent in self._catalog.absent.get(table, ()):
            later = exp.GT(**_beside(absent.days, absent.through))
            within = _in_cells(attributes[absent.attribute], absent.cells)
            found.append(exp.paren(exp.Or(this=later, expression=exp.Not(this=within))))
        return found

    def _query(self, query: exp.Expr) -> Records:
        """Read a query as records. Its columns have no table's name."""
        if isinstance(query, exp.Subquery):
            return self._query(query.this)
        _refuse_clauses(query)
        if isinstance(query, exp.SetOperation):
            sides = list(self._sides(query))
            if any(side.kept for side in sides):
                raise _without_record(query)
            return unite(query, sides, self._cursor)
        return self._select(query)

    def _select(self, select: exp.Expr) -> Records:
        records = self.read(select) if isinstance(select, exp.Select) else None
        if records is None:
            raise FeatureNotSupported("this is not answered", position=position(select))
        where = select.args.get("where")
        items: list[tuple[str, exp.Expr | int]] = []
        for item in select.expressions:
            if is_star(item):
                items += _starred(item, records)
            else:
                self.check(item, records)
                items.append((item.alias_or_name, item.unalias()))
        if where is not None:
            self.check(where.this, records)
        branches = []
        for branch in records.branches:
            values = [
                branch.values[item] if isinstance(item, int) else records.substitute(item, branch)
                for _, item in items
            ]
            more = [] if where is None else [records.substitute(where.this, branch)]
            branches.append(Branch(branch.joins, [*branch.where, *more], values))
        fields = [Field("", name) for name, _ in items]
        return Records(records.domain, fields, branches, self._size)

    def _sides(self, query: exp.SetOperation) -> Iterator[Records]:
        """Yield the records of each query of a UNION ALL."""
        for side in (query.this, query.expression):
            if not yields_records(side):
                raise FeatureNotSupported(
                    "a UNION of records with rows that belong to no record is not answered",
                    hint="Aggregate the records first, and unite the results.",
                    position=position(side),
                )
            if isinstance(side, exp.SetOperation):
                _refuse_clauses(side)
                yield from self._sides(side)
            else:
                yield self._query(side)


def _commas_before(steps: Sequence[exp.Join]) -> list[int]:
    """The number of commas before each item of FROM: the `Field.part` of its columns."""
    words = ("kind", "side", "on", "using")
    commas = (not any(step.args.get(word) for word in words) for step in steps[1:])
    return list(accumulate(commas, initial=0))


def _named(records: Records, source: exp.Expr) -> Records:
    """The records with the names that the item of FROM gives its columns."""
    names = renamed(source, ())
    if len(names) > len(records.fields):
        raise AmbiguousColumn(
            f'table "{source.alias_or_name}" has {len(records.fields)} columns but '
            f"{len(names)} names are given",
            position=position(source),
        )
    fields = [
        Field(source.alias_or_name, name or f.name)
        for f, name in zip_longest(records.fields, names, fillvalue=None)
        if f is not None
    ]
    return Records(records.domain, fields, records.branches, records.size)


def _starred(item: exp.Expr, records: Records) -> list[tuple[str, exp.Expr | int]]:
    table = item.table if isinstance(item, exp.Column) else ""
    if table and not any(f.table == table for f in records.fields):
        raise UndefinedTable(
            f'missing FROM-clause entry for table "{table}"', position=position(item)
        )
    return [
        (f.name, number)
        for number, f in enumerate(records.fields)
        if (f.table == table if table else not f.hidden)
    ]


def _side(step: exp.Join) -> str:
    return (step.side or "").upper()


_MIRRORED: Final = {"LEFT": "RIGHT", "RIGHT": "LEFT", "FULL": "FULL"}


def _refuse_repeated(records: Records, fields: Sequence[Field], step: exp.Join) -> None:
    name = fields[0].table if fields else ""
    if name and any(f.table == name for f in records.fields):
        raise AmbiguousColumn(
            f'table name "{name}" specified more than once', position=position(step.this)
        )


def _another_order(step: exp.Join) -> FeatureNotSupported:
    return FeatureNotSupported(
        "this order of joins is not answered",
        hint="Begin FROM with the protected table, or join the public tables in a subquery: "
        "FROM (SELECT … FROM a JOIN b ON …) AS public LEFT JOIN protected ON …",
        position=position(step.this),
    )


def _without_record(step: exp.Expr) -> FeatureNotSupported:
    return FeatureNotSupported(
        "a FULL JOIN, a second join that keeps rows without a record, or one with a UNION is not "
        "answered below the aggregation",
        hint="Use JOIN, or LEFT JOIN with the protected table on the left; aggregate first and "
        "join the public table to the result if all its rows must appear.",
        position=position(step.this),
    )


def _refuse_clauses(query: exp.Expr) -> None:
    """Refuse LIMIT, QUALIFY and set operations but UNION ALL, with which records displace others.
    ORDER BY alone does not."""
    for name in ("limit", "offset", "qualify"):
        if query.args.get(name) is not None:
            raise FeatureNotSupported(
                f"{name.upper()} below the aggregation is not answered: whether a record counts "
                "would depend on others",
                hint="Count the records that meet a condition instead.",
                position=position(query.args[name]) or position(query),
            )
    if isinstance(query, exp.SetOperation) and not (
        type(query) is exp.Union and query.args.get("distinct") is False
    ):
        name = "UNION" if isinstance(query, exp.Union) else query.key.upper()
        raise FeatureNotSupported(
            f"{name} of records is not answered: whether a record counts would depend on others",
            hint="UNION ALL is answered.",
            position=position(query),
        )


def _of_record(name: str) -> exp.Column:
    column = exp.column(name, RECORD, quoted=True)
    column.meta["over"] = True
    return column


def _beside(name: str, day: dt.date) -> dict[str, exp.Expr]:
    """Both sides of a comparison of a record's day."""
    return {"this": _of_record(name), "expression": exp.cast(exp.Literal.string(str(day)), "DATE")}


def _in_cells(attribute: Attribute, cells: Sequence[int]) -> exp.Expr:
    """The condition that a record is in one of these cells; it is never NULL."""
    values = [attribute.cells[cell] for cell in cells]
    listed = [
        exp.cast(exp.Literal.string(str(value)), attribute.sql_type)
        for value in values
        if value is not None
    ]
    within = exp.In(this=_of_record(attribute.name), expressions=listed)
    known = exp.Coalesce(this=within, expressions=[exp.false()])
    if None not in values:
        return known
    missing = exp.Is(this=_of_record(attribute.name), expression=exp.Null())
    return exp.paren(exp.Or(this=missing, expression=known) if listed else missing)
