"""Which queries yield records of a protected table, and which aggregate them.

In a record-wise query each record contributes rows independently: projections, filters, joins with
public tables and UNION ALL. Combining records (GROUP BY, an aggregate, DISTINCT) gives noisy rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, GroupingError
from tallyveil.rewriter.sql.nodes import filtered, function_name, position, unfiltered, visit
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = [
    "KIND", "OUTER", "Kind", "aggregates", "at_record_level", "check_record_level", "common_table",
    "definition_of", "holds_noise", "holds_records", "is_aggregate", "is_listing", "level_nodes",
    "mark_records", "outer_columns", "own_nodes", "own_parts", "reads_records",
    "refuse_counted_listings", "renamed", "sources", "yields_records",
]  # fmt: skip


Kind: TypeAlias = Literal["protected", "public", "dp", "common"]
"""What a table names. A common table is an item of WITH."""

# The key in a table node's meta for its `Kind` (`names.resolve_tables`).
KIND: Final = "relation"

# The key in the meta of a column that is in a query nested in an expression, but belongs to the
# enclosing query (`columns`).
OUTER: Final = "outer"

# The key in a query's meta for whether its rows are still records.
_RECORDS: Final = "records"

_CLAUSES = ("where", "group", "having", "qualify", "order")


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is an aggregate. The function of a window is not."""
    if not isinstance(unfiltered(node), exp.AggFunc):
        return False
    return not isinstance(filtered(node).parent, exp.Window)


def own_nodes(select: exp.Select) -> list[exp.Expr]:
    """The nodes of a SELECT's clauses. Of queries nested in them, only the SELECT's columns."""
    return level_nodes(*own_parts(select))


def level_nodes(*parts: exp.Expr) -> list[exp.Expr]:
    """The nodes of some expressions, without nested queries as in `own_nodes`."""
    nodes: list[exp.Expr] = []
    for part in parts:
        for node in part.dfs(prune=lambda inner: isinstance(inner, exp.Query)):
            nodes += outer_columns(node) if isinstance(node, exp.Query) else [node]
    return nodes


def own_parts(select: exp.Select) -> list[exp.Expr]:
    """The items and the clauses of a SELECT that contain expressions over its FROM."""
    clauses = [select.args.get(name) for name in _CLAUSES]
    return [*select.expressions, *(clause for clause in clauses if clause is not None)]


def outer_columns(query: exp.Expr) -> list[exp.Column]:
    """The columns in a nested query that belong to the enclosing query. Private blocks inside are
    skipped.
    """
    nodes = query.dfs(prune=lambda node: isinstance(node, exp.Select) and reads_records(node))
    return [node for node in nodes if isinstance(node, exp.Column) and node.meta_get(OUTER)]


def sources(select: exp.Select) -> list[exp.Expr]:
    """The tables and subqueries of FROM and its joins."""
    first = select.args.get("from_")
    joins = select.args.get("joins") or ()
    return [*([first.this] if first is not None else []), *(join.this for join in joins)]


def mark_records(tree: exp.Expr) -> None:
    """Mark each query with whether its rows are still records, inner queries first."""
    for query in reversed(list(tree.find_all(exp.Query))):
        query.meta[_RECORDS] = _yields_records(query)


def holds_records(source: exp.Expr) -> bool:
    """Whether an item of FROM has one row per record, or several."""
    if isinstance(source, exp.Table):
        return bool(source.meta_get(KIND) == "protected")
    return isinstance(source, exp.Subquery) and yields_records(source.this)


def reads_records(select: exp.Select) -> bool:
    return any(map(holds_records, sources(select)))


def at_record_level(node: exp.Expr) -> bool:
    """Whether the expression is over single records of a protected table, not aggregated.

    Common tables of records must be expanded first (`definitions`).
    """
    select = node.find_ancestor(exp.Select)
    return select is not None and reads_records(select) and node.find(exp.AggFunc) is None


