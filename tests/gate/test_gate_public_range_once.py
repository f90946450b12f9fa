"""Rows that a statement asks several times of a mechanism with a public range: bought once."""

from __future__ import annotations

from typing import Any

import pytest

import tallyveil
from tests.gate.asking import Connect, ask, spent

BY_AGE = {"at_most": 50, "by": ["age"]}
TWICE = (
    "SELECT state, count(*) AS a, count(*) FILTER (WHERE state IS DISTINCT FROM 'AL') AS b,"
    " sum(CASE WHEN state IS DISTINCT FROM 'AK' THEN 1 ELSE 0 END) AS d,"
    " dp_interval_low(a), dp_interval_low(b), dp_interval_low(d) FROM person"
    " WHERE age = 7 GROUP BY state"
)
ONCE = "SELECT state, count(*) FROM person WHERE age = 7 GROUP BY state"
MECHANISMS = [
    ("fair", {"count_range": BY_AGE}),
    ("'fair(n=40)'", {}),
    ("truncated_geometric", {"count_range": BY_AGE}),
    ("'designed(n=9, properties=ch+cm+wh)'", {}),
    ("'auto(n=9, properties=wh)'", {}),
]


@pytest.fixture(params=MECHANISMS, ids=[name for name, _ in MECHANISMS])
def opened(request: pytest.FixtureRequest, connect: Connect) -> tallyveil.Connection:
    name, table = request.param
    connection = connect(budget={"epsilon": 10}, **table)
    connection.execute(f"SET dp.mechanism = {name}")
    return connection


def agree(rows: list[tuple[Any, ...]]) -> None:
    """All three counts of a state are of the same records, or exactly 0."""
    assert len(rows) > 2
    for state, a, b, d, low_a, low_b, low_d in rows:
        assert (b, low_b) == ((0, 0) if state == "AL" else (a, low_a))
        assert (d, low_d) == ((0, 0) if state == "AK" else (a, low_a))


@pytest.mark.parametrize("wanted", ["auto", "fresh"])
def test_it_has_one_value_and_one_price(opened: tallyveil.Connection, wanted: str) -> None:
    agree(ask(opened, TWICE, source=wanted))
    cost = spent(opened)
    assert cost == pytest.approx(0.1)
    first = ask(opened, ONCE, source="fresh")
    assert spent(opened) == pytest.approx(2 * cost)
    assert len(first) > 2


def test_the_same_statement_reports_the_same_and_is_free(opened: tallyveil.Connection) -> None:
    first = ask(opened, TWICE)
    cost = spent(opened)
    assert ask(opened, TWICE) == first
    assert ask(opened, TWICE, source="history") == first
    assert [row[:2] for row in first] == ask(opened, ONCE)
    assert spent(opened) == cost


def test_what_is_known_less_precisely_is_bought_once_again(opened: tallyveil.Connection) -> None:
    ask(opened, ONCE, epsilon=0.02)
    first = ask(opened, TWICE, epsilon=0.1)
    agree(first)
    cost = spent(opened)
    assert ask(opened, TWICE) == first
    assert spent(opened) == cost


def test_only_what_is_not_known_is_bought(opened: tallyveil.Connection) -> None:
    (known,) = ask(opened, "SELECT count(*) FROM person WHERE age = 7 AND state = 'WY'")
    first = ask(opened, TWICE)
    agree(first)
    assert [row[1] for row in first if row[0] == "WY"] == [known[0]]
    assert ask(opened, TWICE) == first


def test_columns_of_different_precision_agree(opened: tallyveil.Connection) -> None:
    """The row of all states is in one column once and in another several times."""
    sql = (
        "SELECT sex, count(*), count(*) FILTER (WHERE sex = 'F' OR state = 'AL'),"
        " count(*) FILTER (WHERE sex <> 'F') FROM person WHERE age = 7 GROUP BY sex"
    )
    first = ask(opened, sql)
    for sex, whole, some, other in first:
        assert sex != "F" or (whole == some and other == 0)
        assert sex == "F" or whole == other
    cost = spent(opened)
    assert ask(opened, sql) == first
    assert spent(opened) == cost


def test_explain_and_notice_count_it_once(opened: tallyveil.Connection) -> None:
    lines = opened.explain(TWICE)
    assert "multiples of other rows, interval of width at most" in lines
    states = len(ask(opened, ONCE, source="fresh"))
    before = spent(opened)
    cursor = opened.execute(TWICE)
    assert f"for {states} of the {states + 2} different numbers" in cursor.notices[0].message
    assert spent(opened) - before == pytest.approx(0.1)


def test_subqueries_share_their_rows(opened: tallyveil.Connection) -> None:
    sql = (
        "SELECT a.n, b.n FROM (SELECT count(*) AS n FROM person WHERE age = 7) a,"
        " (SELECT count(*) AS n FROM person WHERE age = 7 AND true) b"
    )
    first = ask(opened, sql)
    assert first[0][0] == first[0][1]
    assert ask(opened, sql) == first
    assert spent(opened) == pytest.approx(0.1)


def test_a_mechanism_that_changes_reports_its_own_interval(connect: Connect) -> None:
    """As the guide says: an answer in a public range is reported by its own mechanism only."""
    connection = connect(budget={"epsilon": 10}, count_range=BY_AGE)
    sql = "SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person WHERE age = 7"
    (ranged,) = ask(connection, sql, mechanism="truncated_geometric")
    (additive,) = ask(connection, sql, mechanism="laplace")
    assert additive[2] - additive[1] == 60
    assert ranged[2] - ranged[1] < 60
    assert ask(connection, sql, mechanism="truncated_geometric") == [ranged]
    assert ask(connection, sql, mechanism="laplace") == [additive]
    assert spent(connection) == pytest.approx(0.2)
