"""count(DISTINCT unit): the column of the privacy units is no attribute, and is only ever counted.

Where each unit has one row, count(*) of the table says how many there are. Otherwise DISTINCT
without a value stands for the units (`is_unit_count`), whose number is a statistic of its own: of
the units of records that meet WHERE, however often a join repeats these.
"""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedColumn
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.record_queries import holds_records, sources
from tallyveil.rewriter.sql.nodes import conjunction, filtered, is_star, position, unfiltered

__all__ = ["count_units", "is_unit_count"]


def is_unit_count(node: exp.Expr) -> bool:
    """Whether an aggregate, perhaps with FILTER, counts units that may have several rows."""
    inner = unfiltered(node)
    distinct = inner.this if isinstance(inner, exp.Count) else None
    return isinstance(distinct, exp.Distinct) and not distinct.expressions


def count_units(tree: exp.Expr, catalog: Catalog) -> None:
    """Mark the aggregates that count units.

    Raises FeatureNotSupported where a row of FROM may be without a unit, or of units of tables that
    are not told apart, and UndefinedColumn if anything else is asked of the column.
    """
    named = dict[int, exp.Expr]()
    for column in list(tree.find_all(exp.Column)):
        counting, select = _counting(column), column.parent_select
        if counting is None or not isinstance(select, exp.Select):
            continue
        rows = _rows_of_a_unit(column, select, catalog)
        if rows is None:
            continue
        aggregate, conditions = counting
        units: exp.Expr = exp.Count(this=exp.Star() if rows == 1 else exp.Distinct(expressions=[]))
        whole = filtered(aggregate)
        if whole is not aggregate:
            conditions.insert(0, whole.expression.this)
        if conditions:
            units = exp.Filter(this=units, expression=exp.Where(this=conjunction(conditions)))
        whole.replace(units)
        for source in sources(select):
            named |= {id(item): item for item in _items_of(source, column.name)}
    for item in named.values():
        alone = item.parent is not None and len(item.parent.expressions) == 1
        item.replace(exp.alias_(exp.true(), "__units")) if alone else item.pop()
    for select in tree.find_all(exp.Select):
        _refuse_units(select, catalog)


def _refuse_units(select: exp.Select, catalog: Catalog) -> None:
    """Refuse the column of the units of a table in FROM, but for conditions, which may join it."""
    tables = [one for one in sources(select) if isinstance(one, exp.Table)]
    units = {
        one.alias_or_name: unit
        for one in tables
        if holds_records(one)
        and (unit := catalog.units.get(one.name, ("", 0))[0])
        and unit not in catalog.domains[one.name]
    }
    if not units:
        return
    shown = {name for one in tables for name in catalog.public.get(one.name, ())}
    for column in select.find_all(exp.Column):
        of = [units.get(column.table)] if column.table else set(units.values()) - shown
        inside = column.find_ancestor(exp.Join, exp.Where, exp.Select)
        if column.name in of and inside is select:
            raise UndefinedColumn(
                f'column "{column.name}" names the privacy units, which are only counted',
                hint=f"count(DISTINCT {column.name}) counts them, and count(*)::numeric /"
                f" count(DISTINCT {column.name}) is how many rows they have on average.",
                position=position(column),
            )


def _counting(column: exp.Column) -> tuple[exp.Expr, list[exp.Expr]] | None:
    """The aggregate that counts the distinct values of a column alone, and the conditions of CASE
    WHEN … THEN column END around it."""
    node, conditions = column.parent, list[exp.Expr]()
    inner: exp.Expr = column
    while isinstance(node, exp.Paren | exp.If | exp.Case):
        otherwise = node.args.get("default") or node.args.get("false") or exp.Null()
        if isinstance(node, exp.If) and inner is node.args["true"]:
            conditions.append(node.this)
        elif not isinstance(node, exp.Paren) and (node.this or len(node.args["ifs"]) > 1):
            return None
        if not isinstance(otherwise.unnest(), exp.Null):
            return None
        inner = node
        node = node.parent
    if isinstance(node, exp.Distinct) and len(node.expressions) == 1:
        node = node.parent if isinstance(node.parent, exp.Count) else None
        return None if node is None else (node, conditions)
    return (node, conditions) if isinstance(node, exp.ApproxDistinct) else None


def _rows_of_a_unit(column: exp.Column, select: exp.Select, catalog: Catalog) -> int | None:
    """The most rows that a unit has of the records of FROM; None unless the column may name the
    units of one of its tables."""
    name, joins, found = column.name, select.args.get("joins") or (), dict[str, bool]()
    sides = ["", *((join.side or "").upper() for join in joins)]
    merged = all(name in [one.name for one in join.args.get("using") or ()] for join in joins)
    rows = list[int]()
    for source, side in zip(sources(select), sides, strict=True):
        alias = source.alias_or_name
        if not holds_records(source):
            public = catalog.public.get(source.name) if isinstance(source, exp.Table) else (name,)
            if name in (public or ()) and column.table in ("", alias) and not merged:
                return None  # it may be this table's column
            continue
        table = _table_of(source, name)
        unit, most = catalog.units.get(table, ("", 0))
        rows.append(most)
        if unit == name and unit not in catalog.domains[table] and column.table in ("", alias):
            found[alias] = not side
    if not found:
        return None
    if not all(rows):
        raise FeatureNotSupported(
            f"count(DISTINCT {name}) is not answered of this table: which rows are of one unit is"
            " not kept",
            hint="count(*) counts the rows.",
            position=position(column),
        )
    hint = None
    if (len(found) > 1 and not merged) or not all(found.values()) or {"RIGHT", "FULL"} & {*sides}:
        hint = f"Name the table whose record each row of FROM has, as in count(DISTINCT t.{name})."
        hint += " It may be joined with others by JOIN, and by LEFT JOIN if it comes first."
    elif joins and max(rows) == 1:
        hint = "count(*) counts the rows of the join: where they are joined by a key, the units."
    if hint is not None:
        raise FeatureNotSupported(
            f"count(DISTINCT {name}) is not answered of these joins",
            hint=hint,
            position=position(column),
        )
    return max(rows)  # of tables along a key, that of the one with the records


def _table_of(source: exp.Expr, unit: str) -> str:
    """The protected table whose units an item of FROM shows: a table, or a query of its records
    with all columns or this one."""
    if isinstance(source, exp.Table):
        return source.name
    query = source.this
    if isinstance(query, exp.Subquery):
        return _table_of(query, unit)
    records = [one for one in sources(query) if holds_records(one)]
    shows = any(map(is_star, query.expressions)) or bool(_items_of(source, unit))
    plain = isinstance(query, exp.Select) and not query.args.get("joins") and shows
    return _table_of(records[0], unit) if plain else ""


def _items_of(source: exp.Expr, unit: str) -> list[exp.Expr]:
    """The items that show the column in the queries of records that an item of FROM consists of."""
    if isinstance(source, exp.Table) or not holds_records(source):
        return []
    found = [one for inner in sources(source.this) for one in _items_of(inner, unit)]
    return found + [
        item
        for item in source.this.expressions
        if isinstance(item.unalias(), exp.Column)
        and item.unalias().name == item.alias_or_name == unit
    ]
