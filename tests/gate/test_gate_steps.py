"""Prices and times as a source has them, through the whole gate: equal to DuckDB on the records
rounded as declared, at an ε so large that the noise is a cent or two in sums of up to 500.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

import tallyveil
from tallyveil.cube import load_cubes
from tallyveil.errors import BinCut, LedgerError
from tests.gate.shared_units import KEY, losses
from tests.pairs import alternately

SALES = """
    CREATE TABLE sales AS
    SELECT TIMESTAMP '2026-01-01' + INTERVAL 1 MINUTE * (i * 977 % 44640) AS sold,
        CAST(i * 7919 % 50001 AS DECIMAL(18, 4)) / 100 + 0.004 AS price,
        ['n', 's', 'e'][1 + i % 3] AS region
    FROM range(4000) t(i);
    INSERT INTO sales VALUES (NULL, NULL, 'n'), ('infinity', 'nan', 's'),
        ('-infinity', '-inf', 'e'), ('290000-01-01', 1e300, 'n'), ('1969-01-01', '-0.0', 's'),
        (NULL, 'inf', NULL)
"""
ROUNDED = """
    SELECT CASE WHEN sold BETWEEN '2026-01-01' AND '2026-01-31 23:59:59.999999'
        THEN time_bucket(INTERVAL 15 MINUTE, sold) END AS sold,
        CASE WHEN price IS NULL OR isnan(price) THEN NULL
        ELSE CAST(round(least(greatest(price, 0), 500), 2) AS DECIMAL(18, 2)) END AS price,
        CASE WHEN region IN ('n', 's', 'e') THEN region ELSE 'other' END AS region
    FROM sales
