"""Attributes that are instants: statements mean on the steps, in every session's time zone, what
both databases answer on the records.

On 2020-03-29 clocks are
put forward, and on 2020-10-25 back: in Berlin at two and three o'clock, in Beirut at midnight.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.errors import BinCut, FeatureNotSupported
from tallyveil.policy import parse_policy
from tests.rewriter.world import World, normal

T = dt.datetime
UTC = dt.UTC
AUTUMN = [T(2020, 10, 24, 18, tzinfo=UTC), T(2020, 10, 26, tzinfo=UTC)]
SPRING = [T(2020, 3, 28, 18, tzinfo=UTC), T(2020, 3, 30, 6, tzinfo=UTC)]
ATTRIBUTES: dict[str, Any] = {
    "seen": {"range": AUTUMN, "step": "15 minutes"},
    "came": {"range": SPRING, "step": "30 minutes", "nullable": True},
    "local": {"range": [T(2020, 3, 28, 18), T(2020, 3, 30, 6)], "step": "30 minutes"},
    "k": {"range": [0, 2]},
}
ZONES = ["UTC", "Europe/Berlin", "Asia/Beirut", "America/St_Johns", "Asia/Kolkata"]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    table = {"budget": {"epsilon": 1.0}, "attributes": ATTRIBUTES}
    domain = parse_policy({"tables": {"visit": table}}).tables["visit"].domain
    own = [random.Random(20).sample(a.cells, a.size) for a in domain.attributes]
    made = World([tuple(cells[n % len(cells)] for cells in own) for n in range(260)], domain)
    yield made
    made.close()


@pytest.fixture(scope="module")
def raw(world: World) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        world.create(connection)
        yield connection


@pytest.fixture(scope="module")
def postgres(world: World, postgres_connection: psycopg.Connection) -> Iterator[Any]:
    columns = ", ".join(f"{a.name} {a.sql_type}" for a in world.domain.attributes)
    postgres_connection.execute("DROP TABLE IF EXISTS visit")
    postgres_connection.execute(f"CREATE TABLE visit ({columns})")
    with postgres_connection.cursor().copy("COPY visit FROM STDIN") as copy:
        for row in world.rows:
            copy.write_row(row)
    yield postgres_connection
    postgres_connection.execute("SET TimeZone = 'UTC'")
    postgres_connection.execute("DROP TABLE visit")


KEYS = [
    "seen",
    "came",
    "seen::text",
    "seen::date",
    "seen::timestamp",
    "came::time",
    "came::timestamp::timestamptz",
    "came::date::timestamptz",
    "seen AT TIME ZONE 'Europe/Berlin'",
    "came AT TIME ZONE 'UTC-5:30'",
    "(came AT TIME ZONE 'America/St_Johns') AT TIME ZONE 'Europe/Berlin'",
    "to_char(seen, 'YYYY-MM-DD HH24:MI:SS')",
    "to_char(date_trunc('hour', came), 'HH24:MI')",
    "date_trunc('hour', came) + interval '1 day'",
    "date_trunc('day', came::date)",
    "extract(hour FROM date_trunc('day', seen) + interval '12 hours')::int",
    "CASE WHEN k = 1 THEN seen ELSE came END",
    "coalesce(came, timestamptz '2020-03-29 02:30')",
    "greatest(seen, timestamptz '2020-10-25 02:30')",
    "came > seen - interval '7 months'",
    *(
        f"extract({part} FROM seen)::int"
        for part in ("hour", "minute", "dow", "doy", "epoch", "week")
    ),
    *(f"extract({part} FROM came)::int" for part in ("hour", "isodow", "day", "epoch", "quarter")),
    *(f"date_trunc('{unit}', seen)" for unit in ("minute", "hour", "day", "week", "quarter")),
    *(f"date_trunc('{unit}', came)" for unit in ("hour", "day", "month", "year")),
    *(
        f"date_bin('{stride}', {name}, {origin})"
        for stride in ("30 minutes", "6 hours", "1 day")
        for name, origin in (
            ("seen", "timestamp '2001-01-01'"),
            ("came", "timestamptz '2030-01-01 00:07+00'"),
        )
    ),
    *(
        f"{name} {sign} interval '{span}'"
        for name in ("seen", "came")
        for sign in "+-"
        for span in ("24 hours", "1 day", "1 month", "1 month 2 hours", "1 day 30 minutes")
    ),
]


SHARES = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])


def share(zone: str, statements: list[str], every: bool) -> list[str]:
    """All where clocks change by an hour, and where they do not a part, another in each zone."""
    if every or zone == "Europe/Berlin":
        return statements
    return statements[ZONES.index(zone) :: len(ZONES)]


@SHARES
@pytest.mark.parametrize("zone", ZONES)
def test_groups_are_those_of_postgresql(
    world: World, postgres: Any, zone: str, every: bool
) -> None:
    _agree(world, postgres, zone, share(zone, [COUNTED.format(key) for key in KEYS], every))


COUNTED = "SELECT {}, count(*) FROM visit GROUP BY 1 HAVING count(*) > 0"
WRITTEN = [
    "{when} < '{local}'",
    "{when} >= '{local}{offset}'",
    "{when} = '{local}{offset}'::timestamptz",
    "{when} <> timestamp '{local}'",
    "{when} <= timestamptz '{local}'",
    "{when} BETWEEN '{day}' AND '{local}{offset}'",
    "{when} > date '{day}'",
    "{when} IN ('{local}', '{local}{offset}', '{day}')",
    "NOT {when} < timestamp '{local}' AT TIME ZONE 'America/New_York'",
    "{when} < timestamptz '{local}{offset}' + interval '1 day'",
    "{when} - timestamptz '{local}{offset}' < interval '2 days 3 hours'",
    "{when}::date = '{day}'",
    "{when}::timestamp < '{local}'",
    "{when}::time >= '{clock}' AND extract(dow FROM {when}) <> 3",
    "{when} AT TIME ZONE 'Europe/Berlin' >= '{local}'",
    "{when} + interval '1 day' > '{local}{offset}'",
    "date_trunc('hour', {when}) = '{local}{offset}'",
    "date_trunc('day', {when}) = date '{day}'",
    "'{local}{offset}' >= {when} OR {when} IS NULL",
    "to_char({when}, 'DD HH24:MI') = '{day:.2} {clock}'",
]


@SHARES
@pytest.mark.parametrize("zone", ZONES)
def test_predicates_count_what_they_count_in_postgresql(
    world: World, postgres: Any, zone: str, every: bool
) -> None:
    """The constants are about the changes of clocks."""
    drawn, statements = random.Random(2610), []
    for number in range(3 * len(WRITTEN)):
        name, centre = drawn.choice(
            [
                ("seen", T(2020, 10, 25, 1)),
                ("came", T(2020, 3, 29, 1)),
                ("local", T(2020, 3, 29, 1)),
            ]
        )
        local = centre + dt.timedelta(minutes=30 * drawn.randint(-9, 9))
        offset = drawn.choice(["+00", "Z", "+02", "-02:30", "+05:30", " Europe/Berlin"])
        condition = WRITTEN[number % len(WRITTEN)].format(
            when=name, local=local, offset=offset, day=f"{local.date()}", clock=f"{local:%H:%M}"
        )
        statements.append(f"SELECT count(*), count(came) FROM visit WHERE {condition}")
    _agree(world, postgres, zone, share(zone, statements, every))


def _agree(world: World, postgres: Any, zone: str, statements: list[str]) -> None:
    world.cursor.use_time_zone(zone)
    postgres.execute(f"SET TimeZone = '{zone}'")
    try:
        for sql in statements:
            expected = postgres.execute(sql, prepare=False).fetchall()
            assert normal(world.answer(sql)[1]) == normal(expected), (zone, sql)
    finally:
        world.cursor.use_time_zone("UTC")


DUCKDB = [
    "seen",
    "came + INTERVAL 1 DAY",
    "came - INTERVAL 1 MONTH",
    "date_trunc('hour', seen)",
    "date_trunc('quarter', came)",
    "time_bucket(INTERVAL '6 hours', seen)",
    "time_bucket(INTERVAL '1 day', came)",
    "strftime(seen, '%d %H:%M')",
    "hour(seen)",
    "extract(epoch FROM came)",
    "came AT TIME ZONE 'Asia/Kolkata'",
    "CAST(seen AS DATE)",
    "CAST(came AS TIMESTAMP)",
    "seen - TIMESTAMPTZ '2020-10-20 00:00+00' > INTERVAL 5 DAY",
    "seen < '2020-10-25 02:30'",
    "came >= DATE '2020-03-29'",
    "seen <> '2020-10-25 02:30:00+02'",
    "local < TIMESTAMPTZ '2020-03-29 02:30'",
    "seen IN ('2020-10-25 02:30', '2020-10-25 02:30+02')",
]


@pytest.mark.parametrize("zone", ZONES)
def test_a_statement_means_what_duckdb_answers(
    world: World, raw: duckdb.DuckDBPyConnection, zone: str
) -> None:
    world.cursor.use_time_zone(zone)
    raw.execute(f"SET TimeZone = '{zone}'")
    try:
        for key in DUCKDB:
            sql = f"SELECT CAST({key} AS VARCHAR) AS g, count(*) FROM visit GROUP BY g"
            found = normal(world.answer(sql, "duckdb")[1])
            assert found == normal(raw.execute(sql).fetchall()), (zone, key)
    finally:
        world.cursor.use_time_zone("UTC")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("extract(timezone FROM seen)", "extract.timezone. of a timestamptz"),
        ("date_trunc('day', seen, 'Asia/Tokyo')", "AT TIME ZONE"),
        ("date_bin('1 hour', k, timestamptz '2001-01-01')", "origin of the same type"),
        ("date_bin('1 hour', seen, '2001-01-01')", "this origin of date_bin"),
        ("seen + '1 day'", "its type is not known"),
        ("seen AT TIME ZONE interval '1 hour'", "with a zone's name only"),
        ("to_char(seen, 'TZ')", "this format of to_char"),
        ("nullif(CASE k WHEN 1 THEN NULL END, seen) AT TIME ZONE 'UTC-5'", "whose type is known"),
    ],
)
def test_what_is_not_answered_says_why(world: World, expression: str, message: str) -> None:
    with pytest.raises(FeatureNotSupported, match=message) as caught:
        world.answer(f"SELECT {expression} AS g, count(*) FROM visit GROUP BY 1")
    assert caught.value.position is not None or caught.value.hint


def test_a_cast_to_its_own_type_hides_no_step(world: World) -> None:
    for cast in ("seen::timestamptz", "CAST(seen AS timestamp with time zone)"):
        with pytest.raises(BinCut, match="between two steps of seen"):
            world.plan(f"SELECT count(*) FROM visit WHERE {cast} < '2020-10-25 00:07+00'")
