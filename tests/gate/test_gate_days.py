"""A source finer than the declared domain never changes what a predicate means without a word."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import tallyveil
from tallyveil.cli.app import app
from tallyveil.errors import BinCut
from tests.pairs import alternately

VISITS = (
    "SELECT TIMESTAMP '2014-09-10 00:00:00' + INTERVAL 7 HOUR * i AS ts, "
    "CAST(TIMESTAMP '2014-09-10 00:00:00' + INTERVAL 7 HOUR * i AS DATE) AS day, "
    "i % 40 / 2 AS price FROM range(300) t(i)"
)
ATTRIBUTES: dict[str, Any] = {
    "ts": {"range": [dt.date(2014, 9, 1), dt.date(2014, 12, 31)]},
    "day": {"range": [dt.date(2014, 9, 1), dt.date(2014, 12, 31)]},
    "price": {"range": [0, 20], "nullable": True, "other": True},
    "clamped": {"range": [2, 18], "clamp": True, "nullable": True, "column": "price"},
}


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE visits AS {VISITS}")
        yield connection


@pytest.fixture(scope="module")
def visits(
    raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tallyveil.Connection]:
    """At an ε so large that the noise is 0."""
    policy = declared(tmp_path_factory.mktemp("days"))
    with tallyveil.connect(policy, source=raw) as connection:
        yield connection


def declared(folder: Path, **source: Any) -> Any:
    table = {"from": "visits", "budget": {"epsilon": 1e6}, "attributes": ATTRIBUTES}
    return tallyveil.parse_policy(
        {"tables": {"visit": table}, "defaults": {"epsilon": 100}, **source}, base=folder
    )


def count(connection: Any, table: str, predicate: str) -> int:
    sql = f"SELECT count(*) FROM {table} WHERE {predicate}"
    (found,) = connection.execute(sql).fetchall()[0]
    return int(found)


def test_a_time_of_day_is_refused_and_costs_nothing(visits: tallyveil.Connection) -> None:
    before = visits.budget()[0]["spent"]
    for predicate in ("ts <= '2014-09-11 14:33:06'", "ts > '2014-09-11 14:33:06'", "ts <= DATE "
                      "'2014-09-11'", "ts = '2014-09-11'", "hour(ts) = 3"):  # fmt: skip
        with pytest.raises(tallyveil.TallyveilError):
            count(visits, "visit", predicate)
    assert visits.budget()[0]["spent"] == before


def test_a_time_of_day_is_refused_above_the_counts_too(
    visits: tallyveil.Connection, raw: duckdb.DuckDBPyConnection
) -> None:
    inner = "(SELECT ts, count(*) AS n FROM {} GROUP BY ts) AS t"
    before = visits.budget()[0]["spent"]
    for sql in (
        f"SELECT sum(n) FROM {inner} WHERE ts <= '2014-09-11 14:33:06'",
        f"SELECT sum(n) FILTER (WHERE ts < '2014-09-11 14:00') FROM {inner}",
        f"SELECT extract(hour FROM ts), sum(n) FROM {inner} GROUP BY 1",
        f"SELECT ts + interval '1 hour', n FROM {inner}",
    ):
        with pytest.raises(BinCut):
            visits.execute(sql.format("visit"))
    assert visits.budget()[0]["spent"] == before
    sql = f"SELECT sum(n) FROM {inner} WHERE ts < '2014-09-11'"
    truth = raw.execute(sql.format("visits")).fetchall()
    assert visits.execute(sql.format("visit")).fetchall() == truth


@pytest.mark.parametrize(
    "predicate",
    [
        "ts < '2014-09-11'",
        "ts >= TIMESTAMP '2014-09-11 00:00:00'",
        "CAST(ts AS DATE) <= '2014-09-11'",
        "date_trunc('day', ts) = '2014-09-11'",
        "day <= TIMESTAMP '2014-09-11 14:33:06'",
        "day > TIMESTAMP '2014-09-11 14:33:06'",
        "day = '2014-09-11'",
    ],
)
def test_days_are_answered_as_the_raw_rows_have_them(
    visits: tallyveil.Connection, raw: duckdb.DuckDBPyConnection, predicate: str
) -> None:
    assert count(visits, "visit", predicate) == count(raw, "visits", predicate)


@pytest.mark.parametrize(
    ("operator", "bound"),
    alternately(["<", "<=", ">", ">=", "=", "<>"], ["9", "9.5", "9.25", "CAST(10 AS DOUBLE) / 3"]),
)
def test_numbers_with_a_fraction_are_outside_a_range_of_integers_and_never_rounded(
    visits: tallyveil.Connection, raw: duckdb.DuckDBPyConnection, operator: str, bound: str
) -> None:
    """They are NULL, so that what is counted is exact of the whole numbers."""
    truth = count(raw, "visits", f"price {operator} {bound} AND price = floor(price)")
    assert count(visits, "visit", f"price {operator} {bound}") == truth
    inner = f"clamped {operator} {bound} AND clamped > 2 AND clamped < 18"
    truth = count(
        raw,
        "visits",
        f"price {operator} {bound} AND price > 2 AND price < 18 AND price = floor(price)",
    )
    assert count(visits, "visit", inner) == truth


def test_the_source_is_named_where_it_is_finer(
    visits: tallyveil.Connection, raw: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    rows = visits.execute("SELECT attribute, domain FROM dp.attributes").fetchall()
    assert dict(rows) == {
        "ts": "2014-09-01 to 2014-12-31, timestamps by the day",
        "day": "2014-09-01 to 2014-12-31",
        "price": "0 to 20",
        "clamped": "2 to 18",
    }
    raw.execute(f"COPY visits TO '{tmp_path / 'visits.parquet'}'")
    (tmp_path / "policy.toml").write_text(POLICY)
    result = CliRunner().invoke(app, ["check", "--source", str(tmp_path / "policy.toml")])
    assert "DATE (TIMESTAMP in the source, counted by the day)" in result.output
    raw.execute(f"COPY visits TO '{tmp_path / 'visits.csv'}'")
    (tmp_path / "policy.toml").write_text(POLICY.replace("parquet", "csv"))
    result = CliRunner().invoke(app, ["check", "--source", str(tmp_path / "policy.toml")])
    assert "DATE (text in the source; a time of day in it is not counted)" in result.output


POLICY = """
[source]
url = "visits.parquet"

[tables.visit]
from = "visits"
budget = { epsilon = 1.0 }

[tables.visit.attributes]
ts = { range = [2014-09-01, 2014-12-31] }
"""


def test_a_session_over_text_counts_days(raw: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    raw.execute(f"COPY visits TO '{tmp_path / 'visits.csv'}'")
    policy = declared(tmp_path, source={"url": "visits.csv"})
    with tallyveil.connect(policy) as connection:
        by_day = count(raw, "visits", "day <= '2014-09-11'")
        assert count(connection, "visit", "ts <= '2014-09-11'") == by_day
        with pytest.raises(BinCut):
            count(connection, "visit", "ts <= '2014-09-11 14:33:06'")
