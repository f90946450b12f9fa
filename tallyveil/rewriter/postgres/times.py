"""Parts of dates and times."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedFunction
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import function_name, position
from tallyveil.rewriter.sql.types import family, spoken

__all__ = ["extract", "finite", "truncate"]

_DATE_PARTS: Final = frozenset(
    {
        "year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear", "epoch",
        "decade", "century", "millennium",
    }
)  # fmt: skip
_TIME_PARTS: Final = frozenset({"hour", "minute"})
_UNITS: Final = frozenset({"year", "quarter", "month", "week", "day"})


def extract(node: exp.Extract, scope: Scope) -> None:
    part, kind = node.this.name.lower(), scope.type_of(node.expression)
    parts = _DATE_PARTS | _TIME_PARTS if kind in ("TIMESTAMP", "TIMESTAMPTZ") else _DATE_PARTS
    if part not in parts or kind not in ("DATE", "TIMESTAMP", "TIMESTAMPTZ", None):
        raise FeatureNotSupported(
            f"extract({part}) of a {(kind or 'value').lower()} is not answered",
            hint=f"These are: {', '.join(sorted(parts))}.",
            position=position(node),
        )


def truncate(node: exp.Func, scope: Scope) -> None:
    unit = node.args["unit"].name.lower()
    if unit not in _UNITS or node.args.get("zone") is not None:
        raise FeatureNotSupported(
            f"date_trunc to {unit} is not answered",
            hint=f"These are: {', '.join(sorted(_UNITS))}; without a time zone.",
            position=position(node),
        )


def finite(node: exp.Anonymous, scope: Scope) -> None:
    """DuckDB has isfinite of numbers too."""
    if function_name(node) != "isfinite" or not node.expressions:
        return
    kind = scope.type_of(node.expressions[0])
    if kind is not None and family(kind) != "time":
        raise UndefinedFunction(
            f"function isfinite({spoken(kind)}) does not exist",
            hint="Give it a date or a timestamp.",
            position=position(node),
        )
