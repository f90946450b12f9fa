"""Cautions about an ORDER BY that puts groups without a value first.

    SELECT state, s / n AS mean FROM (SELECT state, sum(age) AS s, count(*) AS n …) AS t
    ORDER BY mean DESC LIMIT 3

An average is NULL where the noisy count is not positive, and a quotient where the divisor is 0, or
in DuckDB's dialect infinite or NaN. PostgreSQL sorts NULL before all values in descending order,
and DuckDB NaN, so that LIMIT shows the groups that have no records. Sort keys, also those of
windows, are followed through names, positions, subqueries and common tables to such expressions.
A condition that a count is large, or the lower end of an interval, leaves these groups out, and
there is no caution.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from tallyveil import deadline
from tallyveil.rewriter.private.moments import MOMENTS
from tallyveil.rewriter.query_plan import Caution
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.record_queries import definition_of, is_aggregate, reads_records
from tallyveil.rewriter.resolve.record_queries import sources as sources_of
from tallyveil.rewriter.sql.nodes import (
    function_name,
    is_constant,
    leaves,
    position,
    unfiltered,
    whole_number,
)

__all__ = ["empty_groups_first"]

_Empty: TypeAlias = frozenset[Literal["NULL", "NaN"]]
"""What an expression may be for a group without records."""

_NEITHER: Final[_Empty] = frozenset()
_NULL: Final[_Empty] = frozenset({"NULL"})
_NAN: Final[_Empty] = frozenset({"NaN"})
_NEVER: Final = (exp.Query, exp.Is, exp.Count, exp.Exists)
_ABOVE: Final = (exp.GT, exp.GTE)
_BELOW: Final = (exp.LT, exp.LTE)


def empty_groups_first(tree: exp.Expr, bound: Bound) -> tuple[Caution, ...]:
    """At most one caution about NULL and one about NaN, of a statement before its blocks read noisy
    rows."""
    values = _Values(bound)
    found: dict[str, Caution] = {}
    for query in tree.find_all(exp.Select, exp.SetOperation, exp.Window):
        deadline.check()
        order = query.args.get("order")
        if order is None or not _shows_first(query) or values.leaves_out(query):
            continue
        for part in order.expressions:
            empty = values.sorted_by(part.this, query)
            if "NULL" in empty and part.args.get("nulls_first"):
                found.setdefault("NULL", _null(part.this))
            if "NaN" in empty and part.args.get("desc"):
                found.setdefault("NaN", _nan(part.this))
    return tuple(found.values())


def _shows_first(query: exp.Expr) -> bool:
    """Whether it matters which rows come first: for a LIMIT, here or on the same rows in the
    enclosing query, and for a window, whose numbers show its order."""
    if isinstance(query, exp.Window) or query.args.get("limit") or query.args.get("fetch"):
        return True
    clause = query.parent.parent if isinstance(query.parent, exp.Subquery) else None
    around = clause.parent if isinstance(clause, exp.From) else None
    if around is None or any(around.args.get(name) for name in ("joins", "group", "order")):
        return False
    return _shows_first(around)


def _null(key: exp.Expr) -> Caution:
    return Caution(
        "ORDER BY puts groups without a value first",
        detail="An average is NULL where the noisy count is not positive, a quotient where its"
        " divisor is 0, and NULL comes before all values in this order.",
        hint="Add NULLS LAST after the column in ORDER BY.",
        position=position(key),
    )


def _nan(key: exp.Expr) -> Caution:
    return Caution(
        "ORDER BY puts quotients by 0 first",
        detail="Where the divisor is 0 a quotient is infinite or NaN, and these come before all"
        " other values in this order.",
        hint="Divide by nullif(n, 0), where n is the divisor.",
        position=position(key),
    )


class _Values:
    """What the expressions of one statement may be for a group without records."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._empty: dict[int, _Empty] = {}
        self._noisy: dict[int, bool] = {}

    def sorted_by(self, key: exp.Expr, query: exp.Expr) -> _Empty:
        """Of a key in the ORDER BY of a query or window."""
        number = None
        if not isinstance(query, exp.Window):
            number = whole_number(key)
            names = self._bound.names(query)
            if isinstance(key, exp.Column) and not key.table and key.name in names:
                number = names.index(key.name) + 1
        meant = [key] if number is None else self._bound.written(query, number - 1)
        return _NEITHER.union(*map(self.empty, meant))

    def empty(self, node: exp.Expr) -> _Empty:
        if id(node) not in self._empty:
            self._empty[id(node)] = _NEITHER  # a name that refers to itself is refused later
            self._empty[id(node)] = self._found(node)
        return self._empty[id(node)]

    def _found(self, node: exp.Expr) -> _Empty:
        if isinstance(node, exp.Column):
            return _NEITHER.union(*map(self.empty, self._bound.named(node)))
        if isinstance(node, _NEVER):
            return _NEITHER
        if _of_records(node):
            return _NULL if isinstance(unfiltered(node), (exp.Avg, *MOMENTS)) else _NEITHER
        parts = [self.empty(part) for part in node.iter_expressions()]
        whole = _NEITHER.union(*parts)
        match node:
            case exp.Window():
                return self.empty(node.this)
            case exp.Coalesce():
                return whole if all("NULL" in part for part in parts) else whole - _NULL
            case exp.Case():
                return self._case(node)
            case exp.Nullif() if self.noisy(node.this):
                return whole | _NULL
            case exp.IntDiv() | exp.Mod() if self._may_be_0(node.expression):
                return whole | _NULL
            case exp.Div() if self._may_be_0(node.expression):
                return whole | _NAN
        return whole

    def _case(self, node: exp.Case) -> _Empty:
        """A condition on a noisy value is taken to select the groups that have a value."""
        branches, other = node.args["ifs"], node.args.get("default")
        values = [
            *(branch.args["true"] for branch in branches),
            *([] if other is None else [other]),
        ]
        if any(self.noisy(branch.this) for branch in branches):
            nothing = other is None or any(isinstance(value, exp.Null) for value in values)
            return _NULL if nothing else _NEITHER
        return _NEITHER.union(*map(self.empty, values))

    def _may_be_0(self, divisor: exp.Expr) -> bool:
        """Whether noise may make a divisor 0. That of NULLIF is NULL instead."""
        while isinstance(divisor, exp.Paren | exp.Cast):
            divisor = divisor.this
        if isinstance(divisor, exp.Greatest):
            return not any(map(is_constant, divisor.iter_expressions()))
        return not isinstance(divisor, exp.Nullif) and self.noisy(divisor)

    def noisy(self, node: exp.Expr) -> bool:
        """Whether it depends on an aggregate over the records of a group, not of all groups."""
        if id(node) not in self._noisy:
            self._noisy[id(node)] = False
            self._noisy[id(node)] = self._depends(node)
        return self._noisy[id(node)]

    def _depends(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Column):
            return any(map(self.noisy, self._bound.named(node)))
        if isinstance(node, exp.Query):
            return False
        if isinstance(node, exp.Window) and not node.args.get("partition_by"):
            return False
        if _of_records(node):
            select = node.find_ancestor(exp.Select)
            return select is not None and select.args.get("group") is not None
        return any(map(self.noisy, node.iter_expressions()))

    def leaves_out(self, query: exp.Expr) -> bool:
        """Whether a condition in the query, or in those it reads, is that a count is large, or that
        a value is not NULL."""
        top = query.find_ancestor(exp.Select) if isinstance(query, exp.Window) else query
        return top is not None and any(map(self._is_large, _conditions(top)))

    def _is_large(self, condition: exp.Expr) -> bool:
        if isinstance(condition, _ABOVE):
            return self._counts(condition.this)
        if isinstance(condition, _BELOW):
            return self._counts(condition.expression)
        negated = isinstance(condition, exp.Not)
        test = condition.this.unnest() if negated else condition
        if not isinstance(test, exp.Is) or not isinstance(test.expression, exp.Null):
            return False
        return negated != bool(test.args.get("negate")) and "NULL" in self.empty(test.this)

    def _counts(self, node: exp.Expr) -> bool:
        """Whether it is a count of a group's records, or the lower end of an interval. The sum of
        an empty group may be large by noise where the count is not."""
        inner = node.unnest()
        if isinstance(inner, exp.Column):
            return any(map(self._counts, self._bound.named(inner)))
        if isinstance(inner, exp.Anonymous):
            return function_name(inner) == "dp_interval_low" and self.noisy(inner)
        return isinstance(unfiltered(inner), exp.Count) and _of_records(inner)


def _of_records(node: exp.Expr) -> bool:
    """Whether it is an aggregate over records."""
    if not is_aggregate(node):
        return False
    select = node.find_ancestor(exp.Select)
    return select is not None and reads_records(select)


def _conditions(query: exp.Expr) -> Iterator[exp.Expr]:
    """What must hold of all rows of a query, in it and in the queries it reads."""
    for side in leaves(query):
        for clause in map(side.args.get, ("where", "having")):
            if clause is not None:
                inner = clause.this.unnest()
                yield from inner.flatten() if isinstance(inner, exp.And) else [inner]
        for source in sources_of(side) if isinstance(side, exp.Select) else ():
            definition = definition_of(source)
            if definition is not None or isinstance(source, exp.Subquery):
                yield from _conditions(source if definition is None else definition.this)
