"""Over the wire, refuse functions that PostgreSQL lacks, by name and number of arguments.

sqlglot reads functions of other databases as similar ones. In PostgreSQL neither exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sqlglot import exp

from tallyveil.errors import UndefinedFunction
from tallyveil.rewriter.sql.postgres_parser import Call
from tallyveil.rewriter.sql.vocabulary import (
    ANY_NUMBER,
    FUNCTIONS,
    NAMED_FUNCTIONS,
    POSTGRES_FUNCTIONS,
    SESSION_FUNCTIONS,
)

__all__ = ["refuse_other_functions", "refuse_other_numbers"]

_PLACE: Final = "Write position(part IN text)."
_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("locate", "charindex", "instr", "str_position", "contains"), _PLACE),
    **dict.fromkeys(("ifnull", "nvl"), "Write coalesce(a, b)."),
    **dict.fromkeys(("if", "iif"), "Write CASE WHEN … THEN … ELSE … END."),
    **dict.fromkeys(("date_from_parts", "datefromparts"), "Write make_date(2020, 1, 31)."),
    **dict.fromkeys(("year", "quarter", "month", "week", "day"), "Write extract(… FROM …)."),
    "len": "Write length(text).",
    **dict.fromkeys(("count_if", "countif"), "Write count(*) FILTER (WHERE …)."),
    **dict.fromkeys(
        ("skewness", "kurtosis"),
        "Write avg(x), avg(x * x), avg(x * x * x) …, and compute it from these.",
    ),
    "try_cast": "Write CAST(… AS …).",
}


def refuse_other_numbers(calls: Iterable[Call]) -> None:
    """Raise UndefinedFunction if a function takes another number of arguments."""
    for call in calls:
        least, most = POSTGRES_FUNCTIONS.get(call.name, (0, ANY_NUMBER))
        if least <= call.arguments <= most:
            continue
        wanted = str(least) if least == most else f"{least} to {most}"
        wanted = f"{least} or more" if most == ANY_NUMBER else wanted
        raise UndefinedFunction(
            f"function {call.name} with {call.arguments} arguments does not exist",
            hint=f"{call.name} takes {wanted}.",
            position=call.start + 1,
        )


def refuse_other_functions(tree: exp.Expr, calls: Iterable[Call]) -> None:
    """Raise UndefinedFunction if PostgreSQL has no such function.

    Functions outside the vocabulary are left to `check`, which says why.
    """
    answered = {node.meta_get("start") for node in tree.find_all(exp.Func) if _is_answered(node)}
    for call in calls:
        if call.name not in POSTGRES_FUNCTIONS and (call.start in answered or call.name in _HINTS):
            raise UndefinedFunction(
                f"function {call.name} does not exist",
                hint=_HINTS.get(call.name, "Use a function that PostgreSQL has."),
                position=call.start + 1,
            )


def _is_answered(node: exp.Func) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in {**NAMED_FUNCTIONS, **SESSION_FUNCTIONS}
    return type(node) in FUNCTIONS or node.sql_name().lower() in SESSION_FUNCTIONS
