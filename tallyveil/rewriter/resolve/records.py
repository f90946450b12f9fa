"""Which queries yield records of a protected table, and which aggregate them.

Each record contributes to a record-wise query on its own: projections, filters, joins with public
tables and UNION ALL. What combines records (GROUP BY, an aggregate, DISTINCT) makes noisy rows.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from sqlglot import exp

__all__ = [
    "KIND",
    "OUTER",
    "Found",
    "aggregates",
    "holds_noise",
    "holds_records",
    "is_aggregate",
    "is_listing",
    "level_nodes",
    "outer_columns",
    "own_nodes",
    "own_parts",
    "reads_records",
    "sources",
    "yields_records",
]

# The key under which a table node's meta says what it names: `names.Reference.kind`.
KIND: Final = "relation"

# The key under which a column's meta says that it stands in a query nested in an expression, and
# is of the query around it (`correlation`).
OUTER: Final = "outer"

Found: TypeAlias = dict[int, bool]
"""By a query's id, whether its rows are records."""

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
    """The nodes of a SELECT's clauses; of the queries nested in them its own columns alone."""
    return level_nodes(*own_parts(select))


def level_nodes(*parts: exp.Expr) -> list[exp.Expr]:
    """The nodes of some expressions, the queries nested in them left out as in `own_nodes`."""
    nodes: list[exp.Expr] = []
    stack = [*parts]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Query):
            nodes += outer_columns(node)
            continue
        nodes.append(node)
        stack.extend(node.iter_expressions())
    return nodes


def own_parts(select: exp.Select) -> list[exp.Expr]:
    """The items and the clauses of a SELECT that hold expressions over its FROM."""
    clauses = [select.args.get(name) for name in _CLAUSES]
    return [*select.expressions, *(clause for clause in clauses if clause is not None)]


def outer_columns(query: exp.Expr) -> list[exp.Column]:
    """The columns in a nested query that are of the query around it; those of blocks of records
    inside are theirs.
    """
    found: list[exp.Column] = []
    stack = [query]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Column) and node.meta.get(OUTER):
            found.append(node)
        if not (isinstance(node, exp.Select) and reads_records(node)):
            stack.extend(node.iter_expressions())
    return found


def sources(select: exp.Select) -> list[exp.Expr]:
    """The tables and subqueries of FROM and its joins."""
    first = select.args.get("from_")
    joins = select.args.get("joins") or ()
    return [*([first.this] if first is not None else []), *(join.this for join in joins)]


def holds_records(source: exp.Expr, found: Found | None = None) -> bool:
    """Whether an item of FROM has one row per record, or several.

    ``found`` keeps what was found out about queries, where many are asked about that do not change
    meanwhile: of queries nested in each other each would look through all inside it again.
    """
    if isinstance(source, exp.Table):
        return source.meta.get(KIND) == "protected"
    return isinstance(source, exp.Subquery) and yields_records(source.this, found)


def reads_records(select: exp.Select, found: Found | None = None) -> bool:
    return any(holds_records(source, found) for source in sources(select))


def aggregates(select: exp.Select) -> bool:
    """Whether the SELECT combines the rows it reads."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(is_aggregate(node) for node in own_nodes(select))


def yields_records(query: exp.Expr, found: Found | None = None) -> bool:
    """Whether the rows of a query are records still."""
    if found is None:
        return _yields_records(query, None)
    if id(query) not in found:
        found[id(query)] = _yields_records(query, found)
    return found[id(query)]


def _yields_records(query: exp.Expr, found: Found | None) -> bool:
    if isinstance(query, exp.Subquery):
        return yields_records(query.this, found)
    if isinstance(query, exp.SetOperation):
        return yields_records(query.this, found) or yields_records(query.expression, found)
    if not isinstance(query, exp.Select) or aggregates(query):
        return False
    return reads_records(query, found) and not is_listing(query)


def is_listing(select: exp.Select) -> bool:
    """``SELECT DISTINCT attribute FROM t``: the declared values, in a block of its own."""
    return select.args.get("distinct") is not None


def holds_noise(query: exp.Expr) -> bool:
    """Whether a query is, or contains, what is answered with noise, or tells of the ledger.

    The names of common tables count, since those without noise are written out.
    """
    if any(table.meta.get(KIND) in ("common", "dp") for table in query.find_all(exp.Table)):
        return True
    found: Found = {}
    return any(
        reads_records(select, found) and (aggregates(select) or is_listing(select))
        for select in query.find_all(exp.Select)
    )
