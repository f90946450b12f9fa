"""What may stand where single records are looked at: nothing that combines them."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, GroupingError
from tallyveil.rewriter.resolve.records import is_aggregate
from tallyveil.rewriter.sql.check import function_name, position
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["check_record_level"]


def check_record_level(part: exp.Expr) -> None:
    """Raise FeatureNotSupported for a window, GroupingError for an aggregate or a function of one.

    Queries nested in the part are not looked into.
    """
    stack = [part]
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Window):
            raise FeatureNotSupported(
                "a window function below the aggregation is not answered",
                hint="Aggregate first; windows over the noisy rows are answered.",
                position=position(node),
            )
        if is_aggregate(node):
            raise GroupingError(
                "aggregate functions are not allowed in WHERE, GROUP BY or in an aggregate",
                position=position(node),
            )
        if isinstance(node, exp.Anonymous) and function_name(node) in ABOUT_ANSWERS:
            raise GroupingError(
                f"{function_name(node)} takes an aggregate, and none is allowed in WHERE, GROUP "
                "BY or in an aggregate",
                hint="Write it above the aggregation: in HAVING, or in a SELECT around.",
                position=position(node),
            )
        stack.extend(c for c in node.iter_expressions() if not isinstance(c, exp.Query))
