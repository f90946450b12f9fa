"""Parameters mean what literals mean, in every way a client may send them."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy

from tests.pairs import alternately


@pytest.fixture(scope="module")
def exact(serve_all: Callable[..., Any]) -> Any:
    """At this epsilon the noise is 0, to all intents, so that answers can be compared."""
    return serve_all(epsilon=20_000.0, budget={"epsilon": 1e6})


BOUND: list[tuple[str, tuple[Any, ...], str]] = [
    ("age * 0.0001 > %s", (Decimal("0.00049"),), "age * 0.0001 > 0.00049"),
    ("age * 1.0 = %s", (Decimal("1.0004"),), "age * 1.0 = 1.0004"),
    ("age < %s", (Decimal("3.5"),), "age < 3.5"),
    ("age = %s", (30,), "age = 30"),
    ("age = %s::int", (30,), "age = 30"),
    ("age > %s", (30.5,), "age > 30.5"),
    ("sex = %s", ("F",), "sex = 'F'"),
    ("sex = %s::text", ("F",), "sex = 'F'"),
    ("sex = %s::varchar", ("F",), "sex = 'F'"),
    ("sex = cast(%s as varchar(10))", ("F",), "sex = 'F'"),
    ("married = %s", (True,), "married = true"),
    ("married = %s::boolean", ("true",), "married = true"),
    ("age = ANY(%s)", ([1, 2, 3],), "age IN (1, 2, 3)"),
    ("sex = ANY(%s)", (["F", "M"],), "sex IN ('F', 'M')"),
    ("sex = %s", (None,), "sex = NULL"),
    ("income >= %s", (15000,), "income >= 15000"),
    ("age BETWEEN %s AND %s", (10, 20), "age BETWEEN 10 AND 20"),
    ("state LIKE %s", ("A%",), "state LIKE 'A%'"),
    ("DATE '2020-01-01' + age < %s", (dt.date(2020, 1, 31),), "age < 30"),
    ("DATE '2020-01-01' + age < DATE '2020-01-01' + %s", (dt.timedelta(days=30),), "age < 30"),
    ("DATE '2020-01-01' + age < DATE '2020-01-01' + %s::interval", ("1 month",), "age < 31"),
    ("married = %s", ("ye",), "married = true"),
]


@pytest.mark.parametrize(
    ("bound", "factory"), alternately(BOUND, [psycopg.Cursor, psycopg.ClientCursor])
)
def test_a_value_bound_is_the_value_written(
    exact: Any,
    source: Any,
    bound: tuple[str, tuple[Any, ...], str],
    factory: type[psycopg.Cursor[Any]],
) -> None:
    condition, values, literal = bound
    query = f"SELECT count(*) FROM person WHERE {condition}"
    truth = source.execute(f"SELECT count(*) FROM people WHERE {literal}").fetchone()
    with exact.connect(cursor_factory=factory) as connection:
        try:
            assert connection.execute(query, values).fetchone() == truth
        except psycopg.errors.FeatureNotSupported:
            # Refused as a literal too: then the parameter must not be answered otherwise.
            written = query.replace("%s", "{}").format(*(f"'{v}'" for v in values))
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(written.encode())


def test_numbers_come_back_as_they_went(exact: Any) -> None:
    with exact.connect() as connection:
        row = connection.execute("SELECT %s, count(*) FROM person", (Decimal("0.00012345"),))
        assert float(row.fetchall()[0][0]) == 0.00012345


def test_sqlalchemy_writes_casts(exact: Any, source: Any) -> None:
    engine = sqlalchemy.create_engine(exact.dsn.replace("postgresql:", "postgresql+psycopg:"))
    person = sqlalchemy.table(
        "person", sqlalchemy.column("sex", sqlalchemy.String), sqlalchemy.column("age")
    )
    count = sqlalchemy.select(sqlalchemy.func.count()).select_from(person)
    (truth,) = source.execute("SELECT count(*) FROM people WHERE sex = 'F'").fetchone()
    with engine.connect() as connection:
        for condition in (
            person.c.sex == "F",
            person.c.sex.in_(["F", "other"]),
            person.c.sex.like("F%"),
        ):
            assert connection.execute(count.where(condition)).scalar() == truth
    engine.dispose()


def test_asyncpg_takes_types_from_casts(exact: Any, source: Any) -> None:
    (truth,) = source.execute("SELECT count(*) FROM people WHERE age = 30 AND sex = 'F'").fetchone()

    async def ask() -> Any:
        connection = await asyncpg.connect(exact.dsn)
        try:
            return await connection.fetchval(
                "SELECT count(*) FROM person WHERE age = $1::int AND sex = $2::varchar", 30, "F"
            )
        finally:
            await connection.close()

    assert asyncio.run(ask()) == truth
