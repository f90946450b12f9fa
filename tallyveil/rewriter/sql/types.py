"""The static types of expressions, as PostgreSQL has them, by DuckDB's names.

Two types are ours. A ``QUOTIENT`` is a numeric that came out of a division: DuckDB computes it in
double precision, correctly rounded. ``INEXACT`` is arithmetic upon such a quotient: PostgreSQL's
numeric and DuckDB's double may differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from sqlglot import exp

from tallyveil.errors import UndefinedFunction
from tallyveil.rewriter.sql.nodes import function_name

__all__ = [
    "INTEGERS",
    "NOW",
    "NUMERICS",
    "TypeOf",
    "common_type",
    "declared_type",
    "family",
    "is_literal_text",
    "need_family",
    "spoken",
    "static_type",
]

TypeOf: TypeAlias = Callable[[exp.Expr], str | None]

INTEGERS: Final = ("SMALLINT", "INTEGER", "BIGINT")
NUMERICS: Final = ("NUMERIC", "QUOTIENT", "INEXACT")
NOW: Final = frozenset(
    {"now", "transaction_timestamp", "statement_timestamp", "get_current_timestamp"}
)  # which the parser has no class for
_LADDER: Final = (*INTEGERS, *NUMERICS, "DOUBLE")  # the wider, the later
_TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_FAMILIES: Final = {
    **dict.fromkeys(_LADDER, "number"),
    **dict.fromkeys(_TIMES, "time"),
    **dict.fromkeys(("TIME", "INTERVAL"), "duration"),
    "VARCHAR": "text",
    "BOOLEAN": "truth",
}

# What has one type whatever it is of.
_RESULTS: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                exp.Lower, exp.Upper, exp.Substring, exp.Trim, exp.Left, exp.Right, exp.Replace,
                exp.SplitPart, exp.Reverse, exp.Concat, exp.ConcatWs, exp.DPipe, exp.TimeToStr,
            ),
            "VARCHAR",
        ),
        **dict.fromkeys((exp.Length, exp.StrPosition, exp.Ascii, exp.Ntile), "INTEGER"),
        **dict.fromkeys(
            (
                exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day,
                exp.DayOfMonth, exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.Count,
                exp.RowNumber, exp.Rank, exp.DenseRank,
            ),
            "BIGINT",
        ),
        exp.Extract: "NUMERIC",
        **dict.fromkeys((exp.PercentRank, exp.CumeDist), "DOUBLE"),
        exp.Interval: "INTERVAL",
        **dict.fromkeys((exp.CurrentDate, exp.StrToDate, exp.DateFromParts), "DATE"),
        exp.Localtimestamp: "TIMESTAMP",
        **dict.fromkeys((exp.CurrentTimestamp, exp.StrToTime, exp.UnixToTime), "TIMESTAMPTZ"),
    }
)  # fmt: skip
_MOMENTS = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp)
_TRUTHS = (
    exp.Predicate, exp.Not, exp.And, exp.Or, exp.Boolean, exp.RegexpLike, exp.RegexpILike,
    exp.StartsWith, exp.EndsWith, exp.Contains,
)  # fmt: skip
_SAME = (
    exp.Paren, exp.Neg, exp.Abs, exp.Filter, exp.Nullif, exp.Min, exp.Max, exp.Window, exp.Lag,
    exp.Lead, exp.FirstValue, exp.LastValue, exp.Alias,
)  # fmt: skip
_ROUNDINGS = (exp.Round, exp.Trunc, exp.Ceil, exp.Floor, exp.Sign)
_REAL_FUNCTIONS = (exp.Sqrt, exp.Cbrt, exp.Exp, exp.Ln, exp.Log, exp.Pow)
_CAST_NAMES: Final = {
    "INT": "INTEGER", "TEXT": "VARCHAR", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR",
    "NAME": "VARCHAR", "DECIMAL": "NUMERIC", "FLOAT": "DOUBLE", "TIMESTAMPNTZ": "TIMESTAMP",
    "TINYINT": "SMALLINT", "INT128": "NUMERIC",
}  # fmt: skip


def family(kind: str | None) -> str | None:
    """number, text, truth, time or duration: what PostgreSQL compares with each other."""
    return _FAMILIES.get(kind or "")


def declared_type(kind: str | None) -> str | None:
    """What a column of a DuckDB table is called here."""
    if kind is None:
        return None
    name = "NUMERIC" if kind.startswith("DECIMAL") else kind
    return name if name in (*_LADDER, *_TIMES, "VARCHAR", "BOOLEAN", "TIME") else None


def spoken(kind: str | None) -> str:
    """The type by PostgreSQL's name."""
    names = {"VARCHAR": "text", "DOUBLE": "double precision", "QUOTIENT": "numeric"}
    return names.get(kind or "", "numeric" if kind == "INEXACT" else (kind or "unknown").lower())


