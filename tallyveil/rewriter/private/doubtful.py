"""bool_or and bool_and over records, where the session allows it: decided by a count's interval.

bool_or(x) is whether a record meets x, bool_and(x) whether none fails it. The number of these has
noise, so that the answer is true or false where all its interval says so, and NULL elsewhere:

    CASE WHEN dp_interval_low(n) > 0 THEN … WHEN dp_interval_high(n) < 1 THEN … END
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.rewriter.query_plan import Caution
from tallyveil.rewriter.resolve.record_queries import is_aggregate, reads_records
from tallyveil.rewriter.sql.nodes import all_nodes, call, conjunction, filtered

__all__ = ["decide_by_intervals"]

_CAUTION: Final = Caution(
    "bool_or and bool_and are decided by the interval of a count, and NULL where it leaves doubt",
    hint="Ask for count(*) FILTER (WHERE …) itself. SET dp.extremes = off refuses them.",
)


def decide_by_intervals(tree: exp.Expr) -> tuple[Caution, ...]:
    """Replace the bool_or and bool_and of records in place, and warn of it."""
    found = [
        node
        for node in all_nodes(tree, exp.LogicalOr, exp.LogicalAnd)
        if is_aggregate(node) and (select := node.parent_select) and _of_records(select)
    ]
    for node in found:
        met = node.this if isinstance(node, exp.LogicalOr) else exp.Not(this=exp.paren(node.this))
        whole, conditions = filtered(node), [met]
        if whole is not node:
            conditions.insert(0, whole.expression.this)
        where = exp.Where(this=conjunction([one.copy() for one in conditions]))
        count = exp.Filter(this=exp.Count(this=exp.Star()), expression=where)
        low, high = (call(f"dp_interval_{end}", count.copy()) for end in ("low", "high"))
        some, none = (exp.true(), exp.false())[:: 1 if isinstance(node, exp.LogicalOr) else -1]
        whole.replace(
            exp.Case(
                ifs=[
                    exp.If(this=exp.GT(this=low, expression=exp.Literal.number(0)), true=some),
                    exp.If(this=exp.LT(this=high, expression=exp.Literal.number(1)), true=none),
                ]
            )
        )
    return (_CAUTION,) if found else ()


def _of_records(select: exp.Expr) -> bool:
    return isinstance(select, exp.Select) and reads_records(select)
