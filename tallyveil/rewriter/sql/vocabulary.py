"""The words of SQL that are understood, with their arguments. Whatever is not listed is refused.

Everything listed is deterministic, has no side effects and reads nothing but its arguments. The
time of the statement is a constant of it (`instants`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sqlglot import exp

__all__ = [
    "ABOUT_ANSWERS", "AGGREGATES", "ANY_NUMBER", "ARGUMENTS", "COMPARISONS", "FUNCTIONS",
    "NAMED_FUNCTIONS", "NAMES", "POSTGRES_FUNCTIONS", "REFUSED_AGGREGATES", "SESSION_FUNCTIONS",
    "SYNTAX", "TYPES", "WINDOW_FUNCTIONS",
]  # fmt: skip

Words: TypeAlias = Mapping[type[exp.Expr], frozenset[str]]
"""The arguments of a node that are understood: a statement that sets another one is refused."""


def _taking(arguments: str, *kinds: type[exp.Expr]) -> Words:
    return dict.fromkeys(kinds, frozenset(arguments.split()))


# Queries, names and constants, operators, aggregation and windows.
SYNTAX: Final[Words] = MappingProxyType(
    {
        **_taking("this expression",
            exp.IntervalSpan, exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.EQ, exp.NEQ,
            exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Escape, exp.NullSafeEQ, exp.NullSafeNEQ,
            exp.Filter,
        ),
        **_taking("this",
            exp.From, exp.Where, exp.Having, exp.Boolean, exp.Parameter, exp.Placeholder, exp.Var,
            exp.DataTypeParam, exp.RawString, exp.National, exp.Not, exp.Neg, exp.Paren,
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
        **_taking("direction count limit_options", exp.Fetch),
        **_taking("except_ replace rename ilike", exp.Star),
        **_taking("expressions alias", exp.Values),
        **_taking("expressions all", exp.Group),
        **_taking("kind start start_side end end_side exclude", exp.WindowSpec),
        **_taking("percent rows with_ties", exp.LimitOptions),
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
        **_taking("with_ expressions distinct from_ joins where group having order limit offset",
            exp.Select,
        ),
    }
)  # fmt: skip

# Functions, and what the parser takes for them.
FUNCTIONS: Final[Words] = MappingProxyType(
    {
        **_taking("this",
            exp.Abs, exp.Sign, exp.Ceil, exp.Floor, exp.Sqrt, exp.Cbrt, exp.Exp, exp.Ln,
            exp.Lower, exp.Upper, exp.Length, exp.Reverse, exp.Ascii, exp.Year, exp.Quarter,
            exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek,
            exp.DayOfWeekIso, exp.DayOfYear, exp.LastDay, exp.UnixToTime, exp.Any,
        ),
        **_taking("this expression",
            exp.Nullif, exp.Log, exp.Pow, exp.Left, exp.Right, exp.StartsWith, exp.EndsWith,
            exp.Contains, exp.Extract, exp.And, exp.Or, exp.Exists,
        ),
        **_taking("", exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp),
        **_taking("expressions safe coalesce", exp.Concat, exp.ConcatWs),
        **_taking("this decimals", exp.Round, exp.Trunc),
        **_taking("this expressions ignore_nulls", exp.Greatest, exp.Least),
        **_taking("this format", exp.StrToDate, exp.StrToTime, exp.TimeToStr),
        **_taking("this to", exp.Cast, exp.TryCast),
        **_taking("unit this input_type_preserved", exp.DateTrunc, exp.TimestampTrunc),
        **_taking("expressions", exp.Grouping),
        **_taking("expressions bracket_notation struct_name_inheritance value_constructor",
            exp.Array,
        ),
        **_taking("this delimiter part_index", exp.SplitPart),
        **_taking("this expression flag", exp.RegexpILike),
        **_taking("this expression flag full_match", exp.RegexpLike),
        **_taking("this expression options", exp.RegexpFullMatch),
        **_taking("this expression position", exp.Trim),
        **_taking("this expression replacement", exp.Replace),
        **_taking("this expressions is_nvl is_null", exp.Coalesce),
        **_taking("this ifs default", exp.Case),
        **_taking("this start length", exp.Substring),
        **_taking("this substr", exp.StrPosition),
        **_taking("this true false", exp.If),
        **_taking("year month day", exp.DateFromParts),
    }
)  # fmt: skip

NAMED_FUNCTIONS: Final = frozenset(
    {
        "make_date", "isfinite", "instr", "isodow", "monthname", "now", "transaction_timestamp",
        "statement_timestamp", "get_current_timestamp",
    }
)  # fmt: skip

# The names PostgreSQL has for functions that the parser calls otherwise.
NAMES: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {
        exp.CurrentVersion: "version",
        exp.GroupConcat: "string_agg",
        exp.JSONArrayAgg: "json_agg",
        exp.LogicalAnd: "bool_and",
        exp.LogicalOr: "bool_or",
        exp.ExplodingGenerateSeries: "generate_series",
        exp.Explode: "unnest",
        exp.TimeToStr: "to_char",
        exp.StrToDate: "to_date",
        exp.StrToTime: "to_timestamp",
        exp.UnixToTime: "to_timestamp",
        exp.VariancePop: "var_pop",
        exp.Pad: "lpad",
        exp.StrPosition: "position",
        exp.TimestampTrunc: "date_trunc",
        exp.Pow: "power",
        exp.RegexpLike: "regexp_like",
    }
)

ANY_NUMBER: Final = 1_000_000

# PostgreSQL's functions, with the least and the greatest number of arguments; what stands between
# words is one.
POSTGRES_FUNCTIONS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "abs", "ascii", "cbrt", "ceil", "ceiling", "char_length", "character_length",
                "exp", "extract", "floor", "isfinite", "length", "ln", "log10", "lower",
                "position", "reverse", "sign", "sqrt", "upper", "cast",
            ),
            (1, 1),
        ),
        **dict.fromkeys(
            ("btrim", "ltrim", "rtrim", "trim", "log", "round", "trunc", "to_timestamp"), (1, 2)
        ),
        **dict.fromkeys(
            (
                "date_part", "div", "left", "like", "mod", "nullif", "pow", "power", "right",
                "starts_with", "strpos", "to_char", "to_date",
            ),
            (2, 2),
        ),
        **dict.fromkeys(("date_trunc", "regexp_like", "substr"), (2, 3)),
        **dict.fromkeys(("make_date", "replace", "split_part"), (3, 3)),
        **dict.fromkeys(("coalesce", "concat", "greatest", "least", "grouping"), (1, ANY_NUMBER)),
        "concat_ws": (2, ANY_NUMBER),
        "substring": (1, 3),
        **dict.fromkeys(
            (
                "now", "statement_timestamp", "transaction_timestamp", "version",
                "current_schema", "current_database", "pg_backend_pid", "pg_is_in_recovery",
                "pg_advisory_unlock_all",
            ),
            (0, 0),
        ),
        "current_setting": (1, 2),
        "set_config": (3, 3),
    }
)  # fmt: skip

# Aggregates of records.
AGGREGATES: Final[Words] = MappingProxyType(
    {
        **_taking("this",
            exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop,
            exp.StddevSamp,
        ),
        **_taking("this big_int", exp.Count),
    }
)  # fmt: skip

# Functions of noisy rows.
WINDOW_FUNCTIONS: Final[Words] = MappingProxyType(
    {
        **_taking("this",
            exp.RowNumber, exp.Ntile, exp.FirstValue, exp.LastValue, exp.Min, exp.Max,
        ),
        **_taking("expressions", exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist),
        **_taking("this offset default", exp.Lag, exp.Lead),
    }
)  # fmt: skip

# What each of these would reveal, and what answers the same need.
REFUSED_AGGREGATES: Final[Mapping[type[exp.Expr], str]] = MappingProxyType(
    {
        exp.Min: "MIN is decided by single records; count below a few thresholds instead: "
        "SELECT count(*) FILTER (WHERE attribute < …).",
        exp.Max: "MAX is decided by single records; count above a few thresholds instead: "
        "SELECT count(*) FILTER (WHERE attribute >= …).",
        exp.Median: "Ask SELECT attribute, count(*) … GROUP BY attribute and take the median of "
        "the noisy counts.",
        **dict.fromkeys(
            (exp.PercentileCont, exp.PercentileDisc),
            "Ask SELECT attribute, count(*) … GROUP BY attribute and take the percentile of the "
            "noisy counts.",
        ),
        exp.Quantile: "Ask SELECT attribute, count(*) … GROUP BY attribute and take the quantile "
        "of the noisy counts.",
    }
)

ARGUMENTS: Final[Words] = MappingProxyType(
    {
        **SYNTAX, **FUNCTIONS, **AGGREGATES, **WINDOW_FUNCTIONS,
        **_taking("this expression", exp.PercentileCont, exp.PercentileDisc),
        **_taking("this", exp.Median),
        **_taking("this quantile", exp.Quantile),
    }
)  # fmt: skip

TYPES: Final = frozenset(
    {
        exp.DType.BOOLEAN, exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT,
        exp.DType.INT128, exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL, exp.DType.TEXT,
        exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.DATE, exp.DType.TIME, exp.DType.TIMESTAMP,
        exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ, exp.DType.INTERVAL, exp.DType.NAME,
        exp.DType.BPCHAR,
    }
)  # fmt: skip

# Functions about an answer, which is their first argument, by how many they take.
ABOUT_ANSWERS: Final = MappingProxyType(
    {"dp_interval_low": 1, "dp_interval_high": 1, "dp_stddev": 1, "dp_probability": 3}
)

# Functions about the session, which the gate replaces by constants.
SESSION_FUNCTIONS: Final = frozenset(
    {
        "version", "current_schema", "current_database", "current_catalog", "current_user",
        "session_user", "current_role", "user", "pg_backend_pid", "current_setting",
        "pg_is_in_recovery", "pg_advisory_unlock_all", "set_config",
    }
)  # fmt: skip


Operator: TypeAlias = type[exp.Binary]


@dataclass(frozen=True)
class Comparison:
    """``flipped`` says of b and a what this says of a and b; ``opposite`` holds where not."""

    sign: str
    holds: Callable[[Any, Any], bool]
    flipped: Operator
    opposite: Operator


# The six operators that compare two values.
COMPARISONS: Final[Mapping[type[exp.Expr], Comparison]] = MappingProxyType(
    {
        exp.EQ: Comparison("=", operator.eq, exp.EQ, exp.NEQ),
        exp.NEQ: Comparison("<>", operator.ne, exp.NEQ, exp.EQ),
        exp.LT: Comparison("<", operator.lt, exp.GT, exp.GTE),
        exp.LTE: Comparison("<=", operator.le, exp.GTE, exp.GT),
        exp.GT: Comparison(">", operator.gt, exp.LT, exp.LTE),
        exp.GTE: Comparison(">=", operator.ge, exp.LTE, exp.LT),
    }
)
