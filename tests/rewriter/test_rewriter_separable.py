"""Sums whose parts mention different attributes are answered where together they tie too much."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

import duckdb
import pytest

from tallyveil.errors import InvalidParameterValue, StatementError
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter import Dialect
from tests.pairs import alternately
from tests.rewriter.world import World, normal

_DAYS = tuple(dt.date(2010, 1, 1) + dt.timedelta(days=n) for n in range(3000))

WIDE = Domain(
    "t",
    (
        Attribute("g", "values", "VARCHAR", ("x", "y", "z")),
        Attribute("a", "range", "INTEGER", tuple(range(3000))),
        Attribute("b", "range", "INTEGER", (*range(3000), None), null_cell=3000),
        Attribute("c", "range", "INTEGER", (*range(5), None), null_cell=5),
        Attribute("d", "range", "DATE", _DAYS),
        Attribute("e", "range", "DATE", (*_DAYS, None), null_cell=len(_DAYS)),
    ),
)

ANSWERED = """
SELECT g, sum(a) + sum(b) FROM t GROUP BY g
SELECT g, sum(a + b) FROM t GROUP BY g
SELECT sum(a) - 2 * sum(b) + 3 FROM t
SELECT sum(a - 2 * b + 3) FROM t
SELECT sum(3 - (b - a) * 2 - (c + 1)) FROM t
SELECT sum(a + b - a + coalesce(c, 2)) FROM t
SELECT sum(a * c + b) FROM t
SELECT g, avg(a + b) FROM t GROUP BY g
SELECT sum(a + b) FILTER (WHERE c > 2 AND g <> 'x') FROM t
SELECT sum(a + b), count(*) FROM t WHERE c = 1 AND a > 300
SELECT sum(a + b) + sum(c) FROM t
SELECT g, count(a + b), count(b - a) FILTER (WHERE c = 0) FROM t GROUP BY g
SELECT g FROM t GROUP BY g HAVING sum(a + b) > 450000
SELECT sum(CASE WHEN a > 1500 THEN 1 END + b) FROM t
SELECT sum(e - d), sum(2 * (d - e) + a), count(e - d) FROM t
SELECT g, avg(d + 3 - e), sum(d - (e - 7)) FROM t GROUP BY g
""".strip().splitlines()


@pytest.fixture(scope="module")
def wide() -> Iterator[World]:
    source = random.Random(13)
    rows = [
        (
            source.choice("xyz"),
            source.randrange(3000),
            source.choice([None, *range(9)]) if n % 3 else source.randrange(3000),
            source.choice([0, 1, 2, 3, 4, None]),
            source.choice(_DAYS),
            source.choice([*_DAYS[::100], None]),
        )
        for n in range(300)
    ]
    made = World(rows, WIDE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def raw(wide: World) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        wide.create(connection)
        yield connection


@pytest.mark.parametrize(
    ("sql", "dialect"),
    alternately(ANSWERED, ["postgres", "duckdb"]),
)
def test_the_parts_add_up_to_the_whole(
    wide: World, raw: duckdb.DuckDBPyConnection, sql: str, dialect: Dialect
) -> None:
    assert normal(wide.answer(sql, dialect)[1]) == normal(raw.execute(sql).fetchall())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(a * b) FROM t",
        "SELECT count(*) FROM t WHERE a + b > 10",
    ],
)
def test_what_has_no_parts_is_refused(wide: World, sql: str) -> None:
    with pytest.raises(InvalidParameterValue, match="combines"):
        wide.plan(sql)


@pytest.mark.parametrize("argument", ["d + e", "2 * d - e", "d + e - d", "a - d", "-d + e + d"])
def test_what_is_no_number_of_days_is_refused(wide: World, argument: str) -> None:
    with pytest.raises(StatementError):
        wide.plan(f"SELECT sum({argument}) FROM t")


def test_what_is_small_stays_one_question(wide: World) -> None:
    """One draw of noise serves it."""
    plan = wide.plan("SELECT sum(a) + sum(c), sum(a + c) FROM t")
    assert [len(table.outputs) for table in plan.noisy] == [2]


def test_a_sum_that_is_split_has_few_parts() -> None:
    """Each draws noise of its own."""
    domain = Domain("t", tuple(Attribute(f"a{n}", "range", "INTEGER", (0, 1)) for n in range(33)))
    many = World([tuple(n >> place & 1 for place in range(33)) for n in (0, 5, 2**33 - 1)], domain)
    sql = f"SELECT sum({' + '.join(domain.names)}) FROM t"
    assert [len(table.outputs) for table in many.plan(sql).noisy] == [2]
    assert normal(many.answer(sql, "duckdb")[1]) == normal([(35,)])
    many.close()
