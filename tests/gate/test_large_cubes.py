"""Cubes of 10^9 and 10^12 cells, from SQL to answers and costs, beside DuckDB on the raw rows.

At epsilon 2000 the noisiest answer here, one sum of sensitivity 81, is off with probability
2·e^(-2000/81) < 10^-10, and any of the others with less than 10^-40.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import InvalidParameterValue

EPSILON = 2000
CELLS = 10


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., tuple[tallyveil.Connection, Any]]]:
    """ask(axes, neighbours): a connection, and the same on the raw rows."""
    opened: list[Any] = []

    def make(axes: int, neighbours: str = "add_remove") -> tuple[tallyveil.Connection, Any]:
        raw = duckdb.connect(":memory:")
        columns = ", ".join(f"hash(i + {n} * 7919) % {CELLS} AS a{n}" for n in range(axes))
        raw.execute(f"CREATE TABLE t AS SELECT {columns} FROM range(5000) r(i)")
        attributes = {f"a{n}": {"range": [0, CELLS - 1]} for n in range(axes)}
        table = {
            "attributes": attributes,
            "neighbours": neighbours,
            "budget": {"epsilon": 100 * EPSILON},
        }
        policy = tallyveil.parse_policy(
            {"tables": {"t": table}, "defaults": {"epsilon": EPSILON}}, base=tmp_path
        )
        opened.extend((tallyveil.connect(policy, source=raw), raw))
        return opened[-2], raw

    yield make
    for connection in opened:
        connection.close()


def budget(connection: tallyveil.Connection) -> tuple[float, bool]:
    spent, exact = connection.sql("SELECT spent, exact FROM dp.budget").fetchall()[0]
    return spent / EPSILON, exact


def everywhere(axes: int, condition: str = "{} < 9") -> str:
    return " AND ".join(condition.format(f"a{n}") for n in range(axes))


@pytest.mark.parametrize("axes", [pytest.param(9, marks=pytest.mark.slow), 12])
def test_answers_are_those_of_the_raw_rows(ask: Any, axes: int) -> None:
    connection, raw = ask(axes)
    last = f"a{axes - 1}"
    for sql in (
        f"SELECT count(*) FROM t WHERE {everywhere(axes)}",
        f"SELECT a0, {last}, count(*) FROM t WHERE {everywhere(axes)} GROUP BY 1, 2",
        f"SELECT a1, a2 % 3 AS r, a5, count(*), sum({last}) FROM t WHERE a3 > 2 GROUP BY ALL",
        f"SELECT sum(a0 * {last}) FROM t WHERE a4 IN (1, 2, 3) AND a5 + a6 < 12",
        f"SELECT count(*) FILTER (WHERE a1 = 1 AND {last} = 2), avg(a7) FROM t WHERE a2 <> 0",
    ):
        assert sorted(connection.sql(sql).fetchall()) == sorted(raw.sql(sql).fetchall())


def test_groups_nobody_is_in_are_answered_too(ask: Any) -> None:
    connection, _ = ask(12)
    sql = f"SELECT a0, a1, a11, count(*) AS n FROM t WHERE {everywhere(12, '{} = 3')} GROUP BY ALL"
    assert connection.sql(sql).fetchall() == [(3, 3, 3, 0)]


def test_costs_are_exact_while_the_axes_that_matter_fit(ask: Any) -> None:
    connection, _ = ask(12)
    # Grouping by axes moves all their cells alike, so that only a11 makes a difference.
    groups = ", ".join(f"a{n}" for n in range(4))
    for value in (1, 2):
        connection.sql(f"SELECT {groups}, count(*) FROM t WHERE a11 = {value} GROUP BY ALL")
    assert budget(connection) == (1, True)
    connection.sql(f"SELECT count(*) FROM t WHERE {everywhere(6)}")
    assert budget(connection) == (2, True)


def test_beyond_them_costs_are_bounded_and_said_to_be(ask: Any) -> None:
    connection, _ = ask(12)
    rest = " AND ".join(f"a{n} > 4" for n in range(1, 12))
    for value in (1, 2):
        connection.sql(f"SELECT count(*) FROM t WHERE a0 = {value} AND {rest}")
    # Disjoint by a0, which is among the axes that are kept.
    assert budget(connection) == (1, False)
    connection.sql(f"SELECT count(*) FROM t WHERE a0 = 3 AND {rest}")
    connection.sql(f"SELECT count(*) FROM t WHERE a0 = 3 AND a1 = 5 AND {rest}")
    assert budget(connection) == (2, False)


def test_a_wide_question_asked_again_is_free_however_it_is_written(ask: Any) -> None:
    connection, _ = ask(9)
    first = connection.sql(f"SELECT a0, count(*) FROM t WHERE {everywhere(9)} GROUP BY 1")
    again = connection.sql(
        f"SELECT count(*), a0 FROM t WHERE {everywhere(9, 'NOT {} > 8')} GROUP BY 2"
    )
    assert sorted(first.fetchall()) == sorted((key, n) for n, key in again.fetchall())
    assert budget(connection)[0] == 1


def test_some_rows_of_a_product_are_known_and_the_rest_is_bought(ask: Any) -> None:
    connection, raw = ask(9)
    sql = f"SELECT a0, a1, count(*) FROM t WHERE {everywhere(9)} GROUP BY 1, 2"
    for a0, a1 in ((0, 0), (3, 4), (8, 8)):
        connection.sql(f"SELECT count(*) FROM t WHERE {everywhere(9)} AND a0 = {a0} AND a1 = {a1}")
    assert sorted(connection.sql(sql).fetchall()) == sorted(raw.sql(sql).fetchall())


def test_under_replace_costs_are_exact_however_many_cells_are_alike(ask: Any) -> None:
    connection, raw = ask(9, "replace")
    sql = f"SELECT count(*) FROM t WHERE {everywhere(9)}"
    assert connection.sql(sql).fetchall() == raw.sql(sql).fetchall()
    assert budget(connection) == (1, True)
    sql = f"SELECT a0, a1, a2, count(*) AS n FROM t WHERE {everywhere(9)} GROUP BY 1, 2, 3"
    found = [row for row in connection.sql(sql).fetchall() if row[-1]]
    assert sorted(found) == sorted(raw.sql(sql).fetchall())
    # A record that leaves one group for another is in both of these, and in none of the first.
    assert budget(connection) == (1.5, True)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_count_may_mention_more_attributes_than_cells_can_be_numbered(
    ask: Any, neighbours: str
) -> None:
    connection, raw = ask(25, neighbours)
    sql = f"SELECT count(*) FROM t WHERE {everywhere(25)}"
    assert connection.sql(sql).fetchall() == raw.sql(sql).fetchall()
    assert budget(connection) == (1, False)


def test_what_cannot_be_taken_apart_has_a_limit(ask: Any) -> None:
    connection, _ = ask(9)
    tied = " + ".join(f"a{n}" for n in range(8))
    with pytest.raises(InvalidParameterValue, match="combines 100000000 cells"):
        connection.sql(f"SELECT count(*) FROM t WHERE {tied} > 40")
