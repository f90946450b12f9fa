"""The supported SQL: each class of nodes with its arguments, and for functions also the types of
their results and PostgreSQL's names. Anything else is refused.

Everything listed is deterministic, has no side effects and reads nothing but its arguments. The
time of a statement is one of its constants (`timestamps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from sqlglot import exp

from tallyveil.rewriter.sql import types
from tallyveil.rewriter.sql.types import ResultType, TypeOf

__all__ = [
    "ABOUT_ANSWERS", "AGGREGATES", "ANSWERED", "ANY_NUMBER", "ARGUMENTS", "FUNCTIONS",
    "NAMED_FUNCTIONS", "NAMES", "NOW", "POSTGRES_FUNCTIONS", "QUANTILES", "REFUSED_AGGREGATES",
    "SESSION_FUNCTIONS", "SUMS", "SYNTAX", "TYPES", "WINDOW_FUNCTIONS", "static_type",
]  # fmt: skip

ANSWERED: Final = (
    "Over records COUNT, SUM, AVG, VARIANCE, STDDEV, CORR, COVAR_…, REGR_…, quantiles, MODE,"
    " BOOL_AND and BOOL_OR are answered."
)

ArgumentNames: TypeAlias = Mapping[type[exp.Expr], frozenset[str]]
"""The supported arguments of a node: a statement that sets any other is refused."""


def _taking(arguments: str, *kinds: type[exp.Expr]) -> ArgumentNames:
    return dict.fromkeys(kinds, frozenset(arguments.split()))


# Queries, names and constants, operators, aggregation and windows.
SYNTAX: Final[ArgumentNames] = {
    **_taking("this expression",
        exp.IntervalSpan, exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.EQ, exp.NEQ, exp.GT,
        exp.GTE, exp.LT, exp.LTE, exp.Escape, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Filter,
    ),
    **_taking("this",
        exp.From, exp.Where, exp.Having, exp.Qualify, exp.Boolean, exp.Parameter, exp.Placeholder,
        exp.Var, exp.DataTypeParam, exp.RawString, exp.National, exp.Not, exp.Neg, exp.Paren,
    ),
    **_taking("expressions",
        exp.Order, exp.With, exp.Distinct, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets,
    ),
    **_taking("this expression negate", exp.Is, exp.Like, exp.ILike),
    **_taking("with_ this expression distinct order limit offset",
        exp.Union, exp.Intersect, exp.Except,
    ),
    **_taking("expression", exp.Limit, exp.Offset),
    **_taking("this alias", exp.Subquery, exp.Alias),
    **_taking("", exp.Null),
    **_taking("except_ replace rename ilike", exp.Star),
    **_taking("direction count limit_options", exp.Fetch),
    **_taking("expressions alias", exp.Values),
    **_taking("expressions all", exp.Group),
    **_taking("kind start start_side end end_side exclude", exp.WindowSpec),
    **_taking("rows", exp.LimitOptions),
    **_taking("this alias db catalog", exp.Table),
    **_taking("this alias materialized", exp.CTE),
    **_taking("this columns", exp.TableAlias),
    **_taking("this desc nulls_first", exp.Ordered),
    **_taking("this expression safe", exp.DPipe),
    **_taking("this expression typed safe", exp.Div),
    **_taking("this expressions nested", exp.DataType),
    **_taking("this expressions query", exp.In),
    **_taking("this is_string", exp.Literal),
    **_taking("this low high", exp.Between),
    **_taking("this on side kind using", exp.Join),
    **_taking("this partition_by order spec over", exp.Window),
    **_taking("this quoted", exp.Identifier),
    **_taking("this table db", exp.Column),
    **_taking("this unit", exp.Interval),
    **_taking("this zone", exp.AtTimeZone),
    **_taking(
        "with_ expressions distinct from_ joins where group having qualify order limit offset",
        exp.Select,
    ),
}  # fmt: skip


class Function(NamedTuple):
    """``result`` is its type. ``names`` are PostgreSQL's, the usual one first, with the least and
    the greatest number of arguments, counted by their commas."""

    arguments: frozenset[str]
    result: ResultType | None
    names: Mapping[str, tuple[int, int]]


ANY_NUMBER: Final = 1_000_000


def _function(arguments: str, result: ResultType | None = None, names: str = "") -> Function:
    """``names`` as in ``log/1-2 log10/1``, or ``concat/1-`` for any number."""
    counts: dict[str, tuple[int, int]] = {}
    for name, _, count in (word.partition("/") for word in names.split()):
        least, dash, most = count.partition("-")
        counts[name] = int(least), int(most or (ANY_NUMBER if dash else least))
    return Function(frozenset(arguments.split()), result, counts)


# Functions, and expressions that the parser reads as functions.
FUNCTIONS: Final[Mapping[type[exp.Expr], Function]] = {
    exp.Abs: _function("this", types.same, "abs/1"),
    exp.Sign: _function("this", types.rounded, "sign/1"),
    exp.Ceil: _function("this", types.rounded, "ceil/1 ceiling/1"),
    exp.Floor: _function("this", types.rounded, "floor/1"),
    exp.Round: _function("this decimals", types.rounded, "round/1-2"),
    exp.Trunc: _function("this decimals", types.rounded, "trunc/1-2"),
    exp.Sqrt: _function("this", types.real, "sqrt/1"),
    exp.Cbrt: _function("this", types.real, "cbrt/1"),
    exp.Exp: _function("this", types.real, "exp/1"),
    exp.Ln: _function("this", types.real, "ln/1"),
    exp.Log: _function("this expression", types.real, "log/1-2 log10/1"),
    exp.Pow: _function("this expression", types.real, "power/2 pow/2"),
    exp.WidthBucket: _function(
        "this min_value max_value num_buckets", "INTEGER", "width_bucket/4"
    ),
    exp.Lower: _function("this", "VARCHAR", "lower/1"),
    exp.Upper: _function("this", "VARCHAR", "upper/1"),
    exp.Left: _function("this expression", "VARCHAR", "left/2"),
    exp.Right: _function("this expression", "VARCHAR", "right/2"),
    exp.Trim: _function(
        "this expression position", "VARCHAR", "trim/1-2 btrim/1-2 ltrim/1-2 rtrim/1-2"
    ),
    exp.Reverse: _function("this", "VARCHAR", "reverse/1"),
    exp.Replace: _function("this expression replacement", "VARCHAR", "replace/3"),
    exp.Substring: _function("this start length", "VARCHAR", "substring/2-3 substr/2-3"),
    exp.SplitPart: _function("this delimiter part_index", "VARCHAR", "split_part/3"),
    exp.Concat: _function("expressions safe coalesce", "VARCHAR", "concat/1-"),
    exp.ConcatWs: _function("expressions safe coalesce", "VARCHAR", "concat_ws/2-"),
    exp.Length: _function("this", "INTEGER", "length/1 char_length/1 character_length/1"),
    exp.Ascii: _function("this", "INTEGER", "ascii/1"),
    exp.StrPosition: _function("this substr", "INTEGER", "position/1 strpos/2"),
    exp.StartsWith: _function("this expression", "BOOLEAN", "starts_with/2"),
    **dict.fromkeys((exp.EndsWith, exp.Contains), _function("this expression", "BOOLEAN")),
    exp.RegexpLike: _function("this expression flag full_match", "BOOLEAN", "regexp_like/2-3"),
    exp.RegexpILike: _function("this expression flag", "BOOLEAN"),
    exp.RegexpFullMatch: _function("this expression options"),
    exp.Extract: _function("this expression", "NUMERIC", "extract/1 date_part/2"),
    **dict.fromkeys(
        (
            exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth,
            exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.Hour, exp.Minute,
        ),
        _function("this", "BIGINT"),
    ),
    exp.LastDay: _function("this"),
    exp.DateTrunc: _function("unit this input_type_preserved", types.truncated, "date_trunc/2-3"),
    exp.TimestampTrunc: _function(
        "unit this input_type_preserved", types.truncated, "date_trunc/2-3"
    ),
    exp.DateBin: _function("this expression unit", types.binned, "date_bin/3"),
    exp.DateFromParts: _function("year month day", "DATE", "make_date/3"),
    exp.StrToDate: _function("this format", "DATE", "to_date/2"),
    exp.StrToTime: _function("this format", "TIMESTAMPTZ", "to_timestamp/1-2"),
    exp.UnixToTime: _function("this", "TIMESTAMPTZ", "to_timestamp/1-2"),
    exp.TimeToStr: _function("this format", "VARCHAR", "to_char/2"),
    exp.CurrentDate: _function("", "DATE"),
    exp.CurrentTimestamp: _function("", "TIMESTAMPTZ"),
    exp.Localtimestamp: _function("", "TIMESTAMP"),
    exp.Cast: _function("this to", types.cast, "cast/1"),
    exp.TryCast: _function("this to", types.cast),
    exp.Case: _function("this ifs default", types.case),
    exp.If: _function("this true false"),
    exp.Nullif: _function("this expression", types.same, "nullif/2"),
    exp.Coalesce: _function("this expressions is_nvl is_null", types.choice, "coalesce/1-"),
    exp.Greatest: _function("this expressions ignore_nulls", types.choice, "greatest/1-"),
    exp.Least: _function("this expressions ignore_nulls", types.choice, "least/1-"),
    exp.Grouping: _function("expressions", None, "grouping/1-"),
    exp.Any: _function("this", types.element),
    exp.Array: _function("expressions bracket_notation struct_name_inheritance value_constructor"),
    **dict.fromkeys((exp.And, exp.Or, exp.Exists), _function("this expression", "BOOLEAN")),
}  # fmt: skip

# Functions without arguments that return the current time, and have no class in the parser.
_NOW: Final[Mapping[str, Function]] = {
    "now": _function("", "TIMESTAMPTZ", "now/0"),
    "transaction_timestamp": _function("", "TIMESTAMPTZ", "transaction_timestamp/0"),
    "statement_timestamp": _function("", "TIMESTAMPTZ", "statement_timestamp/0"),
    "get_current_timestamp": _function("", "TIMESTAMPTZ"),
}
NOW: Final = frozenset(_NOW)

# Functions that the parser has no class for.
NAMED_FUNCTIONS: Final[Mapping[str, Function]] = {
    "make_date": _function("", None, "make_date/3"),
    "isfinite": _function("", None, "isfinite/1"),
    **dict.fromkeys(("instr", "isodow", "monthname"), _function("")),
    **_NOW,
}

# Aggregates of records.
_MOMENTS: Final = (exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp)
_OF_PAIRS: Final = (
    exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2,
    exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSyy, exp.RegrSxy,
)  # fmt: skip
SUMS: Final = (exp.Sum, exp.Avg, *_MOMENTS, *_OF_PAIRS, exp.Skewness, exp.Kurtosis)
AGGREGATES: Final[Mapping[type[exp.Expr], Function]] = {
    **dict.fromkeys(_OF_PAIRS, _function("this expression", "DOUBLE")),
    **dict.fromkeys((exp.Skewness, exp.Kurtosis), _function("this", "DOUBLE")),
    **dict.fromkeys((exp.Sum, exp.Avg, *_MOMENTS), _function("this", types.aggregate)),
    exp.Count: _function("this big_int", "BIGINT"),
    exp.ApproxDistinct: _function("this", "BIGINT"),
    exp.Median: _function("this", types.middle),
    exp.PercentileCont: _function("this expression", types.middle),
    exp.PercentileDisc: _function("this expression", types.same),
    **dict.fromkeys((exp.Quantile, exp.ApproxQuantile), _function("this quantile", types.same)),
    **dict.fromkeys((exp.Min, exp.Max, exp.Mode), _function("this", types.same)),
}
QUANTILES: Final = (
    exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile,
)  # fmt: skip

# Functions of noisy rows.
WINDOW_FUNCTIONS: Final[Mapping[type[exp.Expr], Function]] = {
    exp.RowNumber: _function("this", "BIGINT"),
    exp.Ntile: _function("this", "INTEGER"),
    **dict.fromkeys((exp.FirstValue, exp.LastValue), _function("this", types.same)),
    **dict.fromkeys((exp.Rank, exp.DenseRank), _function("expressions", "BIGINT")),
    **dict.fromkeys((exp.PercentRank, exp.CumeDist), _function("expressions", "DOUBLE")),
    **dict.fromkeys((exp.Lag, exp.Lead), _function("this offset default", types.same)),
}

# Aggregates that would reveal single records, with what to ask instead.
REFUSED_AGGREGATES: Final[Mapping[type[exp.Expr], str]] = {
    exp.LogicalOr: "A single record decides it. Ask whether there surely is one: "
    "dp_interval_low(count(*) FILTER (WHERE …)) > 0. SET dp.extremes = on does so for it.",
    exp.LogicalAnd: "A single record decides it. Ask whether there surely is an exception: "
    "dp_interval_low(count(*) FILTER (WHERE NOT (…))) > 0. SET dp.extremes = on does so for it.",
}

_FUNCTIONS: Final = {**FUNCTIONS, **AGGREGATES, **WINDOW_FUNCTIONS}
ARGUMENTS: Final[ArgumentNames] = {
    **SYNTAX,
    **{kind: function.arguments for kind, function in _FUNCTIONS.items()},
    **_taking("this", exp.LogicalOr, exp.LogicalAnd),
}

TYPES: Final = frozenset({
    exp.DType.BOOLEAN, exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT,
    exp.DType.INT128, exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL, exp.DType.TEXT,
    exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.DATE, exp.DType.TIME, exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ, exp.DType.INTERVAL, exp.DType.NAME,
    exp.DType.BPCHAR,
})  # fmt: skip

# Functions about an answer, which is their first argument, with the number of their arguments.
ABOUT_ANSWERS: Final = {
    **dict.fromkeys(("dp_interval_low", "dp_interval_high", "dp_stddev"), 1), "dp_probability": 3,
}  # fmt: skip

# Functions about the session, which the gate replaces by constants.
SESSION_FUNCTIONS: Final[Mapping[str, Function]] = {
    "version": _function("", None, "version/0"),
    "current_schema": _function("", None, "current_schema/0"),
    "current_database": _function("", None, "current_database/0"),
    "pg_backend_pid": _function("", None, "pg_backend_pid/0"),
    "pg_is_in_recovery": _function("", None, "pg_is_in_recovery/0"),
    "pg_advisory_unlock_all": _function("", None, "pg_advisory_unlock_all/0"),
    "current_setting": _function("", None, "current_setting/1-2"),
    "set_config": _function("", None, "set_config/3"),
    # Words that PostgreSQL writes without brackets.
    **dict.fromkeys(
        ("current_catalog", "current_user", "session_user", "current_role", "user"), _function("")
    ),
}  # fmt: skip

# PostgreSQL's names for classes that the parser calls otherwise.
NAMES: Final[Mapping[type[exp.Expr], str]] = {
    **{kind: next(iter(f.names)) for kind, f in FUNCTIONS.items() if f.names},
    exp.CurrentVersion: "version",
    exp.GroupConcat: "string_agg",
    exp.JSONArrayAgg: "json_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.Explode: "unnest",
    exp.VariancePop: "var_pop",
}

# PostgreSQL's functions, with the least and the greatest number of arguments.
POSTGRES_FUNCTIONS: Final[Mapping[str, tuple[int, int]]] = {
    name: count
    for known in (FUNCTIONS, NAMED_FUNCTIONS, SESSION_FUNCTIONS)
    for function in (*known.values(), _function("", None, "div/2 mod/2 like/2"))
    for name, count in function.names.items()
}

_RESULTS: Final[Mapping[type[exp.Expr] | str, ResultType | None]] = {
    **dict.fromkeys((exp.Paren, exp.Neg, exp.Filter, exp.Window, exp.Alias), types.same),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), types.arithmetic),
    **dict.fromkeys((exp.Not, exp.Boolean), "BOOLEAN"),
    exp.Literal: types.literal,
    exp.IntDiv: types.whole_quotient,
    exp.DPipe: "VARCHAR",
    exp.Interval: "INTERVAL",
    exp.AtTimeZone: types.in_zone,
    **{kind: function.result for kind, function in _FUNCTIONS.items()},
    **{name: function.result for name, function in NAMED_FUNCTIONS.items()},
    **dict.fromkeys(("dp_stddev", "dp_probability"), "DOUBLE"),
}


def static_type(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The type of an expression, given the types of its parts by ``type_of``; None if unknown."""
    named = isinstance(node, exp.Anonymous)
    found = _RESULTS.get(node.name.lower() if named else type(node))
    if found is None and isinstance(node, exp.Predicate):
        return "BOOLEAN"
    return found(node, type_of) if callable(found) else found
