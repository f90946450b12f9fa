"""Which queries yield records of a protected table, and which aggregate them.

Each record contributes to a record-wise query on its own: projections, filters, joins with public
tables and UNION ALL. What combines records (GROUP BY, an aggregate, DISTINCT) makes noisy rows.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

__all__ = [
    "KIND",
    "aggregates",
    "holds_noise",
    "holds_records",
    "is_aggregate",
    "own_nodes",
    "reads_records",
    "sources",
    "yields_records",
]

# The key under which a table node's meta says what it names: `names.Reference.kind`.
KIND: Final = "relation"

_CLAUSES = ("where", "group", "having", "order")


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node aggregates records: a window's own function does not."""
    if isinstance(node, exp.Filter):
        return isinstance(node.this, exp.AggFunc) and not isinstance(node.parent, exp.Window)
    if not isinstance(node, exp.AggFunc):
        return False
    outer = node.parent
    if isinstance(outer, exp.Filter) and outer.this is node:
        outer = outer.parent
    return not isinstance(outer, exp.Window)


def own_nodes(select: exp.Select) -> list[exp.Expr]:
    """The nodes of a SELECT's clauses, without the queries nested in them."""
    nodes: list[exp.Expr] = []
    clauses = [select.args.get(name) for name in _CLAUSES]
    stack = [*select.expressions, *(clause for clause in clauses if clause is not None)]
    while stack:
        node = stack.pop()
        nodes.append(node)
        stack.extend(c for c in node.iter_expressions() if not isinstance(c, exp.Query))
    return nodes


def sources(select: exp.Select) -> list[exp.Expr]:
    """The tables and subqueries of FROM and its joins."""
    first = select.args.get("from_")
    joins = select.args.get("joins") or ()
    return [*([first.this] if first is not None else []), *(join.this for join in joins)]


def holds_records(source: exp.Expr) -> bool:
    """Whether an item of FROM has one row per record, or several."""
    if isinstance(source, exp.Table):
        return source.meta.get(KIND) == "protected"
    return isinstance(source, exp.Subquery) and yields_records(source.this)


def reads_records(select: exp.Select) -> bool:
    return any(holds_records(source) for source in sources(select))


def aggregates(select: exp.Select) -> bool:
    """Whether the SELECT combines the rows it reads."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(is_aggregate(node) for node in own_nodes(select))


def yields_records(query: exp.Expr) -> bool:
    """Whether the rows of a query are records still."""
    if isinstance(query, exp.Subquery):
        return yields_records(query.this)
    if isinstance(query, exp.SetOperation):
        return yields_records(query.this) or yields_records(query.expression)
    if not isinstance(query, exp.Select) or aggregates(query):
        return False
    return reads_records(query) and not is_listing(query)


def is_listing(select: exp.Select) -> bool:
    """``SELECT DISTINCT attribute FROM t``: the declared values, in a block of its own."""
    return select.args.get("distinct") is not None


def holds_noise(query: exp.Expr) -> bool:
    """Whether a query is, or contains, what is answered with noise, or tells of the ledger.

    The names of common tables count, since those without noise are written out.
    """
    if any(table.meta.get(KIND) in ("common", "dp") for table in query.find_all(exp.Table)):
        return True
    return any(
        reads_records(select) and (aggregates(select) or is_listing(select))
        for select in query.find_all(exp.Select)
    )
