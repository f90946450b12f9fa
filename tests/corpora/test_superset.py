"""Superset's charts and filter boxes over the wire: what it sends is answered as DuckDB answers.

``superset.sql`` has the statements with their verdicts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

import tallyveil
from tallyveil.proxy import Server, ServerThread
from tests.corpora.compare import same_rows
from tests.corpora.house import House, Silent, silent

_PEOPLE = """
    CREATE TABLE people AS SELECT
        ['AL', 'AK', 'WY'][1 + i % 3] AS state, (i * 7) % 90 AS age,
        CASE WHEN i % 11 = 0 THEN NULL WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
        ['none', 'school', 'college'][1 + i % 5 % 3] AS education,
        DATE '2020-01-01' + CAST(i % 91 AS INTEGER) AS moved
    FROM range(3000) t(i)
"""
_ATTRIBUTES: dict[str, Any] = {
    "state": {"values": ["AL", "AK", "WY"]},
    "age": {"range": [0, 115]},
    "sex": {"values": ["F", "M"], "nullable": True},
    "education": {"values": ["none", "school", "college"]},
    "moved": {"range": [dt.date(2020, 1, 1), dt.date(2020, 3, 31)]},
}


def _cases() -> list[tuple[str, str]]:
    """(statement, verdict)"""
    text = Path(__file__).with_name("superset.sql").read_text()
    found = []
    for block in text.strip().split("\n\n")[1:]:
        statement, verdict = block.rsplit("\n-- ", 1)
        found.append((statement, verdict))
    return found


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(_PEOPLE)
        # PostgreSQL's; the statements write YYYY-MM-DD, as a cast reads it.
        connection.execute("CREATE MACRO to_date(t, pattern) AS CAST(t AS DATE)")
        connection.execute("CREATE SCHEMA public; CREATE VIEW public.people AS FROM main.people")
        yield connection


@pytest.fixture(scope="module")
def client(
    raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[psycopg.Connection]:
    declared = {"people": {"budget": {"epsilon": 3}, "attributes": _ATTRIBUTES}}
    policy = tallyveil.parse_policy({"tables": declared}, base=tmp_path_factory.mktemp("superset"))
    with silent():
        house = House(policy, raw)
        server = ServerThread(Server(house.gate.session, port=0))
        server.start()
        dsn = f"postgresql://alice@127.0.0.1:{server.port}/people"
        with psycopg.connect(
            dsn, autocommit=True, options=f"-cdp.mechanism={Silent.name}"
        ) as connection:
            yield connection
        server.close()
        house.close()


@pytest.mark.parametrize(("statement", "verdict"), _cases())
def test_verdict(
    client: psycopg.Connection, raw: duckdb.DuckDBPyConnection, statement: str, verdict: str
) -> None:
    if verdict != "answered":
        with pytest.raises(psycopg.Error) as caught:
            client.execute(statement)
        diag = caught.value.diag
        assert f"refused {diag.sqlstate} {diag.message_primary}" == verdict
        return
    cursor = client.execute(statement)
    if "people" in statement:
        assert same_rows(cursor.fetchall(), raw.execute(statement).fetchall(), ordered=False)


def test_a_dashboard_that_is_loaded_again_is_free(client: psycopg.Connection) -> None:
    """Superset asks everything twice, and again whenever somebody looks."""
    asked = [statement for statement, verdict in _cases() if verdict == "answered"]
    for statement in asked:
        client.execute(statement)
    before = client.execute("SELECT spent FROM dp.budget").fetchall()
    for statement in asked:
        client.execute(statement)
    assert client.execute("SELECT spent FROM dp.budget").fetchall() == before
