"""Spellings of time zones: PostgreSQL's meaning wherever one stands, or a refusal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import psycopg
import pytest

import tallyveil
from tallyveil.errors import FeatureNotSupported, StatementError
from tallyveil.gate import Gate
from tallyveil.gate.session import GateSession
from tests.gate.test_gate_time_texts import answer, ours
from tests.pairs import one_in

__all__ = ["ours"]  # a fixture

NAMES = ["America/New_York", "us/eastern", "etc/gmt+5", "EST5EDT", "est5edt", "GMT0", "zulu", "Z"]
ABBREVIATIONS = ["est", "EST", "EDT", "PST", "HST", "BST", "CET", "cest", "EET", "MET", "WET"]
OFFSETS = ["+05", "-5", "+5", "-0", "+05:30", "-14", "+15:59", "UTC+3", "utc-3", "GMT+5", "UTC0",
           "UTC+05:30", "utc+3:30", "UTC+3:15:20"]  # fmt: skip
BARE = ["5", "05", "0", "16"]

SHOWN = "SELECT timestamptz '2020-07-01 12:00+00' AT TIME ZONE '{}' AS a"
MEANT = "SELECT timestamp '2020-07-01 12:00' AT TIME ZONE '{}' AS a"
TEXT = "SELECT timestamptz '2020-07-01 12:00 {}' AS a"
BESIDE = "SELECT timestamptz '2020-07-01 12:00{}' AS a, timestamp '2020-07-01 12:00{}' AS b"


@pytest.mark.parametrize("zone", NAMES + ABBREVIATIONS + OFFSETS + BARE)
def test_a_zone_means_what_postgresql_means(
    ours: GateSession, postgres: psycopg.Connection[Any], zone: str
) -> None:
    for sql in (SHOWN, MEANT, *(() if zone in BARE else (TEXT, BESIDE))):
        written = sql.format(zone, zone)
        assert answer(ours, written) == postgres.execute(written.encode()).fetchall(), written


@pytest.mark.parametrize("zone", ["EST", "+05", "-5", "UTC+3", "gmt-3", "us/eastern", "GMT0", "7"])
def test_a_session_has_the_zone_that_postgresql_has(
    ours: GateSession, postgres: psycopg.Connection[Any], zone: str
) -> None:
    asked = "SELECT (timestamptz '2020-07-01 12:00+00')::timestamp AS a"
    for form in ("SET TIME ZONE '{}'", "SET timezone = '{}'"):
        postgres.execute(form.format(zone).encode())
        answer(ours, form.format(zone))
        assert answer(ours, asked) == postgres.execute(asked.encode()).fetchall()
        answer(ours, "RESET timezone")
        postgres.execute("SET timezone = 'UTC'")


@pytest.mark.parametrize("zone", ["nowhere", "XYZ3", "FOO-2BAR", "5.5", "+25", "IST"])
def test_another_zone_is_refused_with_what_to_write(ours: GateSession, zone: str) -> None:
    """PostgreSQL takes all but the first, some by its settings."""
    sql = SHOWN.format(zone)
    with pytest.raises(StatementError, match="not recognized") as refused:
        answer(ours, sql)
    assert refused.value.sqlstate == "22023"
    assert "UTC-5" in (refused.value.hint or "")
    assert refused.value.position == sql.index(f"'{zone}'") + 1
    with pytest.raises(StatementError, match="invalid value") as kept:
        answer(ours, f"SET TIME ZONE '{zone}x'")
    assert "UTC-5" in (kept.value.hint or "")


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("timestamp '2020-01-01' AT TIME ZONE interval '5 hours'", "'UTC-5'"),
        ("date_trunc('day', now(), 'Asia/Tokyo')", "AT TIME ZONE"),
    ],
)
def test_a_zone_in_another_form_is_refused_with_what_to_write(
    ours: GateSession, expression: str, hint: str
) -> None:
    with pytest.raises(FeatureNotSupported, match=r"(?i)time zone") as refused:
        answer(ours, f"SELECT {expression} AS a")
    assert hint in (refused.value.hint or "")


REPEATED = [
    ("America/Havana", "2020-11-01 04:30+00", "2020-11-01 05:30+00", "2020-11-01"),
    ("America/Havana", "2020-11-01 00:00-04", "2020-11-01 00:00-05", "2020-11-01"),
    ("Asia/Beirut", "2020-10-24 20:30+00", "2020-10-24 22:00+00", "2020-10-25"),
    ("America/Asuncion", "2020-03-22 02:30 UTC", "2020-03-22 03:30 UTC", "2020-03-21"),
    ("Europe/Berlin", "2020-10-25 02:30 CEST", "2020-10-25 02:30 CET", "2020-10-25"),
]


@pytest.mark.parametrize(("zone", "early", "late", "day"), REPEATED)
def test_a_time_that_clocks_show_twice_is_two_instants(
    ours: GateSession, postgres: psycopg.Connection[Any], zone: str, early: str, late: str, day: str
) -> None:
    """Without an offset it is the later one. Python's own comparison ignores which one it is."""
    asked = (
        "SELECT (timestamptz '{0}')::text AS a, timestamptz '{0}' = date '{1}' AS b, "
        "date_trunc('day', timestamptz '{0}')::text AS c, (date '{1}')::timestamptz = '{0}' AS d, "
        "date_trunc('hour', timestamptz '{0}')::text AS e, (timestamptz '{0}')::timestamp AS f, "
        "(timestamptz '{0}')::timestamp::timestamptz::text AS g, "
        "extract(epoch FROM timestamptz '{0}' - interval '1 day 1 hour') AS h, "
        "timestamptz '{0}' < '{2}' AS i"
    )
    answer(ours, f"SET timezone = '{zone}'")
    postgres.execute(f"SET timezone = '{zone}'".encode())
    try:
        for one in (early, late):
            sql = asked.format(one, day, late)
            assert answer(ours, sql) == postgres.execute(sql.encode()).fetchall()
    finally:
        answer(ours, "RESET timezone")
        postgres.execute("SET timezone = 'UTC'")


