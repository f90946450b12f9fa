"""psycopg 3 and psycopg2."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import psycopg
import pytest
from psycopg import sql as compose

from tests.clients.conftest import BY_CITY, Served

pytestmark = pytest.mark.usefixtures("free")


def test_psycopg(served: Served, by_city: list[Any]) -> None:
    """Binding by server and client, binary, named cursors, COPY, notices, arrays, protocol 3.2."""
    with psycopg.connect(served.dsn + "&max_protocol_version=latest") as connection:
        heard: list[str] = []
        connection.add_notice_handler(lambda said: heard.append(said.message_primary or ""))
        assert connection.execute(BY_CITY).fetchall() == by_city
        assert heard[0].startswith("answered from history, free")
        asked = "SELECT city, count(*) FROM patients GROUP BY city HAVING city = ANY(%s) ORDER BY 1"
        for binary in (False, True):
            cursor = connection.execute(asked, (["Paris", "Rome"],), binary=binary)
            assert cursor.fetchall() == by_city[1:3]
        with connection.cursor("named", binary=True) as named:
            named.itersize = 2
            assert list(named.execute(BY_CITY)) == by_city
        with connection.cursor().copy(f"COPY ({BY_CITY}) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8"])
            assert list(copy.rows()) == by_city
        assert connection.execute("SELECT %b::int[]", ([1, None, 3],)).fetchone() == ([1, None, 3],)
    with psycopg.connect(served.dsn, cursor_factory=psycopg.ClientCursor) as connection:
        composed = compose.SQL(BY_CITY.replace("patients", "{}")).format(
            compose.Identifier("public", "patients")
        )
        assert connection.execute(composed).fetchall() == by_city


def test_psycopg_async_pipeline_and_cancel(served: Served, by_city: list[Any]) -> None:
    async def ask() -> None:
        connect = psycopg.AsyncConnection.connect
        async with await connect(served.dsn, autocommit=True) as connection:
            await connection.cancel_safe()
            async with connection.pipeline():
                cursors = [await connection.execute(BY_CITY) for _ in range(4)]
            assert [await cursor.fetchall() for cursor in cursors] == [by_city] * 4

    asyncio.run(ask())


def test_psycopg2(served: Served, by_city: list[Any]) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    connection = psycopg2.connect(served.dsn)
    cursor = connection.cursor()
    cursor.execute(BY_CITY)
    assert cursor.fetchall() == by_city
    cursor.execute("SELECT 3 = ANY(%s), %s::date", ([1, 3], "2024-02-29"))
    assert str(cursor.fetchone()[1]) == "2024-02-29"
    named = connection.cursor("named", scrollable=True)
    named.itersize = 2
    named.execute(BY_CITY)
    assert list(named) == by_city
    named.scroll(1, mode="absolute")
    assert named.fetchone() == by_city[1]
    text = io.StringIO()
    cursor.copy_expert(f"COPY ({BY_CITY}) TO STDOUT CSV HEADER", text)
    assert text.getvalue().splitlines()[1] == f"{by_city[0][0]},{by_city[0][1]}"
    assert "answered from history, free" in connection.notices[0]
    connection.close()
