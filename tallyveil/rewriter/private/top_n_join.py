"""Groups that a join selects. BI tools write such joins for the n largest series:

    SELECT …, a, count(*) FROM t JOIN (SELECT a AS k FROM t GROUP BY a ORDER BY count(*) DESC
    LIMIT n) AS s ON a = k GROUP BY …, a

ON compares groups of the SELECT with all keys of the joined query, which has one row for each of
its groups. The join then keeps all records of a group or none, each once. It is equivalent to

    HAVING a IN (SELECT k FROM (…) AS s)

which reads noisy rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sqlglot import exp

from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.key_conditions import group_keys
from tallyveil.rewriter.resolve.record_queries import aggregates, reads_records
from tallyveil.rewriter.sql.nodes import all_nodes, conjunction, is_star

__all__ = ["pick_groups"]

_Pair: TypeAlias = tuple[exp.Expr, str]
"""A group of the SELECT, and the column of the joined query that it is compared with."""


def pick_groups(tree: exp.Expr, bound: Bound) -> None:
    """Rewrite each such join as HAVING, in place. Other joins with noisy rows stay unchanged."""
    for select in all_nodes(tree, exp.Select):
        for join in list(select.args.get("joins") or ()):
            query = join.this.this if isinstance(join.this, exp.Subquery) else None
            if isinstance(query, exp.Select) and aggregates(query) and reads_records(query):
                pairs = _pairs(select, join, query, bound)
                if pairs:
                    _write(select, join, pairs)


def _write(select: exp.Select, join: exp.Join, pairs: Sequence[_Pair]) -> None:
    join.pop()
    groups = [group.copy() for group, _ in pairs]
    keys = [exp.column(name, join.this.alias, quoted=True) for _, name in pairs]
    picked = exp.Select(
        expressions=[exp.alias_(key, key.name, quoted=True) for key in keys],
        from_=exp.From(this=join.this),
    )
    whole = groups[0] if len(groups) == 1 else exp.Tuple(expressions=groups)
    conditions: list[exp.Expr] = [exp.In(this=whole, query=exp.Subquery(this=picked))]
    if len(groups) > 1:  # DuckDB takes rows with NULL inside as equal
        conditions += [exp.Not(this=exp.Is(this=g.copy(), expression=exp.Null())) for g in groups]
    having = select.args.get("having")
    if having is not None:
        conditions.insert(0, exp.paren(having.this))
    select.set("having", exp.Having(this=conjunction(conditions)))


def _pairs(select: exp.Select, join: exp.Join, query: exp.Select, bound: Bound) -> Sequence[_Pair]:
    """The pairs that ON compares; none if the join is of another kind, if the query has no name,
    which DuckDB does not need, or if anything but ON reads, or may read, one of its columns.
    """
    named = join.this.alias and not join.this.alias_column_names
    plain = named and not (join.side or join.args.get("using"))
    on = join.args.get("on")
    if not plain or join.kind not in ("", "INNER") or on is None:
        return ()

    def is_joined(column: exp.Column) -> list[bool]:
        """For each column it may mean, whether it is the joined query's."""
        return [source is join.this for source, _ in bound.places(column, select)]

    def pair(part: exp.Expr) -> _Pair | None:
        sides = (part.expression, part.this) if isinstance(part, exp.EQ) else ()
        for key, group in zip(sides, reversed(sides), strict=True):
            clear = isinstance(key, exp.Column) and is_joined(key) == [True]
            if clear and [True] not in map(is_joined, group.find_all(exp.Column)):
                return group, key.name
        return None

    inner = on.unnest()
    parts = inner.flatten() if isinstance(inner, exp.And) else [inner]
    pairs = [pair(part) for part in parts]
    found = [pair for pair in pairs if pair is not None and pair[0] in group_keys(select)]
    items = {item.alias_or_name: item.unalias() for item in query.expressions}
    compared, keys = [items[name] for _, name in found], group_keys(query)
    same = all(key in compared for key in keys) and all(key in keys for key in compared)
    clear = len(found) == len(pairs) and len(items) == len(query.expressions)
    if not (keys and same and clear) or any(map(is_star, select.expressions)):
        return ()
    own = {id(column) for column in join.find_all(exp.Column)}
    others = [column for column in select.find_all(exp.Column) if id(column) not in own]
    return () if any(True in is_joined(column) for column in others) else found
