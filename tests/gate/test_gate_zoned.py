"""Attributes that are instants, in process: DuckDB's values in the session's time zone, caches that
keep the zones of sessions apart, and free refusals.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import BinCut

T = dt.datetime
UTC = dt.UTC
ATTRIBUTES: dict[str, Any] = {
    "seen": {
        "range": [T(2020, 10, 24, 18, tzinfo=UTC), T(2020, 10, 25, 6, tzinfo=UTC)],
        "step": "30 minutes",
        "other": True,
    },
    "k": {"range": [0, 2]},
}
VISITS = """
    CREATE TABLE visit AS
    SELECT TIMESTAMPTZ '2020-10-24 17:59:59+00' + INTERVAL 10 MINUTE * i AS seen, i % 3 AS k
    FROM range(90) t(i)
"""
CUT = """
    SELECT CASE WHEN seen >= '2020-10-24 18:00+00' AND seen < '2020-10-25 06:30+00'
        THEN time_bucket(INTERVAL 30 MINUTE, seen) END AS seen, k FROM visit
"""


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(VISITS)
        connection.execute(f"CREATE TABLE cut AS {CUT}")
        yield connection


@pytest.fixture(scope="module")
def visits(
    raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tallyveil.Connection]:
    table = {"budget": {"epsilon": 1e6}, "attributes": ATTRIBUTES}
    declared = {"tables": {"visit": table}, "defaults": {"epsilon": 60}}
    folder: Path = tmp_path_factory.mktemp("visits")
    with tallyveil.connect(tallyveil.parse_policy(declared, base=folder), source=raw) as connection:
        yield connection


ASKED = [
    "SELECT CAST(seen AS VARCHAR) AS g, count(*) FROM {} GROUP BY g",
    "SELECT hour(seen) AS h, count(*) FROM {} GROUP BY h",
    "SELECT CAST(date_trunc('day', seen) AS VARCHAR) AS d, sum(k) FROM {} GROUP BY d",
    "SELECT count(*) FROM {} WHERE seen < '2020-10-25 02:30'",
    "SELECT count(*) FROM {} WHERE seen < '2020-10-25 02:30:00+02'",
    "SELECT count(*) FROM {} WHERE seen >= DATE '2020-10-25' AND k = 1",
    "SELECT CAST(max(g) AS VARCHAR), count(*) FROM (SELECT seen AS g, count(*) AS n FROM {}"
    " GROUP BY g) WHERE g < '2020-10-25 02:00'",
]


@pytest.mark.slow
def test_two_zones_alternate_in_one_session(
    visits: tallyveil.Connection, raw: duckdb.DuckDBPyConnection
) -> None:
    for zone in 2 * ["Europe/Berlin", "Asia/Kolkata", "UTC"]:
        for connection in (visits, raw):
            connection.execute(f"SET TimeZone = '{zone}'")
        for sql in ASKED:
            found = {row for row in visits.execute(sql.format("visit")).fetchall() if row[-1]}
            assert found == set(raw.execute(sql.format("cut")).fetchall()), (zone, sql)


def test_values_are_instants_in_the_sessions_zone(visits: tallyveil.Connection) -> None:
    visits.execute("SET TimeZone = 'Europe/Berlin'")
    sql = "SELECT seen, count(*) AS n FROM visit GROUP BY seen ORDER BY seen LIMIT 16"
    cursor = visits.execute(sql)
    assert cursor.description is not None
    assert cursor.description[0][1] == "TIMESTAMP WITH TIME ZONE"
    shown = [str(row[0]) for row in cursor.fetchall()]
    assert shown[12:] == [
        "2020-10-25 02:00:00+02:00", "2020-10-25 02:30:00+02:00",
        "2020-10-25 02:00:00+01:00", "2020-10-25 02:30:00+01:00",
    ]  # fmt: skip
    kept = visits.sql(sql)
    visits.execute("SET TimeZone = 'Asia/Kolkata'")
    assert "2020-10-25 06:00:00+05:30" in repr(visits.sql(sql))
    assert "2020-10-25 02:30:00+02" in repr(kept)
    visits.execute("SET TimeZone = 'Europe/Berlin'")
    assert str(visits.sql(sql).to_arrow_table().schema.field("seen").type) == (
        "timestamp[us, tz=Europe/Berlin]"
    )


def test_between_two_steps_is_refused_free(visits: tallyveil.Connection) -> None:
    """Also where the constant is a step in another zone, where the statement was answered."""
    sql = "SELECT count(*) FROM visit WHERE seen > '2020-10-25 01:00'"
    visits.execute("SET TimeZone = 'UTC'")
    visits.execute(sql)
    before = visits.budget()
    visits.execute("SET TimeZone = 'Asia/Kathmandu'")
    with pytest.raises(BinCut, match="between two steps of seen") as caught:
        visits.execute(sql)
    assert "'2020-10-25 00:45:00+05:45' and '2020-10-25 01:15:00+05:45'" in (
        caught.value.hint or ""
    )
    assert visits.budget() == before
