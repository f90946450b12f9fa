"""Dates as BI tools write them in filters and groups: answered as PostgreSQL answers on the rows.

Each list is in the words of one tool. ``moved`` is a date, ``seen`` a timestamp that the policy
counts by the day.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import psycopg
import pytest

import tallyveil
from tallyveil.proxy import Server, ServerThread
from tests.corpora.compare import same_rows
from tests.corpora.house import House, Silent, silent

_ROWS = """CREATE TABLE people AS SELECT
    CASE i % 3 WHEN 0 THEN 'AL' WHEN 1 THEN 'AK' ELSE 'WY' END AS state,
    DATE '2020-01-01' + CAST(i % 91 AS INTEGER) AS moved,
    TIMESTAMP '2020-01-01 00:00' + i * INTERVAL '2610 seconds' AS seen
    FROM {series} t(i)"""
_DAYS = {"range": [dt.date(2020, 1, 1), dt.date(2020, 3, 31)]}
_ATTRIBUTES = {"state": {"values": ["AL", "AK", "WY"]}, "moved": _DAYS, "seen": _DAYS}

SUPERSET = [
    """SELECT DATE_TRUNC('WEEK', seen) AS seen, COUNT(*) AS count FROM public.people
       WHERE seen >= TO_TIMESTAMP('2020-01-15 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
       AND seen < TO_TIMESTAMP('2020-03-15 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
       GROUP BY DATE_TRUNC('WEEK', seen) ORDER BY count DESC LIMIT 1000""",
    "SELECT count(*) FROM people WHERE moved >= TO_DATE('2020-02-01', 'YYYY-MM-DD')",
    "SELECT DATE_TRUNC('QUARTER', moved) AS moved, count(*) FROM people GROUP BY 1",
]
METABASE = [
    """SELECT CAST(DATE_TRUNC('month', "public"."people"."moved") AS date) AS "moved",
       COUNT(*) AS "count" FROM "public"."people"
       WHERE ("public"."people"."moved" >= date '2020-01-10')
       AND ("public"."people"."moved" < date '2020-03-10')
       GROUP BY CAST(DATE_TRUNC('month', "public"."people"."moved") AS date)
       ORDER BY CAST(DATE_TRUNC('month', "public"."people"."moved") AS date) ASC""",
    """SELECT (CAST(DATE_TRUNC('week', ("public"."people"."moved" + (INTERVAL '1 day')))
       AS timestamp) + (INTERVAL '-1 day')) AS "moved", COUNT(*)
       FROM "public"."people" GROUP BY 1""",
    """SELECT COUNT(*) FROM people WHERE "public"."people"."seen"
       >= timestamp with time zone '2020-02-01 00:00:00.000Z'""",
    "SELECT COUNT(*) FROM people WHERE moved >= CAST((NOW() + INTERVAL '-30 day') AS date)",
    "SELECT COUNT(*) FROM people WHERE seen < DATE_TRUNC('month', NOW())",
    "SELECT CAST(extract(dow from moved) AS integer) + 1 AS d, count(*) FROM people GROUP BY 1",
]
TABLEAU = [
    """SELECT DATE_TRUNC( 'MONTH', CAST("people"."seen" AS DATE) ) AS "tmn:seen:ok",
       COUNT(1) AS "cnt:ok" FROM "public"."people" "people"
       WHERE (("people"."moved" >= (DATE '2020-02-01'))
       AND ("people"."moved" <= (DATE '2020-03-31')))
       GROUP BY 1""",
    """SELECT SUM(1) AS "n", CAST(DATE_TRUNC('QUARTER', CAST("people"."seen" AS TIMESTAMP)) AS DATE)
       AS "q" FROM "public"."people" "people"
       WHERE (("people"."seen" >= (TIMESTAMP '2020-02-01 00:00:00.000'))
       AND ("people"."seen" < (TIMESTAMP '2020-03-31 00:00:00.000'))) GROUP BY 2""",
    """SELECT CAST(EXTRACT(YEAR FROM "people"."moved") AS BIGINT) AS "yr:moved:ok", COUNT(1)
       FROM "public"."people" "people" GROUP BY 1 HAVING (COUNT(1) > 0)""",
]
POWER_BI = [
    """select "rows"."state" as "state", count(1) as "a0" from ( select "_"."state", "_"."moved"
       from "public"."people" "_" where "_"."moved" >= date '2020-02-01'
       and "_"."moved" < date '2020-03-01' ) "rows" group by "state" limit 1000001""",
    """select "_"."state" as "c1", count(*) as "a0" from ( select "state", "seen"
       from "public"."people" ) "_" where "_"."seen" >= timestamp '2020-02-01 00:00:00'
       group by "_"."state" limit 1000001""",
]
GRAFANA = [
    """SELECT state, count(*) FROM people WHERE seen >= '2020-02-01T00:00:00Z'
       AND seen < '2020-03-01T00:00:00Z' GROUP BY state ORDER BY 1""",
    """SELECT floor(extract(epoch from moved)/86400)*86400 AS "time", count(*) AS value
       FROM people WHERE moved BETWEEN '2020-02-01T00:00:00Z' AND '2020-02-20T00:00:00Z'
       GROUP BY 1 ORDER BY 1""",
]
OTHERS = [
    "SELECT DATE(seen), count(*) FROM people WHERE DATE(seen) < '2020-01-20' GROUP BY DATE(seen)",
    "SELECT date(moved) AS d, count(*) FROM people GROUP BY date(moved)",
    "SELECT seen::date AS d, count(*) FROM people GROUP BY seen::date",
    "SELECT count(*) FROM people WHERE seen::timestamp >= '2020-02-01'::timestamp",
    "SELECT count(*) FROM people WHERE CAST(CAST(seen AS timestamp) AS date) = '2020-02-01'",
    "SELECT date_part('month', seen) AS m, count(*) FROM people GROUP BY m",
    "SELECT EXTRACT(ISODOW FROM (seen)::timestamp without time zone), count(*) FROM people"
    " GROUP BY 1",
    "SELECT count(*) FROM people WHERE moved IN ('2020-03-01', '2020-03-02')",
    "SELECT count(*) FROM people WHERE moved <= current_date - interval '3 months'",
    "SELECT to_char(moved, 'YYYY-MM') AS m, count(*) FROM people GROUP BY 1",
]
TOOLS = [*SUPERSET, *METABASE, *TABLEAU, *POWER_BI, *GRAFANA, *OTHERS]

REFUSED = {
    "SELECT count(*) FROM people WHERE seen <= '2020-02-01'": "22023",
    "SELECT count(*) FROM people WHERE seen::timestamp <= '2020-02-01'": "22023",
    "SELECT seen::timestamp, count(*) FROM people GROUP BY 1": "22023",
    "SELECT extract(hour FROM seen::timestamp), count(*) FROM people GROUP BY 1": "22023",
    "SELECT count(*) FROM people WHERE seen >= TO_TIMESTAMP('2020-02-01 00:00:00.5',"
    " 'YYYY-MM-DD HH24:MI:SS.US')": "22023",
}


@pytest.fixture(scope="module")
def theirs(postgres: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    postgres.execute(_ROWS.format(series="generate_series(0, 2999)").encode())
    yield postgres
    postgres.execute("DROP TABLE people")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection[Any]]:
    declared = {"people": {"budget": {"epsilon": 3}, "attributes": _ATTRIBUTES}}
    policy = tallyveil.parse_policy({"tables": declared}, base=tmp_path_factory.mktemp("dates"))
    with silent(), duckdb.connect() as source:
        source.execute(_ROWS.format(series="range(3000)"))
        house = House(policy, source)
        server = ServerThread(Server(house.gate.session, port=0))
        server.start()
        dsn = f"postgresql://alice@127.0.0.1:{server.port}/people"
        options = f"-cdp.mechanism={Silent.name}"
        with psycopg.connect(dsn, autocommit=True, options=options) as connection:
            yield connection
        server.close()
        house.close()


def test_dates_are_postgresqls(
    ours: psycopg.Connection[Any], theirs: psycopg.Connection[Any]
) -> None:
    other = []
    for statement in TOOLS:
        found, wanted = (one.execute(statement.encode()) for one in (ours, theirs))
        names = [[column.name for column in one.description or ()] for one in (found, wanted)]
        if names[0] != names[1] or not same_rows(
            found.fetchall(), wanted.fetchall(), ordered=False
        ):
            other.append(statement)
    assert other == []


@pytest.mark.parametrize("statement", REFUSED)
def test_a_time_within_a_day_is_refused(ours: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        ours.execute(statement.encode())
    assert caught.value.sqlstate == REFUSED[statement]
