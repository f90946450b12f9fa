"""The wider surface of SQL through a client: types as PostgreSQL has them, answers as on the rows.

At this epsilon the noise is 0, to all intents.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pytest


@pytest.fixture
def exact(serve: Callable[..., Any]) -> Any:
    return serve(epsilon=20_000.0, budget={"epsilon": 1e6})


def test_an_interval_through_the_alias_of_a_common_table(house: Any) -> None:
    with house.connect() as connection:
        rows = connection.execute(
            "WITH c AS (SELECT state, count(*) AS n FROM person GROUP BY state) "
            "SELECT t.state, t.n - dp_interval_low(t.n), dp_interval_high(t.n) - t.n FROM c AS t"
        ).fetchall()
    assert sorted(rows) == [("AK", 60, 60), ("AL", 60, 60), ("WY", 60, 60)]


@pytest.mark.parametrize("factory", [psycopg.Cursor, psycopg.ClientCursor])
def test_claims_take_parameters_of_every_kind(
    house: Any, factory: type[psycopg.Cursor[Any]]
) -> None:
    """A parameter means what the number written there means, and NULL is no bound."""
    query = (
        "SELECT n, dp_stddev(n), dp_probability(n, {}, {}) FROM"
        " (SELECT count(*) AS n FROM person WHERE age < 9) AS t"
    )
    pairs: list[tuple[Any, Any]] = [
        (880, 925), (880.5, 925.5), (Decimal("880.5"), Decimal("925.5")), (None, 900),
        (900, None), (float("-inf"), 900), (900, float("inf")),
    ]  # fmt: skip
    with house.connect(cursor_factory=factory) as connection:
        found = []
        for low, high in pairs:
            cursor = connection.execute(query.format("%s", "%s"), (low, high))
            assert [column.type_code for column in cursor.description or ()] == [20, 701, 701]
            written = (
                "NULL" if end is None or math.isinf(end) else str(end) for end in (low, high)
            )
            (row,) = cursor.fetchall()
            assert connection.execute(query.format(*written).encode()).fetchall() == [row]
            found.append(row[2])
        assert found[0] > found[1] == found[2] > 0
        assert found[3] == found[5]
        assert found[4] == found[6]
        (point,) = connection.execute(query.format(900, 900).encode()).fetchall()
        assert found[3] + found[4] - point[2] == pytest.approx(1, abs=1e-8)
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute(query.format("%s", "%s"), (3, 2))
    assert house.spent() == 0.05


def test_asyncpg_learns_that_bounds_are_numbers(house: Any) -> None:
    async def ask() -> Any:
        connection = await asyncpg.connect(house.dsn)
        try:
            statement = await connection.prepare(
                "SELECT count(*) AS n, dp_probability(n, $1, $2 + 1) AS p FROM person"
            )
            kinds = [kind.name for kind in statement.get_parameters()]
            return kinds, await statement.fetchrow(8000.5, 10_000)
        finally:
            await connection.close()

    kinds, row = asyncio.run(ask())
    assert kinds == ["float8", "int4"]
    assert row["p"] == pytest.approx(1, abs=1e-6)


ASKED: list[tuple[str, tuple[Any, ...]]] = [
    (
        "SELECT v.b, count(*) FROM {} AS p JOIN (VALUES ('AL', 1), ('WY', 2)) AS v (a, b) "
        "ON v.a = p.state AND p.age < $1 AND p.sex = $2 GROUP BY v.b ORDER BY 1",
        (30, "F"),
    ),
    (
        "SELECT state, count(*) AS n FROM {} WHERE age < $1 GROUP BY state "
        "HAVING count(*) > $2 AND state <> $3 ORDER BY 1",
        (40, 100, "AK"),
    ),
    ("SELECT sum(age::bigint), avg(age) FROM {} WHERE state = $1", ("AL",)),
]


@pytest.mark.parametrize(("sql", "values"), ASKED)
def test_parameters_whose_types_nobody_declares(
    exact: Any, source: Any, sql: str, values: tuple[Any, ...]
) -> None:
    async def ask() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(exact.dsn)
        try:
            prepared = await connection.prepare(sql.format("person"))
            return [tuple(row) for row in await prepared.fetch(*values)]
        finally:
            await connection.close()

    theirs = source.execute(sql.format("people"), list(values)).fetchall()
    assert [_plain(row) for row in asyncio.run(ask())] == [_plain(row) for row in theirs]


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [f"{float(v):.9g}" if isinstance(v, int | float | Decimal) else v for v in row]