"""
ATTRIBUTES: dict[str, Any] = {
    "sold": {
        "range": [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 31, 23, 45)],
        "step": "15 minutes",
        "other": True,
    },
    "price": {"range": [0, 500], "step": Decimal("0.01"), "clamp": True, "nullable": True},
    "region": {"values": ["n", "s", "e"], "other": True},
}


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(SALES.replace("/ 100 + 0.004 AS", "/ 100 + 0.004::DOUBLE AS"))
        connection.execute(f"CREATE TABLE sale AS {ROUNDED}")
        yield connection


def policy(folder: Path, **changed: Any) -> Any:
    attributes = {name: a | changed.get(name, {}) for name, a in ATTRIBUTES.items()}
    table = {"from": "sales", "budget": {"epsilon": 1e6}, "neighbours": "replace"}
    return tallyveil.parse_policy(
        {"tables": {"sale": {**table, "attributes": attributes}}, "defaults": {"epsilon": 1e5}},
        base=folder,
    )


@pytest.fixture(scope="module")
def sales(
    raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tallyveil.Connection]:
    with tallyveil.connect(policy(tmp_path_factory.mktemp("steps")), source=raw) as connection:
        yield connection


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*), count(sold), count(price), sum(price) FROM sale",
        "SELECT extract(hour FROM sold) AS h, region, sum(price) FROM sale GROUP BY h, region",
        "SELECT CAST(sold AS DATE) AS d, count(*) FROM sale WHERE price >= 250 GROUP BY d",
        "SELECT floor(price / 50) * 50 AS b, count(*) FROM sale GROUP BY b",
        "SELECT region, avg(price) FROM sale WHERE sold < '2026-01-08' GROUP BY region",
    ],
)
def test_answers_are_those_of_the_rounded_records(
    sales: tallyveil.Connection, raw: duckdb.DuckDBPyConnection, sql: str
) -> None:
    expected = totals(raw.execute(sql))
    assert totals(sales.execute(sql)) == pytest.approx(expected, abs=0.1)


def totals(cursor: Any) -> Any:
    """The last column of each row by the others, without groups that have no records."""
    found = {tuple(row[:-1]): float(row[-1] or 0) for row in cursor.fetchall()}
    return {key: total for key, total in found.items() if total > 0.1}


def test_a_sum_by_hour_of_a_year_of_minutes(
    raw: duckdb.DuckDBPyConnection, postgres: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """More than 10^11 cells together: each attribute is evaluated by itself. As PostgreSQL adds up
    the rounded records, but for noise of a scale of 500 / 10^5."""
    ends = [dt.datetime(2026, 1, 1), dt.datetime(2026, 12, 31, 23, 59)]
    minutes = policy(tmp_path, sold={"range": ends, "step": "1 minute"})
    sql = "SELECT date_trunc('hour', sold) AS h, region, sum(price) FROM sale GROUP BY h, region"
    with tallyveil.connect(minutes, source=raw) as connection:
        found = {
            (hour, region): total for hour, region, total in connection.execute(sql).fetchall()
        }
    postgres.execute("CREATE TEMP TABLE sale (sold timestamp, price numeric, region text)")
    with postgres.cursor().copy("COPY sale FROM STDIN") as copy:
        for row in raw.execute("SELECT sold, price, region FROM sale").fetchall():
            copy.write_row(row)
    expected = {(hour, region): total for hour, region, total in postgres.execute(sql).fetchall()}
    assert len(found) == 8761 * 4
    assert expected.keys() <= found.keys()
    for group, total in found.items():
        assert total == pytest.approx(expected.get(group) or 0, abs=Decimal("0.3"))


@pytest.mark.parametrize(
    ("neighbours", "measure"),
    alternately(["add_remove", "replace"], ["epsilon", "rho"]),
)
def test_a_sum_by_hour_charges_what_a_record_loses(
    tmp_path: Path, neighbours: str, measure: str
) -> None:
    """By brute force over all pairs of records, or a record and none, on a small copy."""
    ends = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 1, 30)]
    attributes = {
        "sold": {"range": ends, "step": "30 minutes"},
        "price": {"range": [0, 2], "step": Decimal("0.5")},
        "region": {"values": ["n", "s"]},
    }
    budget = {"epsilon": 1e5} if measure == "epsilon" else {"rho": 1e5, "delta": 1e-9}
    table = {"from": "sales", "budget": budget, "neighbours": neighbours, "attributes": attributes}
    declared = tallyveil.parse_policy(
        {"tables": {"sale": table}, "defaults": {measure: 1}}, base=tmp_path
    )
    records = """
        SELECT TIMESTAMP '2026-01-01' + INTERVAL 30 MINUTE * (i % 4) AS sold,
            CAST(i // 4 % 5 AS DECIMAL(18, 2)) / 2 AS price, ['n', 's'][1 + i // 20] AS region
        FROM range(40) t(i)
    """
    with duckdb.connect() as source:
        source.execute(f"CREATE TABLE sales AS {records}")
        cubes = []
        for i in range(40):
            source.execute(f"CREATE OR REPLACE TABLE sales AS {records} LIMIT 1 OFFSET {i}")
            cubes.append(load_cubes(declared, source, key=KEY))
        if neighbours == "add_remove":
            source.execute("TRUNCATE sales")
            cubes.append(load_cubes(declared, source, key=KEY))
        source.execute(f"CREATE OR REPLACE TABLE sales AS {records}")
        with tallyveil.connect(declared, source=source) as connection:
            for where in ("", "WHERE price >= 1.5"):
                connection.execute(
                    "SELECT extract(hour FROM sold) AS h, region, sum(price) FROM sale "
                    f"{where} GROUP BY h, region"
                ).fetchall()
            accountant = connection._gate.accountant
            releases, spent = accountant.learned("sale", 0, 0)[0], accountant.balance("sale").spent
    apart = sum(losses(release, cubes, measure) for release in releases)
    others = slice(-1, None) if neighbours == "add_remove" else slice(None)
    assert np.max(apart[others]) == pytest.approx(float(spent), rel=1e-6)


def test_the_steps_are_public_and_part_of_the_ledger(
    sales: tallyveil.Connection, raw: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    shown = sales.execute("SELECT type, cells, domain FROM dp.attributes").fetchall()
    assert shown[:2] == [
        ("TIMESTAMP", 2977, "2026-01-01 00:00:00 to 2026-01-31 23:45:00 in steps of 15 minutes"),
        ("DECIMAL(18,2)", 50002, "0.00 to 500.00 in steps of 0.01"),
    ]
    tallyveil.connect(policy(tmp_path), source=raw).close()
    other = {"range": [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 31, 23, 30)]}
    for changed in ({"sold": other | {"step": "30 minutes"}}, {"price": {"step": Decimal("0.1")}}):
        with pytest.raises(LedgerError):
            tallyveil.connect(policy(tmp_path, **changed), source=raw)
    tallyveil.connect(policy(tmp_path, price={"round": True}), source=raw).close()


def test_nothing_between_two_steps_is_charged(sales: tallyveil.Connection) -> None:
    """Nor where a statement of the same shape was answered before."""
    for constant in ("9.99", "9.98"):
        sales.execute(f"SELECT count(*) FROM sale WHERE price > {constant}")
    before = sales.budget()
    with pytest.raises(BinCut, match="between two steps of price"):
        sales.execute("SELECT count(*) FROM sale WHERE price > 9.999")
    assert sales.budget() == before