AROUND = (-1, 0, 1)
LEFT_OUT = [
    ("America/Havana", "2020-03-08", "-05", "-04"),
    ("Asia/Beirut", "2020-03-29", "+02", "+03"),
    ("Asia/Gaza", "2020-03-28", "+02", "+03"),
    ("America/Santiago", "2020-09-06", "-04", "-03"),
    ("America/Asuncion", "2020-10-04", "-04", "-03"),
]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateSession]:
    """The days about a midnight that clocks leave out, once each."""
    listed = [
        dt.date.fromisoformat(day) + dt.timedelta(n) for _, day, *_ in LEFT_OUT for n in AROUND
    ]
    range_ = {"range": [min(listed), max(listed)]}
    table = {"budget": {"epsilon": 1e6}, "attributes": {"day": range_}}
    declared = {"tables": {"person": table}, "public": {"known": {"from": "person"}}}
    with duckdb.connect() as source:
        source.execute("CREATE TABLE person (day DATE)")
        source.executemany("INSERT INTO person VALUES (?)", [[day] for day in listed])
        folder = tmp_path_factory.mktemp("days")
        gate = Gate(tallyveil.parse_policy(declared, base=folder), source)
        session = gate.session("alice", "db", "postgres")
        answer(session, "SET dp.epsilon = 60")  # which leaves no noise to speak of
        yield session
        gate.close()


@pytest.mark.parametrize(("zone", "day", "before", "after"), one_in(2, LEFT_OUT))
def test_a_midnight_that_clocks_leave_out_is_compared_as_by_postgresql(
    days: GateSession,
    postgres: psycopg.Connection[Any],
    zone: str,
    day: str,
    before: str,
    after: str,
) -> None:
    listed = "(VALUES {}) AS person (day)".format(
        ", ".join(f"(date '{each}' + {n})" for _, each, *_ in LEFT_OUT for n in AROUND)
    )
    answer(days, f"SET timezone = '{zone}'")
    postgres.execute(f"SET timezone = '{zone}'".encode())
    try:
        for instant in (
            f"{day} 01:00{after}",
            f"{day} 00:00{after}",
            f"{day} 00:00",
            f"{day} 00:30",
        ):
            for asked in (
                f"day = timestamptz '{instant}'",
                f"day >= timestamptz '{instant}'",
                f"timestamptz '{instant}' > day::timestamp",
                f"day::timestamptz < timestamp '{instant[:16]}'",
                f"day IN (timestamptz '{instant}')",
                f"timestamp '{instant[:16]}' = timestamptz '{day} 00:00{before}'",
            ):
                sql = f"SELECT count(*) AS n FROM {{}} WHERE {asked}"
                found = postgres.execute(sql.format(listed).encode()).fetchall()
                assert answer(days, sql.format("person")) == found, (zone, asked)
                assert answer(days, sql.format("known")) == found, (zone, asked)
    finally:
        answer(days, "RESET timezone")
        postgres.execute("SET timezone = 'UTC'")
