"""Timestamps declared by the day, as clients send them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import duckdb
import psycopg
import pytest

ATTRIBUTES = {"seen": {"range": [dt.date(2020, 1, 1), dt.date(2020, 12, 31)]}}


@pytest.fixture
def house(serve: Callable[..., Any], source: duckdb.DuckDBPyConnection) -> Any:
    source.execute(
        "CREATE TABLE visits AS SELECT TIMESTAMP '2020-01-01' + INTERVAL 1 HOUR * (i % 8000) "
        "AS seen FROM range(9000) t(i)"
    )
    return serve(100.0, ATTRIBUTES, **{"from": "visits", "budget": {"epsilon": 1e5}})


@pytest.mark.parametrize("bound", [dt.datetime(2020, 3, 1, 14, 33), "2020-03-01 14:33:06"])
def test_a_bound_time_of_day_is_refused(house: Any, bound: object) -> None:
    with house.connect() as connection, pytest.raises(psycopg.errors.Error) as caught:
        connection.execute("SELECT count(*) FROM person WHERE seen < %s", [bound])
    assert caught.value.sqlstate == "22023"
    assert caught.value.diag.statement_position == "35"
    assert "2020-03-01" in (caught.value.diag.message_primary or "")
    assert house.spent() == 0


@pytest.mark.parametrize(
    "bound",
    [
        dt.datetime(2020, 3, 1), dt.date(2020, 3, 1), "2020-03-01", "2020-03-01 00:00:00",
        "2020-02-29 24:00",
    ],
)  # fmt: skip
def test_a_bound_midnight_is_answered(
    house: Any, source: duckdb.DuckDBPyConnection, bound: object
) -> None:
    truth = source.execute("SELECT count(*) FROM visits WHERE seen < '2020-03-01'").fetchone()
    with house.connect() as connection:
        found = connection.execute("SELECT count(*) FROM person WHERE seen < %s", [bound])
        assert found.fetchone() == truth
