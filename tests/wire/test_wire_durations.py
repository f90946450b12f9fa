"""Intervals in steps, as clients ask for them: equal to PostgreSQL on the rounded rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

STEPS = {"range": ["0 hours", "72 hours"], "step": "15 minutes"}
ORIGIN = """
    SELECT to_days(CAST(i % 3 AS INTEGER)) + to_minutes(i * 97 % 1440) AS stay,
        ['a', 'b'][1 + i % 2] AS ward FROM range(900) t(i)
"""
RAW = """
    CREATE TABLE stays AS SELECT date_bin('15 minutes', timestamp '2000-01-01' + stay,
        timestamp '2000-01-01') - timestamp '2000-01-01' AS stay, ward
    FROM (SELECT make_interval(days => i % 3, mins => i * 97 % 1440) AS stay,
        (ARRAY['a', 'b'])[1 + i % 2] AS ward FROM generate_series(0, 899) i) t
"""
ASKED = [
    "SELECT count(*) FROM {} WHERE stay >= interval '24 hours'",
    "SELECT count(*) FROM {} WHERE stay >= '1 day' AND stay < '48:00:00'",
    "SELECT count(*) FROM {} WHERE stay BETWEEN '1 hour' AND interval '1 day 2 hours'",
    "SELECT count(*) FROM {} WHERE stay IN ('01:00', interval '25 hours') OR stay IS NULL",
    "SELECT count(*) FROM {} WHERE stay + interval '1 hour' > interval '2 days'",
    "SELECT count(*) FROM {} WHERE stay < interval '1 month'",
    "SELECT stay, count(*) FROM {} WHERE stay < '6 hours' GROUP BY stay ORDER BY stay",
    "SELECT ward, stay, count(*) FROM {} WHERE ward = 'a' GROUP BY 1, 2 ORDER BY 2 DESC, 1",
    "SELECT stay < '1 day' AS short, count(*) FROM {} GROUP BY short ORDER BY short",
    "SELECT floor(extract(epoch FROM stay) / 86400) AS day, count(*) FROM {} GROUP BY 1 ORDER BY 1",
    "SELECT ward, sum(extract(epoch FROM stay)) FROM {} GROUP BY ward ORDER BY ward",
    "SELECT count(*) FROM {} GROUP BY stay HAVING stay > '71 hours' ORDER BY stay",
]


@pytest.fixture(scope="module")
def house(serve_all: Callable[..., Any]) -> Any:
    attributes = {"stay": STEPS, "ward": {"values": ["a", "b"]}}
    return serve_all(1e4, attributes, **{"from": ORIGIN, "budget": {"epsilon": 1e6}})


@pytest.fixture(scope="module")
def connection(house: Any) -> Iterator[psycopg.Connection[Any]]:
    with house.connect() as found:
        yield found


def values(rows: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], float]:
    """The last column by the others and their place, without groups that have no records."""
    kept = [row for row in rows if row[-1]]
    return {(place, *row[:-1]): float(row[-1]) for place, row in enumerate(kept)}


@pytest.mark.parametrize("sql", ASKED)
def test_answers_are_postgresqls(
    connection: psycopg.Connection[Any], postgres: psycopg.Connection[Any], sql: str
) -> None:
    """A count has no noise at this ε; that of a sum of 10^7 seconds has a scale of 26."""
    postgres.execute("DROP TABLE IF EXISTS stays")
    postgres.execute(RAW)
    expected = values(postgres.execute(sql.format("stays")).fetchall())
    found = values(connection.execute(sql.format("person")).fetchall())
    assert found == pytest.approx(expected, abs=600 if "sum" in sql else 0)


def test_bound_durations_and_results_have_their_types(
    connection: psycopg.Connection[Any],
) -> None:
    for binary in (False, True):
        ((stay, _),) = connection.execute(
            "SELECT stay, count(*) FROM person WHERE stay = %s GROUP BY stay",
            [dt.timedelta(hours=26)],
            binary=binary,
        )
        assert stay == dt.timedelta(hours=26)


@pytest.mark.parametrize(
    ("sql", "state", "words"),
    [
        ("SELECT count(*) FROM person WHERE stay > '10 minutes'", "22023", "INTERVAL '00:15:00'"),
        ("SELECT sum(stay) FROM person", "0A000", "sum(extract(epoch"),
        ("SELECT mode() WITHIN GROUP (ORDER BY stay) FROM person", "0A000", "in seconds"),
        (
            "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY stay) FROM person",
            "0A000",
            "in seconds",
        ),
        ("SELECT avg(stay) FROM person", "0A000", "avg(extract(epoch"),
        ("SELECT extract(hour FROM stay), count(*) FROM person GROUP BY 1", "0A000", "epoch"),
        ("SELECT stay + interval '1 hour', count(*) FROM person GROUP BY 1", "0A000", "each part"),
        ("SELECT count(*) FROM person WHERE greatest(stay, '1 day') = '1 day'", "0A000", "CASE"),
        ("SELECT stay::text, count(*) FROM person GROUP BY 1", "0A000", "as text"),
    ],
)
def test_what_is_refused(
    connection: psycopg.Connection[Any], sql: str, state: str, words: str
) -> None:
    with pytest.raises(psycopg.errors.Error) as caught:
        connection.execute(sql)
    assert caught.value.sqlstate == state
    assert words in f"{caught.value} {caught.value.diag.message_hint}"


def test_the_domain_is_shown_as_durations(connection: psycopg.Connection[Any]) -> None:
    sql = "SELECT type, domain FROM dp.attributes WHERE attribute = 'stay'"
    found = connection.execute(sql).fetchone()
    assert found == ("INTERVAL", "00:00:00 to 72:00:00 in steps of 15 minutes")
