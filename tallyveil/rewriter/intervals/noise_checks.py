"""Queries on the noisy rows that find where noise decides what a statement shows.

    SELECT sex, s / n FROM (SELECT sex, count(*) AS n, sum(age) AS s FROM person GROUP BY sex) AS t

divides by a noisy count, so this is asked of the same noisy rows:

    SELECT count(*) FILTER (WHERE (low <= 0 AND high >= 0 AND low < high)), count(*)
    FROM (SELECT t.low, t.high FROM (SELECT …, __l0 AS low, __u0 AS high FROM …) AS t) AS t

and where ORDER BY a noisy column picks rows with LIMIT n, or with a condition that their row_number
or rank is at most n, the intervals of rows n and n + 1 are asked for. A denominator or column
counts if it is an aggregate itself, here or in queries in FROM whose rows are not grouped or joined
in between, and no condition contains a query: the check is then a query by itself. The queries read
public and released numbers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from sqlglot import exp

from tallyveil.rewriter.private.block import NOISY
from tallyveil.rewriter.private.moments import MOMENTS
from tallyveil.rewriter.query_plan import NoiseCheck
from tallyveil.rewriter.resolve.record_queries import definition_of
from tallyveil.rewriter.sql.nodes import conjuncts, duckdb_sql, is_star, whole_number

__all__ = ["noise_checks"]

_DIVISIONS: Final = (exp.Div, exp.IntDiv, exp.Mod)
_CLAUSES: Final = frozenset(
    {"expressions", "from_", "where", "qualify", "order", "limit", "offset", "with_"}
)
_WRAPPERS: Final = (exp.Paren, exp.Cast, exp.TryCast, exp.Nullif)
_RANKS: Final = (exp.RowNumber, exp.Rank, exp.DenseRank)
_MOMENTS: Final = {macro: names for macro, *names in MOMENTS.values()}
_BY_VARIANCES: Final = frozenset(
    {"__correlation", "__slope", "__intercept", "__determination", "__skewness", "__kurtosis"}
)
_SOURCES: Final = (exp.Subquery, exp.From, exp.SetOperation, exp.CTE, exp.With)

_Top: TypeAlias = tuple[exp.Select, exp.Expr, int, int]
"""A SELECT, the first key that sorts its rows, the number of rows left out, and of those shown."""


def noise_checks(tree: exp.Expr) -> tuple[NoiseCheck, ...]:
    """The checks of a statement over noisy rows, after the last pass."""
    return (*_ratios(tree), *_rankings(tree))


def _ratios(tree: exp.Expr) -> Iterator[NoiseCheck]:
    denominators: dict[int, tuple[exp.Select, dict[exp.Expr, bool]]] = {}
    for division, divisor in _divisions(tree):
        node, select = _unwrapped(divisor), division.find_ancestor(exp.Select)
        if isinstance(node, exp.Subquery):
            select = node.this
            if not isinstance(select, exp.Select) or len(select.expressions) != 1:
                continue
            node = select.expressions[0].unalias()
        if select is not None:
            nodes = denominators.setdefault(id(select), (select, {}))[1]
            nodes[node] = nodes.get(node, False) or _is_infinite(division)
    for select, nodes in denominators.values():
        rows = _rows_of(select)
        if rows is None:
            continue
        columns, around = [], []
        for number, (node, infinite) in enumerate(nodes.items()):
            ends = rows.ends(node)
            if ends is None:
                continue
            low, high = f"__low{number}", f"__high{number}"
            columns += [exp.alias_(end, name) for end, name in zip(ends, (low, high), strict=True)]
            noise = "" if infinite else f" AND {low} < {high}"
            around.append(f"({low} <= 0 AND {high} >= 0{noise})")
        if not columns:
            continue
        rows.select.set("expressions", columns)
        shown = duckdb_sql(rows.select)
        yield NoiseCheck(
            "ratio",
            f"SELECT count(*) FILTER (WHERE {' OR '.join(around)}), count(*) FROM ({shown}) AS t",
        )


def _is_infinite(division: exp.Expr) -> bool:
    """Whether the quotient by an exact 0 is infinite or NaN, and not NULL."""
    if not isinstance(division, exp.Div):
        return False
    divisor, branch = division.expression, division.parent
    while isinstance(divisor, exp.Paren | exp.Cast):
        divisor = divisor.this
    return not (isinstance(divisor, exp.Nullif) or isinstance(branch, exp.If))


def _divisions(tree: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """What divides, and by what."""
    for division in tree.find_all(*_DIVISIONS):
        yield division, division.expression
    for function in tree.find_all(exp.Anonymous):
        names = _MOMENTS.get(function.name, ())
        for name, argument in zip(names, function.expressions, strict=bool(names)):
            if name == "n" or (name in ("xx", "yy") and function.name in _BY_VARIANCES):
                yield function, argument


def _rankings(tree: exp.Expr) -> Iterator[NoiseCheck]:
    for select in tree.find_all(exp.Select):
        tops = (*_limited(select), *_qualified(select), *_numbered(select))
        for source, part, before, last in tops:
            rows = _rows_of(source)
            if rows is None:
                continue
            by = rows.sorted_by(part.this) if source is select else part.this
            ends = rows.ends(_unwrapped(by))
            if ends is None:
                continue
            copy = part.copy()
            copy.set("this", by.copy())
            rows.select.set("expressions", [*ends])
            rows.select.set("order", exp.Order(expressions=[copy]))
            first = exp.Literal.number(before + last - 1)
            rows.select.set("offset", exp.Offset(expression=first))
            rows.select.set("limit", exp.Limit(expression=exp.Literal.number(2)))
            yield NoiseCheck("rank", duckdb_sql(rows.select), before + last)


def _limited(select: exp.Select) -> Iterator[_Top]:
    """The rows that ORDER BY and LIMIT pick."""
    order, last = select.args.get("order"), _number(select, "limit")
    before = _number(select, "offset") if select.args.get("offset") else 0
    if order is not None and last and before is not None:
        yield select, order.expressions[0], before, last


def _qualified(select: exp.Select) -> Iterator[_Top]:
    """The rows that QUALIFY picks by their number in some order."""
    qualify = select.args.get("qualify")
    for condition in [] if qualify is None else conjuncts(qualify.this):
        ranked, last = _at_most(condition)
        items = (item for item in select.expressions if item.alias_or_name == ranked.name)
        value = next(items, ranked).unalias() if isinstance(ranked, exp.Column) else ranked
        if last:
            yield from _ranked(select, value, last)


def _ranked(query: exp.Select, value: exp.Expr, last: int) -> Iterator[_Top]:
    """The first rows in the order of a rank over all rows."""
    order = value.args.get("order") if isinstance(value, exp.Window) else None
    if order is not None and isinstance(value.this, _RANKS) and not value.args.get("partition_by"):
        yield query, order.expressions[0], 0, last


def _numbered(select: exp.Select) -> Iterator[_Top]:
    """The rows that a condition on their number in some order picks."""
    where, clause = select.args.get("where"), select.args.get("from_")
    if where is None or clause is None or select.args.get("joins"):
        return
    inner = where.this.unnest()
    for condition in inner.flatten() if isinstance(inner, exp.And) else [inner]:
        column, last = _at_most(condition)
        name = column.name if isinstance(column, exp.Column) else ""
        query = _query(clause.this) if name and last else None
        while query is not None:
            item = next((one for one in query.expressions if one.alias_or_name == name), None)
            value = None if item is None else item.unalias().unnest()
            if isinstance(value, exp.Window):
                yield from _ranked(query, value, last)
                break
            starred = item is None and any(map(is_star, query.expressions))
            if not (starred or isinstance(value, exp.Column)) or query.args.get("joins"):
                break
            name = name if value is None else value.name
            below = query.args.get("from_")
            query = None if below is None else _query(below.this)


def _at_most(condition: exp.Expr) -> tuple[exp.Expr, int]:
    """A value and the number that it is at most, 0 for a condition of another kind."""
    column, number = condition.args.get("this"), condition.args.get("expression")
    if isinstance(condition, exp.Between):
        number = condition.args["high"]
    elif isinstance(condition, (exp.GT, exp.GTE)):
        column, number = number, column
    elif not isinstance(condition, (exp.LT, exp.LTE, exp.EQ)):
        return condition, 0
    found = whole_number(number)
    if not isinstance(column, exp.Expr) or found is None:
        return condition, 0
    return column.unnest(), found - isinstance(condition, (exp.LT, exp.GT))


def _number(select: exp.Select, clause: str) -> int | None:
    """The number of LIMIT, FETCH or OFFSET, if it is written in digits."""
    node = select.args.get(clause)
    if node is None:
        return None
    return whole_number(node.args.get("expression") or node.args.get("count"))


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """Without casts, and without NULLIF around a denominator."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def _end(value: exp.Column, end: str) -> exp.Expr:
    """The lower (l) or upper (u) end of the interval of an output's value."""
    copy = value.copy()
    copy.set("this", exp.to_identifier(f"__{end}{value.name.removeprefix('__c')}", quoted=True))
    return copy


