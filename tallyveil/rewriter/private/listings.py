"""SELECT DISTINCT over records, and GROUP BY without an aggregate, list declared values, whether
or not a record has them.

As a list for a filter box that is what one wants, and it is free. A count of the list would say
how many values are declared where the statement asks how many occur.
"""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.resolve.names import common_table
from tallyveil.rewriter.resolve.records import (
    KIND,
    aggregates,
    is_aggregate,
    is_listing,
    own_nodes,
    reads_records,
    sources,
)
from tallyveil.rewriter.sql.check import position

__all__ = ["refuse_counted_listings"]


def refuse_counted_listings(tree: exp.Expr) -> None:
    """Raise FeatureNotSupported where a SELECT aggregates a list of values."""
    if not any(reads_records(s) and _is_list(s) for s in tree.find_all(exp.Select)):
        return
    known: dict[int, bool] = {}
    for select in tree.find_all(exp.Select):
        if not aggregates(select):
            continue
        for source in sources(select):
            if _lists(source, known):
                raise FeatureNotSupported(
                    "counting distinct values of records is not answered: one record can change "
                    "it and a thousand not",
                    hint="SELECT DISTINCT attribute lists the declared values, free of charge; "
                    "SELECT attribute, count(*) … GROUP BY attribute says how many records hold "
                    "each.",
                    position=position(source),
                )


def _lists(node: exp.Expr, known: dict[int, bool]) -> bool:
    """Whether its rows are a list of values; ``known`` keeps what each node was found to be."""
    if id(node) not in known:
        known[id(node)] = _found(node, known)
    return known[id(node)]


def _found(node: exp.Expr, known: dict[int, bool]) -> bool:
    if isinstance(node, exp.Table):
        item = common_table(node, node.name) if node.meta.get(KIND) == "common" else None
        return item is not None and _lists(item.this, known)
    if isinstance(node, exp.Subquery):
        return _lists(node.this, known)
    if isinstance(node, exp.SetOperation):
        return _lists(node.this, known) or _lists(node.expression, known)
    if not isinstance(node, exp.Select):
        return False
    if reads_records(node):
        return _is_list(node)
    if aggregates(node):
        return False
    return any(_lists(source, known) for source in sources(node))


def _is_list(select: exp.Select) -> bool:
    """Whether the rows of a SELECT over records say nothing but which groups there are."""
    if any(is_aggregate(node) for node in own_nodes(select)):
        return False
    return is_listing(select) or select.args.get("group") is not None