def need_family(
    node: exp.Expr, argument: exp.Expr, type_of: TypeOf, families: Container[str | None], hint: str
) -> None:
    """Raise UndefinedFunction for an argument of another family: DuckDB would convert it, where
    PostgreSQL has no such function.
    """
    kind = type_of(argument)
    if kind is not None and family(kind) not in families:
        raise UndefinedFunction(
            f"function {function_name(node)}({spoken(kind)}) does not exist", hint=hint
        )


def common_type(types: Sequence[str | None]) -> str | None:
    """The type CASE, COALESCE or UNION gives values of these types."""
    if not types or None in types:
        return None
    if all(kind in _LADDER for kind in types):
        return max((k for k in types if k is not None), key=_LADDER.index)
    return types[0] if len(set(types)) == 1 else None


def static_type(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The type of an expression whose parts' types are ``type_of``; None if that is unknown."""
    match node:
        case exp.Literal():
            return _literal(node)
        case exp.Cast():
            kind = str(node.to.this.value).upper()
            return _cast(_CAST_NAMES.get(kind, kind), node, type_of)
        case exp.Any():
            return _element(node.this.unnest(), type_of)
        case exp.IntDiv():
            return common_type([type_of(node.this), type_of(node.expression)])
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return _values([node.this, *node.expressions], type_of)
        case exp.Case():
            branches = [branch.args.get("true") for branch in node.args["ifs"]]
            return _values([*branches, node.args.get("default")], type_of)
        case exp.TimestampTrunc() | exp.DateTrunc():
            operand = type_of(node.this)
            return operand if operand in ("TIMESTAMP", "INTERVAL") else "TIMESTAMPTZ"
        case exp.Anonymous() if node.name.lower() in NOW:
            return "TIMESTAMPTZ"
        case exp.AtTimeZone():
            return "TIMESTAMPTZ" if type_of(node.this) == "TIMESTAMP" else "TIMESTAMP"
        case exp.Anonymous() if node.name.lower() in ("dp_stddev", "dp_probability"):
            return "DOUBLE"
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        return _arithmetic(node, type_of)
    if isinstance(node, (exp.Sum, exp.Avg, *_MOMENTS)):
        return _aggregate(node, type_of(node.this))
    if isinstance(node, _ROUNDINGS + _REAL_FUNCTIONS):
        return _numeric_function(node, type_of)
    if isinstance(node, _SAME):
        return type_of(node.this)
    return "BOOLEAN" if isinstance(node, _TRUTHS) else _RESULTS.get(type(node))


def _literal(node: exp.Literal) -> str:
    if node.is_string:
        return "VARCHAR"
    if not node.this.isdigit():
        return "NUMERIC"
    number = int(node.this)
    return "INTEGER" if number < 2**31 else "BIGINT" if number < 2**63 else "NUMERIC"


def is_literal_text(node: exp.Expr) -> bool:
    """A string constant takes its type from what it stands beside; so do NULL and parameters."""
    inner = node.unnest()
    return isinstance(inner, exp.Null | exp.Parameter | exp.Placeholder) or inner.is_string


def _values(nodes: Sequence[exp.Expr | None], type_of: TypeOf) -> str | None:
    firm = [type_of(node) for node in nodes if node is not None and not is_literal_text(node)]
    if firm:
        return common_type(firm)
    strings = [node for node in nodes if node is not None and not isinstance(node, exp.Null)]
    return "VARCHAR" if strings else None


def _element(array: exp.Expr, type_of: TypeOf) -> str | None:
    if isinstance(array, exp.Array):
        return common_type([type_of(item) for item in array.expressions])
    if isinstance(array, exp.Cast) and array.to.expressions:
        kind = str(array.to.expressions[0].this.value).upper()
        return _CAST_NAMES.get(kind, kind)
    return None


def _arithmetic(node: exp.Expr, type_of: TypeOf) -> str | None:
    left, right = type_of(node.this), type_of(node.expression)
    if is_literal_text(node.this):
        left = right
    elif is_literal_text(node.expression):
        right = left
    if "INTERVAL" in (left, right) or left in _TIMES or right in _TIMES:
        return _time_arithmetic(node, left, right)
    kind = common_type([left, right]) if left in _LADDER and right in _LADDER else None
    if kind in NUMERICS:
        if kind != "NUMERIC":
            return "INEXACT"
        return "QUOTIENT" if isinstance(node, exp.Div) else "NUMERIC"
    return kind


def _time_arithmetic(node: exp.Expr, left: str | None, right: str | None) -> str | None:
    if left == right == "DATE":
        return "INTEGER" if isinstance(node, exp.Sub) else None
    if left == "DATE" and right in INTEGERS:
        return "DATE"
    if right == "DATE" and left in INTEGERS:
        return "DATE"
    if "INTERVAL" in (left, right):
        other = right if left == "INTERVAL" else left
        if other in _TIMES:
            return "TIMESTAMP" if other == "DATE" else other
        return "INTERVAL"
    return "INTERVAL" if left in _TIMES and right in _TIMES else None


def _aggregate(node: exp.Expr, kind: str | None) -> str | None:
    if kind in INTEGERS and isinstance(node, exp.Sum):
        return "NUMERIC" if kind == "BIGINT" else "BIGINT"
    if isinstance(node, exp.Avg) and kind in (*INTEGERS, *NUMERICS):
        return "QUOTIENT"
    if isinstance(node, _MOMENTS) and kind in (*INTEGERS, *NUMERICS):
        return "INEXACT"
    return kind


def _numeric_function(node: exp.Expr, type_of: TypeOf) -> str | None:
    kind = type_of(node.this)
    if isinstance(node, exp.Pow | exp.Log) and node.expression is not None:
        kind = common_type([kind, type_of(node.expression)])
    if kind in INTEGERS:
        whole = isinstance(node, exp.Round | exp.Trunc) and node.args.get("decimals")
        return "NUMERIC" if whole else "DOUBLE"
    if kind not in NUMERICS:
        return kind
    if isinstance(node, _REAL_FUNCTIONS):
        return "INEXACT"
    if node.args.get("decimals") is not None and kind != "NUMERIC":
        return "INEXACT"
    return "INEXACT" if kind == "INEXACT" else "NUMERIC"


def _cast(kind: str, node: exp.Cast, type_of: TypeOf) -> str:
    """A cast of what is no exact decimal to numeric(p, s) rounds what DuckDB does not have."""
    if kind != "NUMERIC":
        return kind
    operand = type_of(node.this)
    if node.to.expressions:
        whole = len(node.to.expressions) == 1 or node.to.expressions[1].name == "0"
        inexact = operand in ("QUOTIENT", "INEXACT", "DOUBLE") and not whole
        return "INEXACT" if inexact else "NUMERIC"
    if operand == "DOUBLE":
        return "QUOTIENT"
    return operand if operand in NUMERICS else "NUMERIC"
