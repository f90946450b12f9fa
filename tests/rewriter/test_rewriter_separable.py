"""Sums of different attributes are answered where an expression over all of them is too large."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

import duckdb
import pytest

from tallyveil.errors import InvalidParameterValue
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter import Dialect
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
SELECT sum(a) - 2 * sum(b) + 3 FROM t
SELECT sum(a) + sum(b) + sum(c) FROM t
SELECT g, 1.0 * (sum(a) + sum(b)) / count(*) FROM t WHERE b IS NOT NULL GROUP BY g
SELECT g FROM t GROUP BY g HAVING sum(a) + sum(b) > 450000
SELECT sum(e - DATE '2010-01-01') - sum(d - DATE '2010-01-01') FROM t WHERE e IS NOT NULL
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


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
@pytest.mark.parametrize("sql", ANSWERED)
def test_sums_of_single_attributes_are_combined(
    wide: World, raw: duckdb.DuckDBPyConnection, sql: str, dialect: Dialect
) -> None:
    assert normal(wide.answer(sql, dialect)[1]) == normal(raw.execute(sql).fetchall())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(a * b) FROM t",
        "SELECT sum(a + b) FROM t",
        "SELECT avg(a + b) FROM t",
        "SELECT sum(e - d) FROM t",
        "SELECT count(a + b) FROM t",
        "SELECT count(*) FROM t WHERE a + b > 10",
        "SELECT dp_interval_low(sum(a) + sum(b)) FROM t",
    ],
)
def test_what_combines_too_many_cells_is_refused(wide: World, sql: str) -> None:
    with pytest.raises(InvalidParameterValue, match="combines") as caught:
        wide.plan(sql)
    assert caught.value.hint is not None
    assert "write sum(a) + sum(b) for sum(a + b)" in caught.value.hint


def test_what_is_small_stays_one_question(wide: World) -> None:
    """One draw of noise serves it."""
    plan = wide.plan("SELECT sum(a) + sum(c), sum(a + c) FROM t")
    assert [len(table.outputs) for table in plan.noisy] == [2]
