"""Queries that never have rows: LIMIT 0, WHERE 1 = 0. Clients use them to get columns' types.

Such a query reveals nothing about the contents of its tables. So it reads empty tables instead of
the protected ones, whose columns and types are public. Functions of answers are marked in it, since
it has no answers (`interval_columns`).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from sqlglot import exp

from tallyveil.policy.domain import Domain
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.keyed_joins import forget_keys
from tallyveil.rewriter.resolve.record_queries import KIND, is_aggregate, own_nodes, sources
from tallyveil.rewriter.sql.nodes import (
    COMPARISONS,
    all_nodes,
    as_type,
    function_name,
    own_alias,
    whole_number,
)
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["WITHOUT_ROWS", "empty_probes"]

# The key in the meta of a function of an answer that is in a query without rows.
WITHOUT_ROWS: Final = "without_rows"

_Known: TypeAlias = dict[int, bool]
"""For the id of each query, whether it never has rows."""


def empty_probes(tree: exp.Expr, catalog: Catalog) -> bool:
    """Replace each protected table in such a query by an empty one. Return whether any was."""
    found = False
    known: _Known = {}
    for node in all_nodes(tree, exp.Table):
        if node.meta_get(KIND) != "protected" or not _within_probe(node, known):
            continue
        found = True
        select = node.find_ancestor(exp.Select)
        if select is not None:
            forget_keys(select, catalog.keys.values())
        empty = exp.Subquery(
            this=_without_rows(catalog.domains[node.name]),
            alias=own_alias(node),
            joins=node.args.get("joins"),
        )
        node.replace(empty)
    for function in tree.find_all(exp.Anonymous) if found else ():
        if function_name(function) in ABOUT_ANSWERS and _within_probe(function, known):
            function.meta[WITHOUT_ROWS] = True
    return found


def _within_probe(node: exp.Expr, known: _Known) -> bool:
    """Whether an enclosing query never has rows.

    A WITH item may be read in several places, so only the whole query of its WITH counts.
    """
    while node.parent is not None:
        node = node.parent
        if isinstance(node, exp.Query) and _has_no_rows(node, known):
            return True
    return False


def _without_rows(domain: Domain) -> exp.Select:
    items = [
        exp.alias_(as_type(exp.null(), attribute.sql_type), attribute.name, quoted=True)
        for attribute in domain.own
    ]
    return exp.select(*items).where(exp.false())


def _has_no_rows(query: exp.Expr, known: _Known) -> bool:
    """Whether the query never has rows, whatever its tables contain.

    Each query is examined once: those of a long UNION are nested in each other.
    """
    if id(query) not in known:
        known[id(query)] = _takes_none(query) or _combines_nothing(query, known)
    return known[id(query)]


def _combines_nothing(query: exp.Expr, known: _Known) -> bool:
    match query:
        case exp.Subquery() | exp.Except():
            return _has_no_rows(query.this, known)
        case exp.Intersect():
            return _has_no_rows(query.this, known) or _has_no_rows(query.expression, known)
        case exp.Union():
            return _has_no_rows(query.this, known) and _has_no_rows(query.expression, known)
        case exp.Select():
            return _reads_nothing(query, known) and not _has_a_total(query)
    return False


def _takes_none(query: exp.Expr) -> bool:
    limit = query.args.get("limit")
    if isinstance(limit, exp.Fetch):
        return whole_number(limit.args.get("count")) == 0
    return isinstance(limit, exp.Limit) and whole_number(limit.expression) == 0


def _reads_nothing(select: exp.Select, known: _Known) -> bool:
    """Whether FROM has no row, or none passes WHERE."""
    where = select.args.get("where")
    if where is not None and _truth(where.this) is False:
        return True
    joins = select.args.get("joins") or ()
    if any(join.side in ("RIGHT", "FULL") for join in joins):
        return False
    first = sources(select)[:1]
    return bool(first) and isinstance(first[0], exp.Subquery) and _has_no_rows(first[0], known)


def _has_a_total(select: exp.Select) -> bool:
    """Whether there is a row even for no input: an aggregate without GROUP BY, or with a set ()."""
    group = select.args.get("group")
    if group is None:
        return select.args.get("having") is not None or any(map(is_aggregate, own_nodes(select)))
    sets = ("rollup", "cube", "grouping_sets", "totals")
    whole = (isinstance(each, exp.Tuple) and not each.expressions for each in group.expressions)
    return any(group.args.get(name) for name in sets) or any(whole)


def _truth(node: exp.Expr) -> bool | None:
    """The value of a condition on constants only; None if it is not simple."""
    match node:
        case exp.Paren():
            return _truth(node.this)
        case exp.Boolean():
            return bool(node.this)
        case exp.Not():
            inner = _truth(node.this)
            return None if inner is None else not inner
        case exp.And() | exp.Or():
            sides = _truth(node.this), _truth(node.expression)
            decided = isinstance(node, exp.Or)  # if one side has this value, so has the whole
            return decided if decided in sides else None if None in sides else not decided
    comparison = COMPARISONS.get(type(node))
    if comparison is None:
        return None
    left, right = whole_number(node.this.unnest()), whole_number(node.expression.unnest())
    return None if left is None or right is None else comparison.holds(left, right)
