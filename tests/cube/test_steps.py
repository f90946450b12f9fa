"""Which step a record goes to, against the declared rounding computed in exact fractions."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from tallyveil.cube import load_cubes
from tallyveil.errors import SourceError
from tallyveil.policy import Attribute
from tests.pairs import one_in

T = dt.datetime
EPOCH = T(1970, 1, 1)
PLAIN = re.compile(r"[ \t]*[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)[ \t]*")
EXPONENT = re.compile(r"[ \t]*[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)[eE][+-]?[0-9]+[ \t]*")
CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
STAMP = re.compile(rf"[ \t]*([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[ T]{CLOCK})?)(Z|[+-].*)?[ \t]*")


def number_of(value: Any) -> Any:
    """An exact number or an infinity; None for what is none."""
    if isinstance(value, str):
        if EXPONENT.fullmatch(value):
            value = float(value)
        elif not PLAIN.fullmatch(value):
            return None
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return Fraction(value.strip() if isinstance(value, str) else value)


def moment_of(value: Any) -> Any:
    """A moment in UTC, or an infinity, as microseconds since 1970."""
    if isinstance(value, str):
        if value in ("infinity", "-infinity"):
            return math.inf if value == "infinity" else -math.inf
        years = re.match(r"(\d{5,})-", value)
        if years:
            return math.inf
        value = T.fromisoformat(value)
    if not isinstance(value, T):
        value = T(value.year, value.month, value.day)
    value = value.replace(tzinfo=value.tzinfo or dt.UTC)
    return (value - EPOCH.replace(tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def cell_of(attribute: Attribute, value: Any, *, text: bool = False) -> int | None:
    """The cell of a value that is given as the source has it."""
    null = attribute.null_cell if attribute.null_cell is not None else attribute.other_cell
    low = attribute.cells[0]
    last = attribute.size - 1 - len({attribute.null_cell, attribute.other_cell} - {None})
    if isinstance(attribute.step, Decimal):
        exact = None if value is None else number_of(value)
        if exact is None:
            return null
        if abs(exact) > 10**20:
            place: Any = exact
        else:
            place = (Fraction(exact) - Fraction(low)) / Fraction(attribute.step)
            half = Fraction(1, 2)
            place = math.floor(place + half) if exact >= 0 else math.ceil(place - half)
    else:
        if text and value is not None:
            found = STAMP.fullmatch(value)
            try:
                value = value.strip(" \t") if found else None
                value = None if value is None else T.fromisoformat(value)
            except ValueError:
                value = None
        if value is None:
            return null
        place = moment_of(value)
        if abs(place) < 10**20:
            place = (place - moment_of(low)) // (attribute.step // dt.timedelta(microseconds=1))
    if 0 <= place <= last:
        return int(place)
    if attribute.clamp:
        return 0 if place < 0 else last
    return attribute.other_cell


WHOLE = [-1, 0, 1, 7, 10, 11, 2**31, 2**63 - 1, -(2**63)]
DECIMALS = [
    f"{sign}{number}"
    for sign in ("", "-")
    for number in [
        "0",
        "0.005",
        "0.004999999",
        "0.0049",
        "0.015",
        "0.985",
        "1.005",
        "9.994999",
        "9.995",
        "10",
        "10.0049",
        "10.005",
        "0.125",
        "0.375",
        "2.5",
        "1.5",
        "0.5",
        "99",
    ]
]
LONG = ["0." + "0" * 2 + "4" + "9" * 33, "0." + "0" * 2 + "5" + "0" * 33, "9.9" + "9" * 34]
DOUBLES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 0.125, 9.99, 3.33, 10.0, 1e300, -1e300, 5e-324]
DOUBLES += [math.inf, -math.inf, math.nan, 0.29, 0.57, 1.1, 10.004, 10.006, -0.004, -0.006]
TEXTS = [*DECIMALS, *LONG, "9" * 60, "-" + "9" * 400, "1e2", "1e-2", "1e400", "-1e400", "+.5"]
TEXTS += ["NaN", "inf", "", " ", " 5 ", "\t5", "5\n", "٥", "5.", "0x5", "1_0", "x'; --"]

NUMBER_AXES: list[dict[str, Any]] = [
    {"range": [0, 10], "step": Decimal("0.01"), "other": True},
    {"range": [0, 10], "step": 1, "clamp": True, "nullable": True},
    {"range": [-1, Decimal("2.5")], "step": 0.25, "nullable": True},
    {"range": [Decimal("-0.05"), Decimal("0.05")], "step": Decimal("0.01"), "other": True},
    {"range": [-10, 100], "step": 10, "other": True},
    {"range": [-(10**12), -(10**12) + 9], "step": Decimal("0.5"), "clamp": True},
]
EXACT: dict[str, tuple[str, list[Any]]] = {
    "bigint": ("BIGINT", WHOLE),
    "hugeint": ("HUGEINT", [*WHOLE, 2**100, -(2**100)]),
    "ubigint": ("UBIGINT", [0, 5, 10, 11, 2**64 - 1]),
    "uhugeint": ("UHUGEINT", [0, 5, 2**127, 2**128 - 1]),
    "decimal": ("DECIMAL(18,9)", DECIMALS),
    "money": ("DECIMAL(9,2)", ["0", "9.99", "10.01", "-0.01", "1234567.89"]),
    "wide": ("DECIMAL(38,2)", ["9" * 36 + ".99", "-" + "9" * 36 + ".99", "5.55"]),
    "long": ("DECIMAL(38,36)", [*LONG, "-9.99", "0.005", "5", "99." + "9" * 36]),
    "below 1": ("DECIMAL(38,38)", ["0." + "9" * 38, "-0." + "9" * 38, "0.005", "0"]),
    "double": ("DOUBLE", DOUBLES),
    "float": ("FLOAT", [0.5, 1.5, 0.125, math.nan, math.inf, -math.inf]),
    "text": ("VARCHAR", TEXTS),
}


@pytest.mark.parametrize("stored", one_in(2, EXACT))
def test_numbers_go_to_the_nearest_step(
    stored: str,
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    kind, rows = EXACT[stored]
    database.execute(f"CREATE TABLE t (v {kind})")
    written = [None, *(str(row) for row in rows)]
    database.execute("INSERT INTO t SELECT unnest(?::VARCHAR[])", [written])
    for axis in NUMBER_AXES:
        policy = make_policy({"a": {**axis, "column": "v"}})
        attribute = policy.tables["t"].domain["a"]
        given = [None, *((Fraction(r) if kind.startswith("DEC") else r) for r in rows)]
        cells = [cell_of(attribute, row) for row in given]
        expected = [cells.count(cell) for cell in range(attribute.size)]
        assert counts(load_cubes(policy, database, key=b"key")["t"]) == expected, axis


MOMENTS = ["2026-01-01 00:00:00", "2025-12-31 23:59:59.999999", "2026-01-01 00:14:59.999999"]
MOMENTS += ["2026-01-01 00:15:00", "2026-01-02 11:59:59", "2026-01-02 12:00:00", "1999-05-05"]
MOMENTS += ["2026-01-02 12:14:59.999999", "2026-01-02 12:15:00", "9999-12-31 23:59:59"]
OUTSIDE = ["infinity", "-infinity"]
TIME_AXES: list[dict[str, Any]] = [
    {"range": [T(2026, 1, 1), T(2026, 1, 2, 12)], "step": "15 minutes", "other": True},
    {"range": [T(2026, 1, 1, 0, 15), T(2026, 1, 3)], "step": "5 seconds", "clamp": True},
    {"range": [T(1969, 12, 31, 23), T(1970, 1, 1, 2)], "step": "1 hour", "nullable": True},
    {"range": [T(2026, 1, 1, 11), T(2026, 1, 4, 11)], "step": "36 hours", "other": True},
]
OLD = ["1969-12-31 23:59:59.999999", "1969-12-31 22:59:59", "1970-01-01 02:59:59"]
MOMENT_TEXTS = [*MOMENTS, "2026-01-01T00:15", "2026-01-01T01:15:00+01:00", "2026-01-01 00:15Z", ""]
MOMENT_TEXTS += [
    "2026-01-01 00:15+99:99",
    "2026-01-01 25:00",
    "2026-02-30",
    " 2026-01-01 ",
    "infinity",
    "x",
    "now",
]
MOMENT_TEXTS += ["2026-01-01 00:14:59.999999999", "2026-01-01 00:15:00-00", "2026-1-1", "1e9"]
STAMPED: dict[str, tuple[str, list[str]]] = {
    "timestamp": ("TIMESTAMP", [*MOMENTS, *OLD, *OUTSIDE, "290000-01-01"]),
    "seconds": ("TIMESTAMP_S", [*(m for m in MOMENTS if "." not in m), *OUTSIDE, "290000-01-01"]),
    "milliseconds": ("TIMESTAMP_MS", [*(m for m in MOMENTS if "." not in m), *OUTSIDE]),
    "nanoseconds": ("TIMESTAMP_NS", [*(m for m in MOMENTS if m < "9"), *OLD, *OUTSIDE]),
    "date": ("DATE", ["2026-01-01", "2025-12-31", "2026-01-03", *OUTSIDE, "5000000-01-01"]),
    "zone": ("TIMESTAMP WITH TIME ZONE", [*(m + "+00" for m in MOMENTS if ":" in m)]),
    "zone in nanoseconds": (
        "TIMESTAMPTZ_NS",
        [*(m + "+00" for m in [*MOMENTS, *OLD] if ":" in m and m < "9"), *OUTSIDE],
    ),
    "text": ("VARCHAR", MOMENT_TEXTS),
}


@pytest.mark.parametrize("stored", one_in(2, STAMPED))
def test_times_go_to_the_step_before_them(
    stored: str,
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    kind, rows = STAMPED[stored]
    database.execute(f"CREATE TABLE t (v {kind})")
    database.execute("INSERT INTO t SELECT unnest(?::VARCHAR[])", [[None, *rows]])
    database.execute("SET TimeZone = 'America/New_York'")
    for axis in TIME_AXES:
        policy = make_policy({"a": {**axis, "column": "v"}})
        attribute = policy.tables["t"].domain["a"]
        cells = [cell_of(attribute, row, text=stored == "text") for row in [None, *rows]]
        expected = [cells.count(cell) for cell in range(attribute.size)]
        assert counts(load_cubes(policy, database, key=b"key")["t"]) == expected, axis


ZONED_AXES = [
    {**axis, "range": [end.replace(tzinfo=dt.UTC) for end in axis["range"]]} for axis in TIME_AXES
]


@pytest.mark.parametrize("stored", ["zone", "zone in nanoseconds", "text"])
def test_instants_go_to_the_step_before_them(
    stored: str,
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    """A text without an offset is no instant. Offsets of the ends do not matter."""
    kind, rows = STAMPED[stored]
    if stored == "text":
        rows = [*rows, "2026-01-01 05:45:00+05:30", "2026-01-01 00:15", "2026-01-01 00:15 UTC"]
    database.execute(f"CREATE TABLE t (v {kind})")
    database.execute("INSERT INTO t SELECT unnest(?::VARCHAR[])", [[None, *rows]])
    database.execute("SET TimeZone = 'America/New_York'")
    for axis in ZONED_AXES:
        attribute = make_policy({"a": {**axis, "column": "v"}}).tables["t"].domain["a"]
        text = stored == "text"
        read = [
            row if not text or row.endswith("Z") or re.search(":.*[+-]", row) else "no instant"
            for row in rows
        ]
        cells = [cell_of(attribute, row, text=text) for row in [None, *read]]
        expected = [cells.count(cell) for cell in range(attribute.size)]
        for hours in (0, -5):
            east = dt.timezone(dt.timedelta(hours=hours))
            ends = [end.astimezone(east) for end in axis["range"]]
            policy = make_policy({"a": {**axis, "range": ends, "column": "v"}})
            assert policy.tables["t"].domain["a"] == attribute
            assert counts(load_cubes(policy, database, key=b"key")["t"]) == expected, axis


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NS", "DATE"])
def test_a_column_without_instants_is_refused_with_what_to_write(
    kind: str,
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    database.execute(f"CREATE TABLE t AS SELECT CAST(TIMESTAMP '2026-01-02' AS {kind}) AS \"At\"")
    axis = {**ZONED_AXES[0], "column": "At"}
    with pytest.raises(SourceError, match="TIMESTAMP WITH TIME ZONE") as caught:
        load_cubes(make_policy({"a": axis}), database, key=b"key")
    found = re.search("from = '''(.*) FROM …'''", caught.value.hint or "")
    assert found is not None
    policy = make_policy({"a": axis}, **{"from": f"{found[1]} FROM t"})
    place = policy.tables["t"].domain["a"].cells.index(T(2026, 1, 1, 23, tzinfo=dt.UTC))
    assert counts(load_cubes(policy, database, key=b"key")["t"])[place] == 1


def test_a_nanosecond_before_a_step_belongs_to_the_one_before(
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    database.execute("CREATE TABLE t AS SELECT TIMESTAMP_NS '1969-12-31 23:59:59.999999999' AS v")
    policy = make_policy({"a": {**TIME_AXES[2], "column": "v"}})
    assert counts(load_cubes(policy, database, key=b"key")["t"])[:2] == [1, 0]


def test_times_of_day(
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    axis = {"range": [dt.time(6), dt.time(6, 30)], "step": "15 minutes", "column": "v"}
    policy = make_policy({"a": axis | {"other": True}})
    times = ["06:00:00", "06:14:59.999999", "06:15:00", "06:44:59", "06:45:00", "05:59:59"]
    expected = [2, 1, 1, 3]
    for kind, rows in (
        ("TIME", [*times, "24:00:00"]),
        ("TIMESTAMP", [*(f"1969-12-30 {t}" for t in times), "infinity"]),
        ("VARCHAR", [*times, "6:00"]),
    ):
        database.execute(f"CREATE OR REPLACE TABLE t (v {kind})")
        database.execute("INSERT INTO t SELECT unnest(?::VARCHAR[])", [rows])
        assert counts(load_cubes(policy, database, key=b"key")["t"]) == expected, kind


HOUR = 3600 * 10**6
# As DuckDB writes it, as PostgreSQL does where that differs, and the microseconds; None has months.
DURATIONS: list[tuple[str, str | None, int | None]] = [
    ("00:00:00", None, 0),
    ("00:14:59.999999", None, HOUR // 4 - 1),
    ("00:15:00", "00:15", HOUR // 4),
    ("1 day", "1 day 00:00:00", 24 * HOUR),
    ("25:00:00", None, 25 * HOUR),
    ("1 day 01:00:00", None, 25 * HOUR),
    ("2 days", "+2 days", 48 * HOUR),
    ("48:14:00", "  48:14  ", 48 * HOUR + 14 * HOUR // 60),
    ("48:15:00", None, 48 * HOUR + HOUR // 4),
    ("-00:00:00.000001", None, -1),
    ("-1 days 02:00:00", "-1 days +02:00:00", -22 * HOUR),
    ("2 days -00:30:00", None, 47 * HOUR + HOUR // 2),
    ("2000000000 days", None, 10**18),
    ("-2000000000 days", None, -(10**18)),
    ("1 month", "1 mon", None),
    ("-1 year", None, None),
    ("1 month -29 days", "1 mon -29 days", None),
]
LASTING: list[dict[str, Any]] = [
    {"range": ["0 hours", "48 hours"], "step": "15 minutes"},
    {"range": ["-1 day", "2 days"], "step": "1 hour", "clamp": True, "nullable": True},
    {"range": ["1 minute", "181 minutes"], "step": "90 minutes", "other": True},
    {"range": ["00:30:00", "00:30:00"], "step": "30 seconds", "clamp": True},
]


@pytest.mark.parametrize("kind", ["INTERVAL", "VARCHAR"])
@pytest.mark.parametrize("keys", LASTING)
def test_durations_go_to_the_step_before_them(
    kind: str,
    keys: dict[str, Any],
    database: duckdb.DuckDBPyConnection,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
) -> None:
    rows: list[tuple[str | None, int | None]] = [(None, None), *((d, us) for d, _, us in DURATIONS)]
    rows += [(text, us) for _, text, us in DURATIONS if text is not None and kind == "VARCHAR"]
    rows += [(text, None) for text in ("", "soon", "1", "90 minutes") if kind == "VARCHAR"]
    database.execute(f"CREATE TABLE t (v {kind})")
    database.execute("INSERT INTO t SELECT unnest(?::VARCHAR[])", [[text for text, _ in rows]])
    policy = make_policy({"a": {**keys, "column": "v"}})
    attribute = policy.tables["t"].domain["a"]
    assert attribute.sql_type == "INTERVAL"
    low, high = (end // dt.timedelta(microseconds=1) for end in attribute.ends or ())
    step = attribute.step // dt.timedelta(microseconds=1)
    expected = [0] * attribute.size
    for _, value in rows:
        cell = None if value is None else (value - low) // step
        if cell is not None and attribute.clamp:
            cell = min(max(cell, 0), (high - low) // step)
        if cell is None or not 0 <= cell <= (high - low) // step:
            cell = attribute.null_cell if cell is None or attribute.other_cell else None
        if cell is not None:
            expected[cell] += 1
    assert counts(load_cubes(policy, database, key=b"key")["t"]) == expected


def test_durations_are_no_times_of_day(
    database: duckdb.DuckDBPyConnection, make_policy: Callable[..., Any]
) -> None:
    database.execute("CREATE TABLE t (v TIME)")
    policy = make_policy({"a": {**LASTING[0], "column": "v"}})
    with pytest.raises(SourceError, match="TIME, which cannot be read as INTERVAL"):
        load_cubes(policy, database, key=b"key")
