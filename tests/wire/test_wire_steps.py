"""Times and prices in steps, as clients send and receive them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pytest

ATTRIBUTES = {
    "seen": {"range": [dt.datetime(2020, 3, 28), dt.datetime(2020, 3, 30)], "step": "15 minutes"},
    "clock": {"range": [dt.time(0), dt.time(23, 30)], "step": "30 minutes", "column": "seen"},
    "price": {"range": [0, 20], "step": 0.05},
}
VISITS = """
    CREATE TABLE visits AS SELECT seen, CAST(i % 400 AS DECIMAL(9, 2)) / 20 AS price
    FROM (SELECT i, TIMESTAMP '2020-03-28' + INTERVAL 15 MINUTE * (i % 190) AS seen
        FROM range(9000) t(i))
"""


@pytest.fixture(scope="module")
def house(serve_all: Callable[..., Any]) -> Any:
    origin = VISITS.partition(" AS ")[2]
    return serve_all(1e4, ATTRIBUTES, **{"from": origin, "budget": {"epsilon": 1e6}})


def test_bound_values_and_results_have_their_types(house: Any) -> None:
    noon, half = dt.datetime(2020, 3, 29, 12), dt.time(12, 30)
    with house.connect() as connection, duckdb.connect() as oracle:
        oracle.execute(VISITS)
        for predicate, bound in (
            ("seen < {}", noon),
            ("seen >= {}", "2020-03-29 12:00:00"),
            ("price <= {}", Decimal("4.35")),
            ("price > {}", 4),
        ):
            sql = f"SELECT count(*) FROM {{}} WHERE {predicate}"
            found = connection.execute(sql.format("person", "%s"), [bound]).fetchone()
            assert found == oracle.execute(sql.format("visits", "?"), [bound]).fetchone()
        sql = "SELECT clock, count(*) FROM person WHERE clock <= %s GROUP BY clock ORDER BY clock"
        assert connection.execute(sql, [half]).fetchall()[-1][0] == half
        for binary in (False, True):
            row = connection.execute(
                "SELECT price, seen, sum(price) FROM person WHERE seen = %s AND price < 0.1"
                " GROUP BY price, seen ORDER BY 1",
                [noon],
                binary=binary,
            ).fetchall()
            assert [value[:2] for value in row] == [
                (Decimal("0.00"), noon), (Decimal("0.05"), noon),
            ]  # fmt: skip
            assert all(isinstance(value[2], Decimal) for value in row)


@pytest.mark.parametrize("bound", [dt.datetime(2020, 3, 29, 12, 1), "2020-03-29 12:01:00"])
def test_a_bound_time_between_two_steps_is_refused(house: Any, bound: object) -> None:
    with house.connect() as connection, pytest.raises(psycopg.errors.Error) as caught:
        connection.execute("SELECT count(*) FROM person WHERE seen < %s", [bound])
    assert caught.value.sqlstate == "22023"
    assert "2020-03-29 12:15:00" in (caught.value.diag.message_hint or "")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York"])
def test_a_timestamp_is_compared_with_an_instant_in_the_sessions_zone(
    house: Any, postgres: psycopg.Connection[Any], zone: str
) -> None:
    """Clocks in Paris skip from 2 to 3 on the 29th."""
    postgres.execute("DROP TABLE IF EXISTS visits")
    postgres.execute("CREATE TABLE visits (seen timestamp)")
    with duckdb.connect() as source, postgres.cursor().copy("COPY visits FROM STDIN") as copy:
        for row in source.execute(VISITS).execute("SELECT seen FROM visits").fetchall():
            copy.write_row(row)
    with house.connect() as connection:
        for one in (connection, postgres):
            one.execute(f"SET timezone = '{zone}'")
        for instant in ("2020-03-29 01:15+00", "2020-03-29 00:45+00", "2020-03-29 03:00+02"):
            sql = f"SELECT count(*) FROM {{}} WHERE seen < timestamptz '{instant}'"
            found = connection.execute(sql.format("person")).fetchone()
            assert found == postgres.execute(sql.format("visits")).fetchone(), instant
    postgres.execute("DROP TABLE visits")
    postgres.execute("SET timezone = 'UTC'")
