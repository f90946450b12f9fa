"""A unit moves the counts by at most max_rows, whatever its rows and whoever else is there."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyveil.cube import load_cubes, rows_left_out
from tallyveil.errors import SourceError
from tallyveil.policy import parse_policy

KEY = bytes(range(32))
Load = Callable[[list[Any], Any], Any]
AXES: dict[str, Any] = {"a": {"range": [0, 2]}, "b": {"values": ["x", "y"], "nullable": True}}
rows = st.lists(
    st.tuples(
        st.sampled_from([None, "p", "P", "q", "r"]),
        st.integers(-1, 3),
        st.sampled_from(["x", "y", "z", None]),
    ),
    max_size=25,
)


Record = tuple[str | None, int | None, str | None]


@pytest.fixture
def load(database: duckdb.DuckDBPyConnection) -> Load:
    def load(records: list[Any], policy: Any) -> Any:
        columns = "unit VARCHAR COLLATE NOCASE, a INTEGER, b VARCHAR"
        database.execute(f"CREATE OR REPLACE TABLE t ({columns})")
        if records:
            rows = ", ".join(["(?, ?, ?)"] * len(records))
            database.execute(f"INSERT INTO t VALUES {rows}", [x for row in records for x in row])
        return load_cubes(policy, database, key=KEY)["t"]

    return load


def cell(record: Record) -> tuple[int, int] | None:
    _, a, b = record
    b_cell = {"x": 0, "y": 1, None: 2}.get(b)
    return (a, b_cell) if a is not None and 0 <= a <= 2 and b_cell is not None else None


def places(records: list[Record]) -> list[tuple[bytes, Record]]:
    """The rows, each with its place in the order of its unit, from the definition."""
    seen: Counter[Record] = Counter()
    found = []
    for record in records:
        seen[record] += 1
        unit, a, b = (":" if x is None else f"{len(str(x))}:{x}" for x in record)
        place = hashlib.sha256(KEY + f"{a}{b}{unit}".encode()).digest()
        if seen[record] > 1:
            place = hashlib.sha256(place + str(seen[record]).encode()).digest()
        found.append((place, record))
    return sorted(found)


def oracle(records: list[Record], most: int) -> list[int]:
    """The first ``most`` rows of each unit, then those of them that have a cell."""
    left: Counter[str | None] = Counter()
    kept: Counter[tuple[int, int] | None] = Counter()
    for _, record in places(records):
        left[record[0]] += 1
        if record[0] is not None and left[record[0]] <= most:
            kept[cell(record)] += 1
    return [kept[a, b] for a in range(3) for b in range(3)]


relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(records=rows, most=st.integers(1, 4))
def test_which_rows_are_counted(
    records: list[Any],
    most: int,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
    load: Load,
) -> None:
    policy = make_policy(AXES, privacy_unit={"column": "unit", "max_rows": most})
    assert counts(load(records, policy)) == oracle(records, most)


TIMES = {
    "DATE": ["2026-01-02", "2026-01-03", "0001-01-01 (BC)", "infinity", None],
    "TIMESTAMP": ["2026-01-02 10:00:00", "2026-01-02 09:59:59.999999", "1969-12-31", None],
    "TIMESTAMP_NS": ["2026-01-02 10:00:00", "1969-12-31 23:59:59", "2026-01-02 10:00:01", None],
    "TIMESTAMPTZ": ["2026-01-02 10:00:00+02", "2026-01-02 09:00:00+00", "-infinity", None],
    "VARCHAR": ["2026-01-02T10:00:00+02:00", " 2026-01-02", "2026-01-02 09:00", "soon", None],
}
ORDERS = {
    "DATE": [2, 0, 1, 3, 4],
    "TIMESTAMP": [2, 1, 0, 3],
    "TIMESTAMP_NS": [1, 0, 2, 3],
    "TIMESTAMPTZ": [2, 0, 1, 3],
    "VARCHAR": [1, 0, 2, (3, 4)],  # no times
}


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("kind", TIMES)
def test_the_earliest_rows_are_counted(
    kind: str,
    most: int,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
    database: duckdb.DuckDBPyConnection,
) -> None:
    """Each of 40 units has a row of each time; that of time i has the value i. Of several rows of
    one time the hash chooses, and so both are kept of some units."""
    unit = {"column": "unit", "max_rows": most, "earliest_by": "Seen"}
    policy = make_policy({"a": {"range": [0, 5]}}, privacy_unit=unit)
    database.execute(f"CREATE TABLE t (unit INTEGER, a INTEGER, seen {kind})")
    rows = [(n, a, time) for n in range(40) for a, time in enumerate(TIMES[kind])]
    database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    cube = load_cubes(policy, database, key=KEY)["t"]
    found, kept = counts(cube), [0] * 6
    for place in ORDERS[kind][:most]:
        if isinstance(place, int):
            kept[place] = 40
    assert [own for own in found if own == 40] == [40] * most
    assert found == kept
    # Twice the rows, of which the earliest are equal but for a value.
    database.execute("INSERT INTO t SELECT unit, 5, seen FROM t WHERE a = " + str(ORDERS[kind][0]))
    if most == 1:
        found = counts(load_cubes(policy, database, key=KEY)["t"])
        assert 0 < found[5] < 40
        assert found[5] + found[ORDERS[kind][0]] == 40


def test_the_earliest_are_asked_of_times_alone(
    make_policy: Callable[..., Any], database: duckdb.DuckDBPyConnection
) -> None:
    database.execute("CREATE TABLE t (unit INTEGER, a INTEGER, seen TIME)")
    for column, words in (("a", "is INTEGER, which has no times"), ("b", "has no column b")):
        unit = {"column": "unit", "max_rows": 1, "earliest_by": column}
        policy = make_policy({"a": {"range": [0, 5]}}, privacy_unit=unit)
        with pytest.raises(SourceError, match=rf"tables\.t\.privacy_unit\.earliest_by: .*{words}"):
            load_cubes(policy, database, key=KEY)
    assert "the earliest by b, is counted" in policy.tables["t"].capped
    assert '"earliest_by":"b"' in policy.tables["t"].declaration().replace(" ", "")


@relaxed
@given(records=rows, most=st.integers(1, 3), unit=st.sampled_from(["p", "P", "q"]))
def test_removing_a_unit_moves_at_most_max_rows(
    records: list[Any],
    most: int,
    unit: str,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
    load: Load,
) -> None:
    policy = make_policy(AXES, privacy_unit={"column": "unit", "max_rows": most})
    with_unit = counts(load(records, policy))
    without = counts(load([r for r in records if r[0] != unit], policy))
    assert all(x >= y for x, y in zip(with_unit, without, strict=True))
    assert sum(with_unit) - sum(without) <= most


def test_the_choice_depends_on_nothing_but_the_rows_and_the_key(
    make_policy: Callable[..., Any], counts: Callable[..., list[int]]
) -> None:
    days = {"range": [dt.date(2020, 1, 1), dt.date(2020, 6, 30)]}
    unit = {"column": "unit", "max_rows": 2}
    policy = make_policy({"a": {"range": [0, 99]}, "seen": days}, privacy_unit=unit)
    stamp = "TIMESTAMPTZ '2020-01-01 00:00:00+00' + range * INTERVAL 1 HOUR"
    rows = f"SELECT range % 50 AS unit, range // 40 AS a, {stamp} AS seen FROM range(4000)"

    def counted(setting: str, columns: str, order: str, key: bytes) -> list[int]:
        with duckdb.connect() as database:
            database.execute(setting)
            query = f"SELECT {columns} FROM ({rows}) ORDER BY {order}"
            database.execute(f"CREATE TABLE t AS {query}")
            return counts(load_cubes(policy, database, key=key)["t"])

    expected = counted("SET threads = 2", "unit, a, seen", "seen", KEY)
    assert expected == counted("SET threads = 1", "unit, a, seen", "hash(seen)", KEY)
    assert expected == counted("SET TimeZone = 'Asia/Kolkata'", "seen, a, unit", "seen", KEY)
    assert expected == counted("SET threads = 2", "unit, a, seen, random() AS x", "seen", KEY)
    assert expected != counted("SET threads = 2", "unit, a, seen", "seen", KEY[::-1])
    assert sum(expected) == 100


def test_equal_rows_are_as_likely_to_be_kept_as_others(
    make_policy: Callable[..., Any], counts: Callable[..., list[int]]
) -> None:
    """Each of 4,000 units has three equal rows and three that differ: 2 of 6 are kept, so 4,000 of
    each kind; the deviation is below 5.3 standard deviations of √(0.4 · 4000) with a probability
    of 1 − 1.2e-7."""
    policy = make_policy({"a": {"range": [0, 3]}}, privacy_unit={"column": "unit", "max_rows": 2})
    with duckdb.connect() as database:
        rows = "SELECT range // 6 AS unit, greatest(range % 6 - 2, 0) AS a FROM range(24000)"
        database.execute(f"CREATE TABLE t AS {rows}")
        equal, *others = counts(load_cubes(policy, database, key=secrets.token_bytes(32))["t"])
    assert equal + sum(others) == 8000
    assert abs(equal - 4000) < 5.3 * 1600**0.5


def test_what_max_rows_leaves_out_is_counted(
    tmp_path: Path, make_policy: Callable[..., Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("unit,a\np,1\np,7\np,\nq,2\n,1\n")
    unit = {"column": "unit", "max_rows": 2}
    declared = {"budget": {"epsilon": 1}, "attributes": AXES | {"b": AXES["a"]}}
    policy = parse_policy(
        {"source": {"url": str(path)}, "tables": {"t": {**declared, "privacy_unit": unit}}}
    )
    assert rows_left_out(policy) == {"t": (4, 1)}


def test_the_unit_needs_its_column(make_policy: Callable[..., Any], load: Load) -> None:
    policy = make_policy(AXES, privacy_unit={"column": "person", "max_rows": 1})
    with pytest.raises(SourceError, match=r"tables\.t\.privacy_unit\.column: .* no column person"):
        load([], policy)


def test_a_from_that_differs_each_time_counts_no_unit_more_often(
    make_policy: Callable[..., Any], counts: Callable[..., list[int]], database: Any
) -> None:
    unit = {"column": "unit", "max_rows": 2}
    origin = "SELECT 1 AS unit, 0 AS a FROM range(40) WHERE random() < 0.06"
    policy = make_policy({"a": {"range": [0, 1]}}, privacy_unit=unit, **{"from": origin})
    found = {counts(load_cubes(policy, database, key=KEY)["t"])[0] for _ in range(30)}
    assert max(found) == 2


def test_the_digest_does_not_depend_on_the_session_nor_on_other_columns(
    make_policy: Callable[..., Any], database: duckdb.DuckDBPyConnection
) -> None:
    policy = make_policy(AXES, **{"from": "s", "privacy_unit": {"column": "at", "max_rows": 2}})

    def digest(zone: str, hours: str = "i", more: str = "") -> bytes:
        database.execute(f"SET GLOBAL TimeZone = '{zone}'")
        stamp = f"TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_hours({hours})"
        columns = f"i % 3 AS a, 'x' AS b, {stamp} AS at {more}"
        database.execute(f"CREATE OR REPLACE TABLE s AS SELECT {columns} FROM range(50) t(i)")
        return load_cubes(policy, database, key=KEY)["t"].digest(KEY)

    first = digest("UTC")
    assert digest("Asia/Tokyo") == digest("UTC", more=", i AS c") == first
    assert digest("UTC", hours="CASE i WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE i END") != first
    database.execute("RESET GLOBAL TimeZone")
