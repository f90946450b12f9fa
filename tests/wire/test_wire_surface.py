"""The wider surface of SQL through a client: types as PostgreSQL has them, answers as on the rows.

At this epsilon the noise is 0, to all intents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import asyncpg
import pytest


@pytest.fixture
def exact(serve: Callable[..., Any]) -> Any:
    return serve(epsilon=1000.0, budget={"epsilon": 100000.0})


def test_variance_and_deviation(exact: Any, source: Any) -> None:
    select = "SELECT sex, var_pop(age), stddev(age) FROM {} WHERE age < 80 GROUP BY sex ORDER BY 1"
    theirs = source.execute(select.format("people")).fetchall()
    with exact.connect() as connection:
        ours = connection.execute(select.format("person")).fetchall()
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    for row, truth in zip(ours, theirs, strict=True):
        # The squares' noise has a scale of about 10, where 1e-3 of their sum is about 2000.
        assert [float(v) for v in row[1:]] == pytest.approx(truth[1:], rel=1e-3)


def test_grouping_tells_the_rows_of_a_rollup_apart(exact: Any, source: Any) -> None:
    select = (
        "SELECT grouping(sex, state), sex, state, count(*) FROM {} WHERE age < 40 "
        "GROUP BY ROLLUP (sex, state) ORDER BY 1, 2, 3"
    )
    with exact.connect() as connection:
        ours = connection.execute(select.format("person")).fetchall()
    assert ours == source.execute(select.format("people")).fetchall()


def test_an_interval_through_the_alias_of_a_common_table(house: Any) -> None:
    with house.connect() as connection:
        rows = connection.execute(
            "WITH c AS (SELECT state, count(*) AS n FROM person GROUP BY state) "
            "SELECT t.state, t.n - dp_interval_low(t.n), dp_interval_high(t.n) - t.n FROM c AS t"
        ).fetchall()
    assert sorted(rows) == [("AK", 60, 60), ("AL", 60, 60), ("WY", 60, 60)]


def test_a_subquery_about_the_record(exact: Any, source: Any) -> None:
    values = "(VALUES ('AL', 30), ('WY', 60)) AS v (s, a)"
    select = (
        f"SELECT sex, count(*) FROM {{0}} WHERE EXISTS (SELECT 1 FROM {values} "
        "WHERE v.s = {0}.state AND v.a > {0}.age) GROUP BY sex ORDER BY 1"
    )
    with exact.connect() as connection:
        ours = connection.execute(select.format("person")).fetchall()
    assert ours == source.execute(select.format("people")).fetchall()


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
