"""The words of SQL that are understood. Whatever is not listed here is refused.

Everything listed is deterministic, has no side effects and reads nothing but its arguments. The
time of the statement is a constant of it (`instants`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

__all__ = [
    "ABOUT_ANSWERS",
    "AGGREGATES",
    "ARGUMENTS",
    "FUNCTIONS",
    "NAMED_FUNCTIONS",
    "REFUSED_AGGREGATES",
    "SESSION_FUNCTIONS",
    "SYNTAX",
    "TYPES",
    "WINDOW_FUNCTIONS",
]

SYNTAX: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        # queries
        exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit,
        exp.Offset, exp.Fetch, exp.LimitOptions, exp.Subquery, exp.CTE, exp.With, exp.Table,
        exp.TableAlias, exp.Join, exp.Distinct, exp.Union, exp.Intersect, exp.Except, exp.Values,
        # names and constants
        exp.Alias, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Star,
        exp.Parameter, exp.Placeholder, exp.Var, exp.DataType, exp.DataTypeParam, exp.Interval,
        exp.RawString, exp.National, exp.IntervalSpan,
        # operators
        exp.And, exp.Or, exp.Not, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod,
        exp.Neg, exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In,
        exp.Between, exp.Like, exp.ILike, exp.Escape, exp.DPipe, exp.NullSafeEQ,
        exp.NullSafeNEQ, exp.Tuple, exp.Any, exp.Array, exp.AtTimeZone,
        # aggregation and windows
        exp.Filter, exp.Window, exp.WindowSpec, exp.Rollup, exp.Cube, exp.GroupingSets,
    }
)  # fmt: skip

FUNCTIONS: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Cast, exp.TryCast, exp.Greatest, exp.Least,
        exp.Abs, exp.Sign, exp.Ceil, exp.Floor, exp.Round, exp.Trunc, exp.Sqrt, exp.Cbrt, exp.Exp,
        exp.Ln, exp.Log, exp.Pow,
        exp.Lower, exp.Upper, exp.Length, exp.Substring, exp.Trim, exp.Left, exp.Right,
        exp.StrPosition, exp.Replace, exp.SplitPart, exp.Reverse, exp.StartsWith, exp.EndsWith,
        exp.Contains, exp.Concat, exp.ConcatWs, exp.RegexpLike, exp.RegexpILike,
        exp.RegexpFullMatch, exp.Ascii,
        exp.Extract, exp.DateTrunc, exp.TimestampTrunc, exp.Year, exp.Quarter, exp.Month,
        exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfWeekIso,
        exp.DayOfYear, exp.LastDay, exp.DateFromParts,
        exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp, exp.StrToDate, exp.StrToTime,
        exp.UnixToTime,
        exp.And, exp.Or, exp.Array, exp.Any, exp.Exists, exp.Grouping,
    }
)  # fmt: skip

NAMED_FUNCTIONS: Final = frozenset(
    {
        "make_date", "isfinite", "instr", "isodow", "monthname", "now", "transaction_timestamp",
        "statement_timestamp", "get_current_timestamp",
    }
)  # fmt: skip

AGGREGATES: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        exp.Count, exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop,
        exp.StddevSamp,
    }
)  # fmt: skip

WINDOW_FUNCTIONS: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag,
        exp.Lead, exp.FirstValue, exp.LastValue, exp.Min, exp.Max,
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
        exp.PercentileCont: "Ask SELECT attribute, count(*) … GROUP BY attribute and take the "
        "percentile of the noisy counts.",
        exp.PercentileDisc: "Ask SELECT attribute, count(*) … GROUP BY attribute and take the "
        "percentile of the noisy counts.",
        exp.Quantile: "Ask SELECT attribute, count(*) … GROUP BY attribute and take the quantile "
        "of the noisy counts.",
    }
)

# Arguments of a node that are understood; a statement that sets another one is refused.
ARGUMENTS: Final[Mapping[type[exp.Expr], set[str]]] = MappingProxyType(
    {
        exp.Between: {"this", "low", "high"},
        exp.Ceil: {"this"},
        exp.Floor: {"this"},
        exp.Coalesce: {"this", "expressions", "is_nvl", "is_null"},
        exp.Column: {"this", "table", "db"},
        exp.AtTimeZone: {"this", "zone"},
        exp.CurrentDate: set(),
        exp.CurrentTimestamp: set(),
        exp.Localtimestamp: set(),
        exp.StrToDate: {"this", "format"},
        exp.StrToTime: {"this", "format"},
        exp.UnixToTime: {"this"},
        exp.Concat: {"expressions", "safe", "coalesce"},
        exp.ConcatWs: {"expressions", "safe", "coalesce"},
        exp.Contains: {"this", "expression"},
        exp.DataType: {"this", "expressions", "nested"},
        exp.DataTypeParam: {"this"},
        exp.DateFromParts: {"year", "month", "day"},
        exp.DateTrunc: {"unit", "this", "input_type_preserved"},
        exp.Identifier: {"this", "quoted"},
        exp.Interval: {"this", "unit"},
        exp.LastDay: {"this"},
        exp.Left: {"this", "expression"},
        exp.Right: {"this", "expression"},
        exp.Length: {"this"},
        exp.Offset: {"expression"},
        exp.Order: {"expressions"},
        exp.Ordered: {"this", "desc", "nulls_first"},
        exp.Parameter: {"this"},
        exp.Placeholder: {"this"},
        exp.Round: {"this", "decimals"},
        exp.Trunc: {"this", "decimals"},
        exp.SplitPart: {"this", "delimiter", "part_index"},
        exp.StrPosition: {"this", "substr"},
        exp.Substring: {"this", "start", "length"},
        exp.TimestampTrunc: {"this", "unit", "input_type_preserved"},
        exp.TryCast: {"this", "to"},
        exp.Values: {"expressions", "alias"},
        exp.Week: {"this"},
        exp.Window: {"this", "partition_by", "order", "spec", "over"},
        exp.WindowSpec: {"kind", "start", "start_side", "end", "end_side", "exclude"},
        exp.Select: {
            "expressions", "from_", "where", "group", "having", "order", "limit", "offset",
            "distinct", "with_", "joins",
        },
        exp.Table: {"this", "db", "catalog", "alias"},
        exp.TableAlias: {"this", "columns"},
        exp.Count: {"this", "big_int"},
        exp.Sum: {"this"},
        exp.Avg: {"this"},
        exp.Variance: {"this"},
        exp.VariancePop: {"this"},
        exp.Stddev: {"this"},
        exp.StddevPop: {"this"},
        exp.StddevSamp: {"this"},
        exp.Min: {"this"},
        exp.Max: {"this"},
        exp.Filter: {"this", "expression"},
        exp.Group: {"expressions", "all"},
        exp.Join: {"this", "side", "kind", "on", "using"},
        exp.CTE: {"this", "alias", "materialized"},
        exp.With: {"expressions"},
        exp.Distinct: {"expressions"},
        exp.Subquery: {"this", "alias"},
        exp.Fetch: {"direction", "count", "limit_options"},
        exp.Limit: {"expression"},
        exp.In: {"this", "expressions", "query"},
        exp.Trim: {"this", "expression", "position"},
        exp.Cast: {"this", "to"},
        exp.Literal: {"this", "is_string"},
        exp.Union: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
        exp.Intersect: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
        exp.Except: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
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
