"""asyncpg, pg8000, and SQLAlchemy 2 with three drivers."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa

from tests.clients.conftest import BY_CITY, Served

pytestmark = pytest.mark.usefixtures("free")


def test_asyncpg(served: Served, by_city: list[Any]) -> None:
    """A pool, prepared statements, cursors, arrays as parameters, COPY."""

    async def ask() -> None:
        pool = await asyncpg.create_pool(served.url(), ssl=served.context, min_size=1, max_size=2)
        async with pool, pool.acquire() as connection:
            assert [tuple(row) for row in await connection.fetch(BY_CITY)] == by_city
            statement = await connection.prepare(
                "SELECT city, count(*) FROM patients GROUP BY city HAVING city = ANY($1) ORDER BY 1"
            )
            assert [p.name for p in statement.get_parameters()] == ["text[]"]
            rows = await statement.fetch(["Paris", "Rome"])
            assert [tuple(row) for row in rows] == by_city[1:3]
            assert await connection.fetchval("SELECT 2 = ANY($1::int[])", [1, 2])
            async with connection.transaction():
                cursor = await connection.cursor(BY_CITY)
                await cursor.forward(1)
                assert [tuple(row) for row in await cursor.fetch(9)] == by_city[1:]
            text = io.BytesIO()
            assert await connection.copy_from_query(BY_CITY, output=text) == "COPY 4"

    asyncio.run(ask())


def test_pg8000(served: Served, by_city: list[Any]) -> None:
    pg8000 = pytest.importorskip("pg8000.dbapi")
    connection = pg8000.connect(
        user="alice",
        password=served.password,
        host="localhost",
        port=served.port,
        database="tallyveil",
        ssl_context=served.context,
    )
    cursor = connection.cursor()
    cursor.execute(BY_CITY)
    assert [tuple(row) for row in cursor.fetchall()] == by_city
    asked = "SELECT city, count(*) FROM patients GROUP BY city HAVING city = ANY(%s) ORDER BY 1"
    cursor.execute(asked, (["Paris", "Rome"],))
    assert [tuple(row) for row in cursor.fetchall()] == by_city[1:3]
    connection.close()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "pg8000"])
def test_sqlalchemy(served: Served, by_city: list[Any], driver: str) -> None:
    """Core, the inspector, streamed results, and a table of schema dp."""
    pytest.importorskip(driver)
    tls = {"connect_args": {"ssl_context": served.context}} if driver == "pg8000" else {}
    address = served.url() if tls else served.dsn
    engine = sa.create_engine(address.replace("postgresql:", f"postgresql+{driver}:"), **tls)
    patients = sa.table("patients", sa.column("city"), schema="public")
    attributes = sa.table("attributes", sa.column("attribute"), schema="dp")
    asked = (
        sa.select(patients.c.city, sa.func.count().label("n"))
        .group_by(patients.c.city)
        .order_by(patients.c.city)
    )
    with engine.connect() as connection:
        assert [tuple(row) for row in connection.execute(asked)] == by_city
        assert ("age",) in connection.execute(sa.select(attributes.c.attribute)).all()
        inspector = sa.inspect(connection)
        assert inspector.get_table_names() == ["patients", "towns"]
        assert set(inspector.get_view_names()) == {"adults", "by_city"}
        assert "dp" in inspector.get_schema_names()
    with engine.connect() as connection:
        streamed = connection.execution_options(stream_results=True, max_row_buffer=2)
        assert [tuple(row) for row in streamed.execute(asked)] == by_city
        # Its questions about the catalogs go through cursors then, too.
        assert sa.inspect(streamed).get_table_names() == ["patients", "towns"]
    engine.dispose()
