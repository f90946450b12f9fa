"""Parts of dates and times."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tallyveil.errors import DatetimeFieldOverflow, FeatureNotSupported, UndefinedFunction
from tallyveil.rewriter.postgres.build import call
from tallyveil.rewriter.resolve.finiteness import is_infinite
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import function_name, position
from tallyveil.rewriter.sql.types import family, spoken

__all__ = ["extract", "finite", "make", "subtract", "truncate", "write"]

# Numbers of fixed width and meaning, as the parser has read PostgreSQL's format, and punctuation.
_FORMAT: Final = re.compile(r"(?:%[YmdjHMS]|[-/., :;_()])+")
_DAYS: Final = re.compile(r"(?:%[Ymdj]|[-/., :;_()])+")

_DATE_PARTS: Final = frozenset(
    {
        "year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear", "epoch",
        "decade", "century", "millennium",
    }
)  # fmt: skip
_UNBOUNDED: Final = frozenset(
    {"year", "isoyear", "decade", "century", "millennium", "epoch"}
)  # of infinity they are infinite, other parts are NULL
_TIME_PARTS: Final = frozenset({"hour", "minute"})
_TIME_UNITS: Final = frozenset({"hour", "minute", "second"})
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
    if kind is not None and part in _UNBOUNDED:
        _guard(node, node.expression, scope, f"an infinite {spoken(kind)} has no {part}")


def make(node: exp.Anonymous, scope: Scope) -> None:
    """PostgreSQL has no year 0, and counts those before it from 1."""
    if function_name(node) == "make_date":
        year = "__pg_year" if scope.at_record_level(node) else "__bc_year"
        node.set("expressions", [call(year, node.expressions[0]), *node.expressions[1:]])


def truncate(node: exp.Func, scope: Scope) -> None:
    unit = node.args["unit"].name.lower()
    timed = scope.type_of(node.this) in ("DATE", "TIMESTAMP")
    units = _UNITS | _TIME_UNITS if timed else _UNITS
    if unit not in units or node.args.get("zone") is not None:
        raise FeatureNotSupported(
            f"date_trunc to {unit} is not answered",
            hint=f"These are: {', '.join(sorted(units))}; without a time zone.",
            position=position(node),
        )


def subtract(node: exp.Sub, scope: Scope) -> None:
    """DuckDB has a number of days before infinity."""
    sides = (node.this, node.expression)
    kinds = [scope.type_of(side) for side in sides]
    for side in sides:
        if kinds in (["DATE", "DATE"], ["TIMESTAMP", "TIMESTAMP"]):
            _guard(node, side, scope, f"cannot subtract infinite {spoken(kinds[0])}s")


def _guard(node: exp.Expr, part: exp.Expr, scope: Scope, message: str) -> None:
    """Where a part of the node may be infinite, have DuckDB raise an error, or over noisy rows take
    NULL, before it gives a number that PostgreSQL does not.

    Raises DatetimeFieldOverflow for a constant that is infinite.
    """
    if scope.is_finite(part):
        return
    if is_infinite(part):
        raise DatetimeFieldOverflow(
            message,
            hint="Write a day, such as DATE '9999-12-31'.",
            position=position(part) or position(node),
        )
    if scope.at_record_level(node):
        finite = call("__pg_finite_time", part.copy(), exp.Literal.string(message))
    else:
        finite = call("__finite_time", part.copy())
    part.replace(finite)


def write(node: exp.TimeToStr, scope: Scope) -> None:
    """to_char of a date or a time, in the formats that DuckDB writes alike."""
    wanted, value = node.args.get("format"), node.this.unnest()
    if isinstance(value, exp.DateTrunc | exp.TimestampTrunc):
        value = value.this  # whose type says whether the session's time zone has a say
    kind = scope.type_of(value)
    if kind not in ("DATE", "TIMESTAMP"):
        raise FeatureNotSupported(
            f"to_char of a {spoken(kind)} is not answered",
            hint="Dates and timestamps have it. For a text of a number write n::text.",
            position=position(node),
        )
    formats = _DAYS if kind == "DATE" else _FORMAT
    if not isinstance(wanted, exp.Literal) or not formats.fullmatch(wanted.this):
        raise FeatureNotSupported(
            "this format of to_char is not answered",
            detail="YYYY, MM, DD, DDD and, of a time, HH24, MI and SS are, with punctuation between"
            " them.",
            hint="Take a part with extract, or a period with date_trunc.",
            position=position(wanted) if wanted is not None else position(node),
        )
    if not scope.is_finite(node.this):
        node.set("this", call("__finite_time", node.this))


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
