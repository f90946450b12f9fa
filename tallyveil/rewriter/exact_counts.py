"""Check that a query's counts can be published exactly: one SELECT of linear aggregates only.

All counts of the query are published. So nothing above the aggregation may show less: no HAVING, no
LIMIT, no second aggregation.
"""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.private.linear import linear
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.definitions import read_declared
from tallyveil.rewriter.resolve.record_queries import is_aggregate, own_nodes
from tallyveil.rewriter.sql.nodes import position

__all__ = ["check_linear"]

_CLAUSES = ("having", "limit", "offset", "distinct", "qualify", "windows")
_HINT = "Write one SELECT of group keys and COUNT, SUM or sums and differences of them."


def check_linear(sql: str, catalog: Catalog) -> None:
    """Raise StatementError, with a position, for any other query."""
    tree = read_declared(sql, "an invariant", catalog)
    if not isinstance(tree, exp.Select):
        raise _refused("an invariant must be one SELECT", tree)
    for name in _CLAUSES:
        clause, word = tree.args.get(name), name.upper().removesuffix("S")
        if clause:
            node = clause if isinstance(clause, exp.Expr) else tree
            raise _refused(f"an invariant cannot have {word}: all its counts are published", node)
    for query in tree.find_all(exp.Query):
        aggregated = isinstance(query, exp.Select) and any(map(is_aggregate, own_nodes(query)))
        if query is not tree and (query.args.get("group") or aggregated):
            raise _refused("an invariant must aggregate once", query)
    own = [item.unalias() for item in tree.expressions]
    for ordered in (tree.args.get("order") or exp.Order()).find_all(exp.Ordered):
        if any(map(is_aggregate, ordered.walk())) and ordered.this not in own:
            raise _refused("an invariant is ordered only by aggregates in its SELECT list", ordered)
    for item in own:
        for node in item.find_all(exp.Window, exp.Query):
            raise _refused("an invariant cannot have a window or query in its SELECT list", node)
        if any(map(is_aggregate, item.walk())):
            found = linear(item)
            if found is None:
                raise _refused("an invariant must be linear, such as COUNT or SUM", item)
            if found.cancels:
                raise _refused("an invariant must count records: this is always 0", item)
    if not any(map(linear, own)):
        raise _refused("an invariant must count records, with COUNT or SUM", tree)


def _refused(message: str, node: exp.Expr) -> FeatureNotSupported:
    return FeatureNotSupported(message, hint=_HINT, position=position(node) or 1)