class _Rows:
    """A copy of a SELECT, to which columns with ends of intervals can be added. ``inner`` is that
    of the query in FROM, None where the SELECT reads a noisy table."""

    def __init__(self, select: exp.Select, inner: _Rows | None) -> None:
        self.select, self.inner = select, inner
        self._added: dict[str, tuple[exp.Expr, exp.Expr]] = {}

    def ends(self, node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        """The ends of the interval of what an expression is, over the rows in FROM; None if it is
        no aggregate."""
        if not isinstance(node, exp.Column):
            return None
        if self.inner is None:
            own = node.table == NOISY and node.name.startswith("__c")
            return (_end(node, "l"), _end(node, "u")) if own else None
        if node.name not in self._added:
            below = self.inner.ends_of_column(node.name)
            if below is None:
                return None
            names = [f"__{end}_{node.name}" for end in ("low", "high")]
            added = [exp.alias_(e, n, quoted=True) for e, n in zip(below, names, strict=True)]
            self.inner.select.set("expressions", [*self.inner.select.expressions, *added])
            low, high = (exp.column(exp.to_identifier(name, quoted=True)) for name in names)
            self._added[node.name] = low, high
        return self._added[node.name]

    def sorted_by(self, key: exp.Expr) -> exp.Expr:
        """What a position or an alias in ORDER BY stands for."""
        number, names = whole_number(key), self.names
        if number is not None and 0 < number <= len(names):
            key = exp.column(names[number - 1], quoted=True)
        if not isinstance(key, exp.Column) or key.table:
            return key
        items: list[exp.Expr] = self.select.expressions
        return next((item.unalias() for item in items if item.alias_or_name == key.name), key)

    @property
    def names(self) -> list[str]:
        """The names of the columns of the result."""
        found: list[str] = []
        for item in self.select.expressions:
            if is_star(item):
                star = item.this if isinstance(item, exp.Column) else item
                without = {one.name for one in star.args.get("except_") or ()}
                below = [] if self.inner is None else self.inner.names
                found += [name for name in below if name not in without]
            else:
                found.append(item.alias_or_name)
        return found

    def ends_of_column(self, name: str) -> tuple[exp.Expr, exp.Expr] | None:
        """As `ends`, of a column of the result."""
        items: list[exp.Expr] = self.select.expressions
        item = next((item for item in items if item.alias_or_name == name), None)
        if item is not None:
            return self.ends(_unwrapped(item.unalias()))
        if any(one.is_star for one in items):
            return self.ends(exp.column(name))
        return None


def _rows_of(select: exp.Select) -> _Rows | None:
    """The SELECT's rows as a query by itself; None if that is not possible."""
    where, clause = select.args.get("where"), select.args.get("from_")
    if clause is None or any(v for name, v in select.args.items() if name not in _CLAUSES):
        return None
    conditions = [] if where is None else [*where.find_all(exp.Column)]
    if where is not None and where.find(exp.Query):
        return None
    copy = exp.Select(
        expressions=[item.copy() for item in select.expressions],
        from_=clause.copy(),
        where=None if where is None else where.copy(),
    )
    source = clause.this
    if source.alias == NOISY:
        return _Rows(copy, None) if all(one.table == NOISY for one in conditions) else None
    query = _query(source)
    # DuckDB lets WHERE use the names of items, which the copy has not.
    named = {item.alias for item in select.expressions if item.unalias().name != item.alias}
    if query is None or not _stands_alone(select) or named.intersection(c.name for c in conditions):
        return None
    inner = _rows_of(query)
    parts = [query.args.get(name) for name in ("order", "limit", "offset")]
    if inner is None or any(p.find(exp.Query) for p in (*query.expressions, *filter(None, parts))):
        return None
    for name, part in zip(("order", "limit", "offset"), parts, strict=True):
        inner.select.set(name, None if part is None else part.copy())
    name = source.alias_or_name or "t"
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    copy.set("from_", exp.From(this=exp.Subquery(this=inner.select, alias=alias)))
    return _Rows(copy, inner)


def _query(source: exp.Expr) -> exp.Select | None:
    """The SELECT in FROM, or the common table that is named there."""
    holder = source if isinstance(source, exp.Subquery) else definition_of(source)
    for named in (source, holder):
        alias = None if named is None else named.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return None
    return holder.this if holder is not None and isinstance(holder.this, exp.Select) else None


def _stands_alone(select: exp.Select) -> bool:
    """Whether only FROM, UNION and WITH are around a SELECT, so that it has no outer columns."""
    node: exp.Expr = select
    while (around := node.parent) is not None:
        by_value = isinstance(node, exp.Subquery) and isinstance(around, exp.Select)
        if by_value or not isinstance(around, (exp.Select, *_SOURCES)):
            return False
        node = around
    return True
