"""Group keys above the aggregation are checked like attributes below it.

Only a bin's edges and a timestamp's day are known there too, and a constant that matches no
declared value gets a caution. Cells of one attribute may be compared with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from tallyveil import deadline
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.cell_checks import check_cells
from tallyveil.rewriter.domain.column_uses import CELLS
from tallyveil.rewriter.private.undeclared import MAX_CAUTIONS, cautions
from tallyveil.rewriter.query_plan import Caution
from tallyveil.rewriter.resolve.bound import Bound, Origin, Origins, picked
from tallyveil.rewriter.resolve.record_queries import reads_records, sources
from tallyveil.rewriter.sql.nodes import is_star

__all__ = ["check_above"]


def check_above(
    tree: exp.Expr,
    bound: Bound,
    domains: Mapping[str, Domain],
    constant: Callable[[exp.Expr], Any],
    zone: str,
) -> tuple[Caution, ...]:
    """Return cautions about constants that group keys are compared with above the aggregation.

    ``constant`` evaluates a constant expression; ``zone`` is the session's time zone.

    Raises BinCut if an expression divides a cell.
    """
    nodes = [n for select in tree.find_all(exp.Select) for n in _keys(select, bound)]
    tops = {id(top): top for top in (_whole(node, bound) for node in nodes)}.values()
    for top in tops:
        origins = bound.of(top).origins
        if len(origins) == 1:
            top.meta[CELLS] = origins[0]
    found: list[Caution] = []
    for top in tops:
        deadline.check()
        origins = bound.of(top).origins
        for origin in origins:
            if not isinstance(origin, Origin):
                continue
            domain = domains[origin.table]
            attribute = domain[origin.name]
            check_cells(top, attribute, constant, zone)
            if len(origins) == 1 and len(found) < MAX_CAUTIONS:
                found += cautions(
                    top, attribute, domain.table, zone, lambda node: bound.of(node).constants
                )
    return tuple(dict.fromkeys(found))


def _keys(select: exp.Select, bound: Bound) -> Iterator[exp.Expr]:
    """Yield the columns over noisy rows, and the queries in expressions, that may have an
    attribute's values.
    """
    above = not reads_records(select)
    merged = _merged(select, bound) if above else []
    for node in (*_own(select), *merged):
        if not above and not isinstance(node, exp.Query):
            continue
        if any(isinstance(one, Origin) for one in bound.of(node).origins):
            yield node


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """The columns and the nested queries of its expressions."""
    for child in select.iter_expressions():
        if isinstance(child, exp.With):
            continue
        for node in child.dfs(prune=lambda part: isinstance(part, exp.Query | exp.Column)):
            read = isinstance(node.parent, exp.From | exp.Join | exp.Exists)
            column = isinstance(node, exp.Column) and not is_star(node)
            if column or (isinstance(node, exp.Query) and not read):
                yield node


def _merged(select: exp.Select, bound: Bound) -> Sequence[exp.Column]:
    """The columns that USING compares. On its left, one column stands for all of the same origins,
    or a chain of joins would give a pair for every two tables.
    """
    found: list[exp.Column] = []
    joins = select.args.get("joins") or ()
    lefts: dict[str, dict[Origins, exp.Expr]] = {
        name.name: {} for join in joins for name in join.args.get("using") or ()
    }
    for item in sources(select) if lefts else ():
        for name in item.parent.args.get("using") or () if item.parent is not None else ():
            for earlier in lefts[name.name].values():
                left, right = (
                    exp.column(name.copy(), side.alias_or_name, quoted=True)
                    for side in (earlier, item)
                )
                comparison = exp.EQ(this=left, expression=right)
                comparison.parent = item.parent
                found += [left, right]
        for called, known in lefts.items():
            known.setdefault(bound.in_source(item, called).origins, item)
    return found


def _whole(node: exp.Expr, bound: Bound) -> exp.Expr:
    """The largest enclosing expression whose value is the node's, in the same row or another."""
    origins = bound.of(node).origins
    while True:
        around = node.parent
        if isinstance(around, exp.If):
            around = around.parent
        value = around is not None and any(part is node for part in picked(around))
        if around is None or not value or bound.of(around).origins != origins:
            return node
        node = around
