"""The clients people use: psycopg's ways of binding, asyncpg, SQLAlchemy, psql."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from typing import Any

import asyncpg
import pandas as pd
import psycopg
import pytest
import sqlalchemy

COUNT = "SELECT count(*) FROM person WHERE age = 30 AND state = 'AL'"


@pytest.fixture
def answer(house: Any) -> int:
    with house.connect() as connection:
        row = connection.execute(COUNT).fetchone()
    assert row is not None
    return int(row[0])


def test_psycopg_binds_on_the_client(house: Any, answer: int) -> None:
    with psycopg.connect(house.dsn, cursor_factory=psycopg.ClientCursor) as connection:
        cursor = connection.execute(COUNT.replace("30", "%s").replace("'AL'", "%s"), (30, "AL"))
        assert cursor.fetchall() == [(answer,)]


def test_psycopg_runs_several_statements(house: Any, answer: int) -> None:
    with house.connect(cursor_factory=psycopg.ClientCursor) as connection:
        cursor = connection.execute(f"SET dp.confidence = 0.9; {COUNT}; SHOW dp.confidence")
        results = [None]
        while cursor.nextset():
            results.append(cursor.fetchall())
    assert results == [None, [(answer,)], [("0.9",)]]


def test_psycopg_pipelines(house: Any, answer: int) -> None:
    with house.connect() as connection, connection.pipeline():
        first = connection.execute(COUNT)
        second = connection.execute("SELECT 1")
        assert (first.fetchall(), second.fetchall()) == ([(answer,)], [(1,)])


def test_asyncpg_infers_and_reads_binary(house: Any, answer: int) -> None:
    async def ask() -> None:
        pool = await asyncpg.create_pool(house.dsn, min_size=1, max_size=1)
        async with pool, pool.acquire() as connection:
            assert await connection.fetchval(COUNT) == answer
            statement = await connection.prepare(
                "SELECT count(*) AS n FROM person WHERE age = $1 AND state = $2"
            )
            assert [p.name for p in statement.get_parameters()] == ["int4", "text"]
            assert [(a.name, a.type.name) for a in statement.get_attributes()] == [("n", "int8")]
            assert await statement.fetchval(30, "AL") == answer
            rows = await connection.fetch(
                "SELECT sex, married, count(*), avg(age) FROM person GROUP BY 1, 2"
            )
            assert len(rows) == 6
            assert {type(value) for value in rows[0].values()} <= {str, bool, int, float}

    asyncio.run(ask())


def test_sqlalchemy_connects_and_executes(house: Any, answer: int) -> None:
    engine = sqlalchemy.create_engine(house.dsn.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        value = connection.execute(
            sqlalchemy.text("SELECT count(*) FROM person WHERE age = :age AND state = :state"),
            {"age": 30, "state": "AL"},
        ).scalar()
        person = sqlalchemy.table("person", sqlalchemy.column("state"))
        grouped = connection.execute(
            sqlalchemy.select(person.c.state, sqlalchemy.func.count().label("n"))
            .group_by(person.c.state)
            .order_by(sqlalchemy.desc("n"))
            .limit(2)
        ).all()
    engine.dispose()
    assert value == answer
    assert len(grouped) == 2


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql(house: Any, answer: int) -> None:
    def run(*commands: str) -> subprocess.CompletedProcess[str]:
        arguments = [part for command in commands for part in ("-c", command)]
        return subprocess.run(
            ["psql", house.dsn, "-X", "-A", "-t", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = run("SET dp.confidence = 0.9", COUNT)
    assert done.stdout.splitlines() == ["SET", str(answer)]
    assert "answered from history, free" in done.stderr
    failed = run("SELECT count(*) FROM person WHERE income > 20000")
    assert failed.returncode == 1
    assert "LINE 1: SELECT count(*) FROM person WHERE income > 20000" in failed.stderr
    assert "The nearest edges are 15000 and 30000" in failed.stderr


def test_what_the_guide_says_does_not_work_yet_is_refused_free(house: Any) -> None:
    """The guide lists it; whoever makes one of these work takes it off the list."""
    with house.connect() as connection:
        for statement in (
            "SELECT table_name FROM information_schema.tables",
            "SELECT relname FROM pg_catalog.pg_class",
        ):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement)
            assert caught.value.diag.message_hint
    assert house.spent() == 0


def test_pandas_reads_a_query(house: Any, answer: int) -> None:
    url = house.dsn.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, use_native_hstore=False)
    with engine.connect() as connection:
        frame = pd.read_sql_query(sqlalchemy.text(COUNT), connection)
    engine.dispose()
    assert frame.iloc[0, 0] == answer
