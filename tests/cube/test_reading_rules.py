"""Which cell a record goes to, against a slow oracle that follows the documented rule in Python."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyveil.cube import load_cubes
from tallyveil.policy import Attribute

DECIMAL = re.compile(r"[ \t]*[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")
DIGITS = re.compile(r"[ \t]*[+-]?[0-9]+[ \t]*")
DAY = re.compile(r"[ \t]*([0-9]{4}-[0-9]{2}-[0-9]{2})([ T].*)?", re.DOTALL)
TRUE, FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}


# The oracle ---------------------------------------------------------------------------------


def number_of(value: Any) -> Fraction | float | None:
    """An exact number, an infinity, or None where there is no number."""
    if isinstance(value, str):
        if not DECIMAL.fullmatch(value):
            return None
        value = int(value) if DIGITS.fullmatch(value) else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return Fraction(value)


def read(attribute: Attribute, value: Any) -> Any:
    if value is None:
        return None
    match attribute.sql_type:
        case "VARCHAR":
            return value
        case "BOOLEAN" if isinstance(value, str):
            word = value.strip(" ").lower()
            return True if word in TRUE else False if word in FALSE else None
        case "BOOLEAN":
            return bool(value) if value in (0, 1) else None
        case "DATE" if isinstance(value, str):
            found = DAY.fullmatch(value)
            try:
                return dt.date.fromisoformat(found[1]) if found else None
            except ValueError:
                return None
        case "DATE":
            return value.date() if isinstance(value, dt.datetime) else value
    return number_of(value)


def cell_of(attribute: Attribute, stored: Any) -> int | None:
    value = read(attribute, stored)
    other = attribute.other_cell
    null = attribute.null_cell if attribute.null_cell is not None else other
    if value is None:
        return null
    declared = [c for i, c in enumerate(attribute.cells) if i not in (other, attribute.null_cell)]
    if attribute.edges is not None:
        for i, (low, high) in enumerate(zip(attribute.edges, attribute.edges[1:], strict=False)):
            if low <= value < high:
                return i
        low, high = attribute.edges[0], attribute.edges[-1]
    else:
        if value in declared:
            return declared.index(value)
        low, high = declared[0], declared[-1]
    if attribute.clamp:
        if value < low:
            return 0
        if value > declared[-1] and value >= high:
            return len(declared) - 1
        return null if low <= value <= high else len(declared) - 1
    return other


# The records --------------------------------------------------------------------------------

near = st.integers(-3, 12)
integers = near | st.sampled_from([2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)])
halves = st.integers(-6, 24).map(lambda i: i / 2)
doubles = halves | st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -0.0, 1e19])
days = st.dates(dt.date(2019, 12, 30), dt.date(2020, 1, 8)) | st.dates()
moments = st.datetimes(dt.datetime(2019, 12, 30), dt.datetime(2020, 1, 8)) | st.datetimes()
numbers_as_text = (
    near.map(str)
    | halves.map(str)
    | st.sampled_from(["5.0", " 5 ", "+5", "5e0", "5.", ".5", "5e400", "-5e400", "1e-400", "0x5"])
    | st.sampled_from(["1_0", "NaN", "inf", "-Infinity", "", " ", "5 5", "٥", "5\n", "9.5"])
    | st.sampled_from(["5" * 50, "-" + "9" * 400, "8.9999999", "-1.5e0", "100000.5"])
)
words = st.sampled_from(["a", "A", "b", " b", "ä", "a\u0308", "", "other", "NULL", "5", "a'b"])
truths = st.sampled_from(["true", "TRUE", " t ", "yes", "0", "1", "2", "on", "", "nein", "F"])
day_texts = (
    days.map(str)
    | st.sampled_from(["2020-01-02T03:04", "2020-01-02 25:00", "2020-1-2", "2020-02-30", "x", ""])
    | st.sampled_from(["2020-01-021", " 2020-01-02", "2020-01-02 \n", "0000-00-00", "9999-12-31"])
)
junk = st.text(max_size=6).filter(lambda s: "\0" not in s)
quarter = st.integers(-30, 120).map(lambda i: decimal.Decimal(i) / 10)
far_decimals = st.sampled_from(
    [decimal.Decimal(sign + "9" * 36 + cents) for sign in ("", "-") for cents in (".99", ".00")]
)

INT_AXES: list[dict[str, Any]] = [
    {"range": [0, 9]},
    {"range": [0, 9], "nullable": True},
    {"range": [0, 9], "other": True},
    {"range": [-1, 9], "clamp": True},
    {"range": [-1, 9], "clamp": True, "nullable": True},
    {"range": [2**63 - 5, 2**63 - 1], "clamp": True},
    {"range": [-(2**63), -(2**63) + 2], "other": True},
    {"values": [5, 3, -(2**63), 2**63 - 1], "nullable": True},
    {"values": [3, 5], "other": True},
    {"bins": [0, 3, 9]},
    {"bins": [0, 3, 9], "clamp": True, "nullable": True},
    {"bins": [-(2**63), 0, 2**63 - 1], "other": True},
    {"bins": [0.0, 2.5, 9.5], "nullable": True},
    {"bins": [-0.5, 2.5], "clamp": True},
    {"bins": [-0.5, 2.5], "other": True},
]
TEXT_AXES: list[dict[str, Any]] = [
    {"values": ["a", "b", "ä"]},
    {"values": ["b", "a"], "other": True},
    {"values": ["a", ""], "other": "rest", "nullable": True},
    {"values": ["a'b", "5"], "nullable": True},
]
BOOL_AXES: list[dict[str, Any]] = [
    {"values": [True, False]},
    {"values": [False], "other": True},
    {"values": [False, True], "nullable": True},
]
D = dt.date
DATE_AXES: list[dict[str, Any]] = [
    {"range": [D(2020, 1, 1), D(2020, 1, 5)]},
    {"range": [D(2020, 1, 1), D(2020, 1, 5)], "clamp": True, "nullable": True},
    {"range": [D(2020, 1, 1), D(2020, 1, 5)], "other": True},
    {"values": [D(2020, 1, 3), D(2020, 1, 1)], "nullable": True},
    {"values": [D(2020, 1, 3)], "other": True},
]
# DuckDB type of the column, its values, the attributes that may be declared on it
STORED: dict[str, tuple[str, st.SearchStrategy[Any], list[dict[str, Any]]]] = {
    "bigint": ("BIGINT", integers, INT_AXES),
    "tinyint": ("TINYINT", near, INT_AXES),
    "hugeint": ("HUGEINT", integers | st.sampled_from([2**63, 2**100, -(2**100)]), INT_AXES),
    "ubigint": ("UBIGINT", st.sampled_from([0, 3, 9, 2**63 - 1, 2**63, 2**64 - 1]), INT_AXES),
    "uhugeint": ("UHUGEINT", st.sampled_from([0, 3, 2**63, 2**127, 2**128 - 1]), INT_AXES),
    "double": ("DOUBLE", doubles, INT_AXES),
    "float": ("FLOAT", halves | st.sampled_from([math.nan, math.inf, -math.inf]), INT_AXES),
    "decimal": ("DECIMAL(18,1)", quarter, INT_AXES),
    "wide decimal": ("DECIMAL(38,0)", near | st.just(10**37), INT_AXES),
    "decimal with digits to its ends": ("DECIMAL(38,2)", quarter | far_decimals, INT_AXES),
    "decimal below 1": (
        "DECIMAL(38,38)",
        st.sampled_from(["0", "0." + "9" * 38, "-0." + "9" * 38]).map(decimal.Decimal),
        INT_AXES,
    ),
    "numeric text": ("VARCHAR", numbers_as_text | junk, INT_AXES),
    "text": ("VARCHAR", words | junk, TEXT_AXES),
    "collated text": ("VARCHAR COLLATE NOCASE", words, TEXT_AXES),
    "boolean": ("BOOLEAN", st.booleans(), BOOL_AXES),
    "boolean as integer": ("INTEGER", st.integers(-1, 2), BOOL_AXES),
    "boolean as text": ("VARCHAR", truths | junk, BOOL_AXES),
    "integer as boolean": ("BOOLEAN", st.booleans(), INT_AXES[:5]),
    "date": ("DATE", days, DATE_AXES),
    "timestamp": ("TIMESTAMP", moments, DATE_AXES),
    "timestamp in UTC": (
        "TIMESTAMP WITH TIME ZONE",
        moments.map(lambda m: m.replace(tzinfo=dt.UTC)),
        DATE_AXES,
    ),
    "date as text": ("VARCHAR", day_texts | junk, DATE_AXES),
}


@pytest.mark.parametrize("stored", STORED)
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_record_goes_where_the_rule_says(
    stored: str,
    data: st.DataObject,
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    column_type, values, axes = STORED[stored]
    rows = data.draw(st.lists(st.none() | values, min_size=40, max_size=80))
    database.execute(f"CREATE OR REPLACE TABLE t (v {column_type})")
    written = [None if row is None else str(row) for row in rows]
    database.execute("INSERT INTO t SELECT unnest(?::VARCHAR[])", [written])
    for axis in axes:
        policy = make_policy({"a": {**axis, "column": "v"}})
        attribute = policy.tables["t"].domain["a"]
        cells = [cell_of(attribute, row) for row in rows]
        assert not (attribute.complete and None in cells), axis
        expected = [cells.count(cell) for cell in range(attribute.size)]
        assert counts(load_cubes(policy, database, key=b"key")["t"]) == expected, axis


HOSTILE = ["inf", "-inf", "nan", "1e400", "9" * 60, "2020-99-99", "'; DROP TABLE t; --", "\t", "é"]


def test_hostile_records_change_nothing_but_their_own_count(
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    """Every kind of attribute over the same hostile text: nothing fails, good records stay."""
    records = [*HOSTILE, None]
    database.execute("CREATE TABLE t AS SELECT unnest(?::VARCHAR[]) AS v", [records])
    for axis in [*INT_AXES, *TEXT_AXES, *BOOL_AXES, *DATE_AXES]:
        policy = make_policy({"a": {**axis, "column": "v"}})
        domain = policy.tables["t"].domain
        cells = [cell_of(domain["a"], v) for v in records]
        found = counts(load_cubes(policy, database, key=b"key")["t"])
        assert found == [cells.count(i) for i in range(domain.size)]
