"""A query whose counts can be published exactly: one SELECT of linear aggregates, and nothing else.

What it publishes is all that is counted for it. So nothing may stand above the aggregation that
would show less: no HAVING, no LIMIT, no second aggregation.
"""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.private.linear import linear
from tallyveil.rewriter.resolve.definitions import read_declared
from tallyveil.rewriter.resolve.names import Catalog
from tallyveil.rewriter.resolve.records import is_aggregate, own_nodes
from tallyveil.rewriter.sql.nodes import position

__all__ = ["check_linear"]

_CLAUSES = ("having", "limit", "offset", "distinct", "qualify", "windows")
_HINT = "Write one SELECT of group keys and COUNT, SUM or sums and differences of them."


def check_linear(sql: str, catalog: Catalog) -> None:
    """Raises StatementError, with a position, for a query that is none such."""
    tree = read_declared(sql, "an invariant", catalog)
    if not isinstance(tree, exp.Select):
        raise _refused("an invariant is one SELECT", tree)
    for name in _CLAUSES:
        clause, word = tree.args.get(name), name.upper().removesuffix("S")
        if clause:
            node = clause if isinstance(clause, exp.Expr) else tree
            raise _refused(f"an invariant has no {word}: it is published as it is counted", node)
    for query in tree.find_all(exp.Query):
        aggregated = isinstance(query, exp.Select) and any(map(is_aggregate, own_nodes(query)))
        if query is not tree and (query.args.get("group") or aggregated):
            raise _refused("an invariant aggregates once", query)
    own = [item.unalias() for item in tree.expressions]
    for ordered in (tree.args.get("order") or exp.Order()).find_all(exp.Ordered):
        if any(map(is_aggregate, ordered.walk())) and ordered.this not in own:
            raise _refused("an invariant publishes what is in its SELECT list", ordered)
    for item in own:
        for node in item.find_all(exp.Window, exp.Query):
            raise _refused("an invariant has no window and no query in its SELECT list", node)
        if any(map(is_aggregate, item.walk())):
            found = linear(item)
            if found is None:
                raise _refused("an invariant is linear: COUNT and SUM are, this is not", item)
            if found.cancels:
                raise _refused("an invariant counts records: this is 0 whatever they are", item)
    if not any(map(linear, own)):
        raise _refused("an invariant counts records: it has a COUNT or SUM", tree)


def _refused(message: str, node: exp.Expr) -> FeatureNotSupported:
    return FeatureNotSupported(message, hint=_HINT, position=position(node) or 1)
