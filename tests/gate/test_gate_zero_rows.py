"""A row that no record can move is exactly 0: never charged, recorded or counted."""

from __future__ import annotations

from typing import Any

import pytest

import tallyveil
from tests.gate.asking import Connect, ask
from tests.pairs import alternately

ZEROS = [
    ("SELECT count(*) FROM person WHERE age < 0", [(0,)]),
    ("SELECT sum(age) FROM person WHERE age = 7 AND age = 8", [(0,)]),
    ("SELECT sum(0) FROM person", [(0,)]),
    ("SELECT sum(age - age) FROM person WHERE age < 3 AND sex < state", [(0,)]),
    (
        "SELECT sex, count(*) FILTER (WHERE age < 0) FROM person GROUP BY sex ORDER BY 1",
        [("F", 0), ("M", 0), ("other", 0)],
    ),
]
BUDGETS = [{"epsilon": 1.0}, {"rho": 1.0, "delta": 1e-6}]


def record(connection: tallyveil.Connection) -> list[Any]:
    """All that the ledger and the public relations say was charged."""
    gate = connection._gate
    return [
        connection.execute("SELECT * FROM dp.budget").fetchall(),
        connection.execute("SELECT * FROM dp.history").fetchall(),
        gate.accountant.recorded("person"),
        gate.accountant.seen(),
    ]


@pytest.mark.parametrize(
    ("answers", "budget", "neighbours"),
    alternately(["auto", "fresh", "history"], BUDGETS, ["add_remove", "replace"]),
)
def test_zeros_are_exact_and_leave_no_trace(
    connect: Connect, answers: str, budget: Any, neighbours: str
) -> None:
    connection = connect(budget=budget, neighbours=neighbours)
    connection.execute(f"SET dp.source = {answers}")
    before = record(connection)
    for sql, expected in ZEROS:
        cursor = connection.execute(sql)
        assert cursor.fetchall() == expected
        notices = [notice.message for notice in cursor.notices]
        assert any(said.startswith("exact, from public facts; free") for said in notices)
    assert record(connection) == before


@pytest.mark.parametrize(
    "mechanism",
    ["laplace", "geometric", "gaussian", "'truncated_geometric(n=300)'", "'fair(n=9)'"],
)
def test_zeros_are_exact_under_every_mechanism(connect: Connect, mechanism: str) -> None:
    connection = connect(budget={"rho": 1.0, "delta": 1e-6})
    connection.execute(f"SET dp.mechanism = {mechanism}")
    connection.execute("SET dp.source = fresh")
    before = record(connection)
    assert connection.execute(ZEROS[0][0]).fetchall() == [(0,)]
    assert record(connection) == before


def test_who_has_no_share_learns_zeros_and_writes_nothing(connect: Connect) -> None:
    connection = connect(analysts={"bob": {"budget": {"epsilon": 0.5}}}, user="eve")
    connection.execute("SET dp.source = fresh")
    before = record(connection)
    for sql, expected in ZEROS:
        assert connection.execute(sql).fetchall() == expected
    assert record(connection) == before
    with pytest.raises(tallyveil.Error) as caught:
        connection.execute("SELECT count(*) FROM person WHERE age < 1")
    assert caught.value.sqlstate == "53400"


@pytest.mark.parametrize("answers", ["auto", "fresh"])
def test_zero_rows_of_a_statement_take_no_part_in_what_is_bought(
    connect: Connect, answers: str
) -> None:
    connection = connect()
    left = ask(connection, "SELECT rows_left FROM dp.budget", source=answers)[0][0]
    cursor = connection.execute(
        "SELECT sex, count(*) FILTER (WHERE sex = 'F'), count(*) FILTER (WHERE age < 0),"
        " dp_interval_low(count(*) FILTER (WHERE sex = 'F')),"
        " dp_interval_high(count(*) FILTER (WHERE sex = 'F'))"
        " FROM person GROUP BY sex ORDER BY 1"
    )
    first, *others = cursor.fetchall()
    assert first[2] == 0
    assert first[3] < first[1] < first[4]
    assert abs(first[1] - 1500) < 500
    assert others == [("M", 0, 0, 0, 0), ("other", 0, 0, 0, 0)]
    assert "for 1 of the 3 different numbers" in cursor.notices[-1].message
    assert connection.execute("SELECT rows_left FROM dp.budget").fetchall()[0][0] == left - 1


def test_the_least_that_is_charged_is_never_rounded_to_nothing(connect: Connect) -> None:
    connection = connect(limits={"least_cost": 0})
    ask(connection, "SELECT count(*) FROM person", half_width="9e14")
    ((cost,),) = connection.execute("SELECT cost FROM dp.history").fetchall()
    assert cost > 0


def test_a_constant_of_every_record_is_exact_where_the_total_is_public(connect: Connect) -> None:
    """Neighbours that replace a record agree on the total; multiples of it and zeros differ."""
    connection = connect(neighbours="replace")
    before = record(connection)
    for source in ("auto", "fresh", "history"):
        assert ask(connection, "SELECT sum(-3), sum(3), sum(0) FROM person", source=source) == [
            (-9000, 9000, 0)
        ]
        grouped = connection.execute(
            "SELECT k, sum(k), count(*) FROM person JOIN (VALUES (-1), (0), (2)) v(k) ON true"
            " GROUP BY k ORDER BY k"
        )
        assert grouped.fetchall() == [(-1, -3000, 3000), (0, 0, 3000), (2, 6000, 3000)]
    assert record(connection) == before