def aggregates(select: exp.Select) -> bool:
    """Whether the SELECT combines the rows it reads."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(is_aggregate(node) for node in own_nodes(select))


def yields_records(query: exp.Expr) -> bool:
    """Whether the rows of a query are still records, as `mark_records` has marked it."""
    return isinstance(query, exp.Query) and bool(query.meta[_RECORDS])


def _yields_records(query: exp.Expr) -> bool:
    if isinstance(query, exp.Subquery):
        return yields_records(query.this)
    if isinstance(query, exp.SetOperation):
        return yields_records(query.this) or yields_records(query.expression)
    if not isinstance(query, exp.Select) or aggregates(query):
        return False
    return reads_records(query) and not is_listing(query)


def is_listing(select: exp.Select) -> bool:
    """Whether it has DISTINCT: over records it lists declared values, and is a private block."""
    return select.args.get("distinct") is not None


def holds_noise(query: exp.Expr) -> bool:
    """Whether a query contains a private block or reads relations of schema dp.

    The names of common tables count, since those without noise have been replaced.
    """
    if any(table.meta_get(KIND) in ("common", "dp") for table in query.find_all(exp.Table)):
        return True
    return any(
        reads_records(select) and (aggregates(select) or is_listing(select))
        for select in query.find_all(exp.Select)
    )


def check_record_level(part: exp.Expr) -> None:
    """Raise FeatureNotSupported for a window, GroupingError for an aggregate or a function of one.

    Nested queries are skipped.
    """
    visit(level_nodes(part), _refuse_combining)


def _refuse_combining(node: exp.Expr) -> None:
    if isinstance(node, exp.Window):
        raise FeatureNotSupported(
            "a window function below the aggregation is not answered",
            hint="Aggregate first; windows over the noisy rows are answered.",
        )
    if is_aggregate(node):
        raise GroupingError(
            "aggregate functions are not allowed in WHERE, GROUP BY or in an aggregate"
        )
    if isinstance(node, exp.Anonymous) and function_name(node) in ABOUT_ANSWERS:
        raise GroupingError(
            f"{function_name(node)} takes an aggregate, and none is allowed in WHERE, GROUP "
            "BY or in an aggregate",
            hint="Write it above the aggregation: in HAVING, or in an enclosing SELECT.",
        )


def refuse_counted_listings(tree: exp.Expr) -> None:
    """Raise FeatureNotSupported if a SELECT aggregates a list of values.

    SELECT DISTINCT over records, and GROUP BY without an aggregate, list the declared values,
    whether or not a record has them. That suits a list for a filter box, and is free of charge. A
    count of it would give the number of declared values, not of those that occur.
    """
    if not any(reads_records(s) and _is_list(s) for s in tree.find_all(exp.Select)):
        return
    known: dict[int, bool] = {}
    for select in tree.find_all(exp.Select):
        if not aggregates(select):
            continue
        for source in sources(select):
            if _lists(source, known):
                raise FeatureNotSupported(
                    "counting distinct values of records is not answered: it is not a sum over "
                    "records",
                    hint="SELECT DISTINCT attribute lists the declared values, free of charge; "
                    "SELECT attribute, count(*) … GROUP BY attribute counts the records with each.",
                    position=position(source),
                )


def _lists(node: exp.Expr, known: dict[int, bool]) -> bool:
    """Whether its rows are a list of values; ``known`` caches the result of each node."""
    if id(node) in known:
        return known[id(node)]
    match node:
        case exp.Table():
            item = definition_of(node)
            found = item is not None and _lists(item.this, known)
        case exp.Subquery():
            found = _lists(node.this, known)
        case exp.SetOperation():
            found = _lists(node.this, known) or _lists(node.expression, known)
        case exp.Select() if reads_records(node):
            found = _is_list(node)
        case exp.Select() if not aggregates(node):
            found = any(_lists(source, known) for source in sources(node))
        case _:
            found = False
    known[id(node)] = found
    return found


def _is_list(select: exp.Select) -> bool:
    """Whether the rows of a SELECT over records only list groups."""
    if any(is_aggregate(node) for node in own_nodes(select)):
        return False
    return is_listing(select) or select.args.get("group") is not None


def common_table(table: exp.Table, name: str) -> exp.CTE | None:
    """The WITH item that the name means, or None. An item sees earlier ones, a query all."""
    node: exp.Expr = table
    while node.parent is not None:
        parent = node.parent
        visible: list[exp.CTE] = []
        if isinstance(parent, exp.With):
            for item in parent.expressions:
                if item is node:
                    break
                visible.append(item)
        elif isinstance(parent, exp.Query) and not isinstance(node, exp.With):
            definitions = parent.args.get("with_")
            visible = definitions.expressions if definitions is not None else []
        for item in visible:
            if item.alias == name:
                return item
        node = parent
    return None


def definition_of(source: exp.Expr) -> exp.CTE | None:
    """The WITH item that an item of FROM names, or None."""
    if not isinstance(source, exp.Table) or source.meta_get(KIND) != "common":
        return None
    return common_table(source, source.name)


def renamed(source: exp.Expr, names: Sequence[str]) -> list[str]:
    """The names, with the first replaced by those that an item of FROM or WITH gives."""
    alias = source.args.get("alias")
    given = [c.name for c in alias.columns] if alias is not None else []
    return [*given, *names[len(given) :]]
