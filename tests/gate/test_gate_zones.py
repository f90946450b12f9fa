"""Spellings of time zones: PostgreSQL's meaning wherever one stands, or a refusal."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tallyveil.errors import FeatureNotSupported, StatementError
from tallyveil.gate.session import GateSession
from tests.gate.test_gate_time_texts import answer, ours

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
    asked = "SELECT timestamptz '2020-07-01 12:00+00'::timestamp AS a"
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
def test_of_a_time_that_clocks_show_twice_the_later_is_meant_and_the_earlier_refused(
    ours: GateSession, postgres: psycopg.Connection[Any], zone: str, early: str, late: str, day: str
) -> None:
    """By the clock both were equal: PostgreSQL tells them apart."""
    asked = (
        "SELECT timestamptz '{}' AS a, timestamptz '{}' = date '{}' AS b, "
        "date_trunc('day', timestamptz '{}') AS c, date '{}'::timestamptz = '{}' AS d"
    )
    answer(ours, f"SET timezone = '{zone}'")
    postgres.execute(f"SET timezone = '{zone}'".encode())
    try:
        same = asked.format(late, late, day, late, day, late)
        assert answer(ours, same) == postgres.execute(same.encode()).fetchall()
        for sql in (
            f"timestamptz '{early}' = date '{day}'",
            f"date '{day}'::timestamptz = '{early}'",
        ):
            with pytest.raises(FeatureNotSupported, match="show again") as refused:
                answer(ours, f"SELECT {sql} AS a")
            assert refused.value.position == f"SELECT {sql}".index(f"'{early}'") + 1
        assert postgres.execute(f"SELECT timestamptz '{early}' < '{late}'".encode()).fetchone() == (
            True,
        )
    finally:
        answer(ours, "RESET timezone")
        postgres.execute("SET timezone = 'UTC'")
