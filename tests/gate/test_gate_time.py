"""Dashboards ask about the last days: the time is a constant of each statement."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable

import duckdb
import pytest

import tallyveil
from tallyveil.gate import planning


@pytest.fixture
def visits(
    source: duckdb.DuckDBPyConnection, connect: Callable[..., tallyveil.Connection]
) -> tallyveil.Connection:
    source.execute(
        "CREATE TABLE visits AS SELECT DATE '2020-01-01' + CAST(i % 60 AS INTEGER) AS day "
        "FROM range(3000) t(i)"
    )
    days = {"day": {"range": [dt.date(2020, 1, 1), dt.date(2020, 2, 29)]}}
    return connect(**{"from": "visits", "attributes": days})


LAST_DAYS = "SELECT count(*) FROM person WHERE day >= date_trunc('day', now()) - INTERVAL 9 DAY"


def test_a_later_day_is_another_question_and_the_same_day_is_free(
    visits: tallyveil.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = []
    for moment in ("2020-01-20 08:00", "2020-01-20 20:00", "2020-01-21 08:00"):
        monkeypatch.setattr(
            planning, "local_now", lambda zone, at=moment: dt.datetime.fromisoformat(at)
        )
        for sql in (LAST_DAYS, "SELECT count(*) FROM person WHERE day < current_date - 9"):
            visits.execute(sql).fetchall()
        spent.append(visits.budget()[0]["spent"])
    assert 0 < spent[0] == spent[1] < spent[2]


def test_a_plan_is_kept_no_longer_than_it_holds(
    visits: tallyveil.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = visits._gate.plans
    visits.execute(LAST_DAYS)
    assert not any(LAST_DAYS in key for key in plans.held() if isinstance(key, tuple))
    monkeypatch.setattr(planning, "local_now", lambda zone: dt.datetime(2020, 1, 3))
    assert visits.execute("SELECT current_date").fetchone() == (dt.date(2020, 1, 3),)
    monkeypatch.setattr(planning, "local_now", lambda zone: dt.datetime(2020, 1, 4))
    assert visits.execute("SELECT current_date").fetchone() == (dt.date(2020, 1, 4),)


def test_the_day_is_that_of_the_session_s_time_zone(visits: tallyveil.Connection) -> None:
    days = set()
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        visits.execute(f"SET TimeZone = '{zone}'")
        local = dt.datetime.now(zoneinfo.ZoneInfo(zone)).date()
        ((day, now),) = visits.execute("SELECT current_date, CAST(now() AS DATE)").fetchall()
        assert local <= day == now <= dt.datetime.now(zoneinfo.ZoneInfo(zone)).date()
        days.add(day)
    assert len(days) == 2
