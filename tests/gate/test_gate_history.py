"""Answers from everything released: free where it suffices, and topped up where it does not."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tallyveil
from tallyveil.gate.deciding.choice import Choice
from tallyveil.inference import DiscreteLaplaceLaw, ErrorLaw
from tests.gate.asking import Connect, ask, spent

BY_SEX = "SELECT sex, count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person GROUP BY 1"
WHOLE = "SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"


def test_a_total_is_the_sum_of_its_groups(connect: Connect, tmp_path: Path) -> None:
    connection = connect()
    groups = connection.execute(BY_SEX).fetchall()
    total, low, high = ask(connection, WHOLE, source="history")[0]
    before = _digest(tmp_path)  # with how the total was made, which is kept once
    assert connection.execute(WHOLE).fetchall() == [(total, low, high)]
    assert total == sum(n for _, n, _, _ in groups)
    half = ErrorLaw.of_sum({DiscreteLaplaceLaw(10.0): 3}).half_width(0.95)
    assert abs(high - total - half) <= 1
    assert abs(total - low - half) <= 1
    assert _digest(tmp_path) == before


def test_what_history_does_not_determine_is_null_under_history(connect: Connect) -> None:
    connection = connect()
    assert ask(connection, WHOLE, source="history") == [(None, None, None)]
    ask(connection, BY_SEX, source="auto")
    assert ask(connection, "SELECT count(*) FROM person WHERE age = 3", source="history") == [
        (None,)
    ]
    assert spent(connection) == 0.1


def test_a_part_follows_from_the_whole_and_the_other_parts(connect: Connect) -> None:
    connection = connect()
    whole = connection.execute(WHOLE).fetchall()[0][0]
    women = connection.execute("SELECT count(*) FROM person WHERE sex = 'F'").fetchall()[0][0]
    rest = ask(connection, "SELECT count(*) FROM person WHERE sex <> 'F'", source="history")[0][0]
    assert rest == whole - women
    assert spent(connection) == 0.2


def test_a_target_is_topped_up_for_less_than_it_costs_alone(connect: Connect) -> None:
    connection = connect()
    connection.execute(BY_SEX)
    connection.execute("SET dp.half_width = 20")
    alone = 1 / DiscreteLaplaceLaw.scale_for_half_width(20, 0.95)
    rows = connection.execute(BY_SEX).fetchall()
    assert all(low >= n - 20 and high <= n + 20 for _, n, low, high in rows)
    topping = spent(connection) - 0.1
    assert 0 < topping < 0.9 * alone
    assert connection.execute(BY_SEX).fetchall() == rows
    assert spent(connection) == pytest.approx(0.1 + topping)


def test_only_rows_that_fall_short_are_topped_up(connect: Connect) -> None:
    connection = connect()
    ask(connection, "SELECT count(*) FROM person WHERE sex = 'F'", half_width=15)
    before = spent(connection)
    rows = connection.execute(BY_SEX).fetchall()
    assert spent(connection) == pytest.approx(before)  # the other groups are other people
    assert all(high - low <= 30 for _, _, low, high in rows)


def test_a_cost_is_free_where_history_is_as_precise(connect: Connect) -> None:
    connection = connect()
    ask(connection, BY_SEX, epsilon=0.3)
    connection.execute("SET dp.epsilon = 0.1")  # the variance of a sum of three is less
    connection.execute(WHOLE)
    assert spent(connection) == pytest.approx(0.3)
    low, high = ask(connection, WHOLE, epsilon=0.2)[0][1:]
    assert spent(connection) == pytest.approx(0.5)
    assert high - low < 2 * DiscreteLaplaceLaw(5.0).half_width(0.95)


def test_fresh_buys_in_spite_of_history_and_records(connect: Connect) -> None:
    connection = connect()
    connection.execute(WHOLE)
    n, low, high = ask(connection, WHOLE, source="fresh")[0]
    assert high - n == n - low == DiscreteLaplaceLaw(10.0).half_width(0.95)
    assert spent(connection) == pytest.approx(0.2)
    low, high = ask(connection, WHOLE, source="history")[0][1:]
    assert high - low < 2 * DiscreteLaplaceLaw(10.0).half_width(0.95)


def test_a_refusal_says_what_history_and_the_rest_of_the_budget_give(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 0.3})
    connection.execute(BY_SEX)
    connection.execute("SET dp.half_width = 2")
    with pytest.raises(tallyveil.BudgetExceeded) as caught:
        connection.execute(BY_SEX)
    hint = caught.value.hint or ""
    assert "SET dp.epsilon to at most 0.2, which buys ±15 at 95 %" in hint
    assert "SET dp.source = history for what is known already, ±30 at 95 %" in hint
    assert spent(connection) == 0.1


def test_explain_says_what_history_gives(connect: Connect) -> None:
    connection = connect()
    connection.execute(BY_SEX)
    connection.execute("SET dp.half_width = 20")
    plan = connection.explain(BY_SEX)
    assert "Known from history: 3 rows, interval ±30 at 95 % or better; to buy: 3" in plan
    line = next(line for line in plan.splitlines() if line.startswith("  aggregate 1"))
    found = re.search(r", scale ([0-9.]+) \(([0-9.]+) by itself\), interval ±20 at", line)
    assert found, line
    assert float(found[1]) > float(found[2])
    assert "scale" not in plan.replace(line, "")
    assert spent(connection) == 0.1


CHARTS = (
    BY_SEX,
    "SELECT state, count(*) FROM person GROUP BY state",
    "SELECT sex, state, count(*) FROM person GROUP BY 1, 2",
    "SELECT age / 10 AS decade, count(*) FROM person GROUP BY 1",
    WHOLE,
)


def test_a_dashboard_costs_once_however_often_it_is_refreshed(
    connect: Connect, tmp_path: Path
) -> None:
    connection = connect()
    empty = _digest(tmp_path)
    for chart in CHARTS:
        connection.execute(chart)
    cost = spent(connection)
    for chart in CHARTS:  # the first of them are better known once the others are bought
        connection.execute(chart)
    first = _digest(tmp_path)
    assert first != empty
    for _ in range(10):
        for chart in CHARTS:
            connection.execute(chart)
    assert spent(connection) == cost
    assert _digest(tmp_path) == first


def _digest(folder: Path) -> str:
    """Of every row of every table of the ledger."""
    with closing(sqlite3.connect(f"file:{folder}/tallyveil.ledger.sqlite?mode=ro", uri=True)) as db:
        return hashlib.blake2b("\n".join(db.iterdump()).encode()).hexdigest()


def _flood(connection: tallyveil.Connection) -> None:
    """More answers, as precise as any, than a question looks at."""
    connection.execute("SET dp.epsilon = 0.3")
    for age in range(1, 41):
        connection.execute(f"SELECT count(*) FROM person WHERE age >= {age} AND state = 'AL'")
        connection.execute(f"SELECT sex, count(*) FROM person WHERE age < {age} GROUP BY sex")


def test_what_followed_from_history_stays_free_however_much_is_asked(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 100.0})
    rest = WHOLE + " WHERE sex <> 'F'"
    ask(connection, WHOLE, epsilon=0.3)
    connection.execute("SELECT count(*) FROM person WHERE sex = 'F'")
    connection.execute("SET dp.epsilon = 0.2")
    before = spent(connection)
    _, low, high = connection.execute(rest).fetchall()[0]
    assert spent(connection) == before
    _flood(connection)
    connection.execute("SET dp.epsilon = 0.2")
    after = spent(connection)
    _, lower, higher = connection.execute(rest).fetchall()[0]
    assert higher - lower <= high - low + 1
    assert spent(connection) == after


def test_what_was_topped_up_stays_free_after_a_restart(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 100.0})
    # What the top-up counts upon is, but for the rows themselves, soon not looked at any more.
    connection.execute("SELECT sex, state, count(*) FROM person GROUP BY 1, 2")
    connection.execute("SELECT sex, age < 10, count(*) FROM person GROUP BY 1, 2")
    ask(connection, BY_SEX, half_width=20)
    _flood(connection)
    connection.close()
    reopened = connect(budget={"epsilon": 100.0})
    before = spent(reopened)
    rows = ask(reopened, BY_SEX, half_width=20)
    assert spent(reopened) == before
    assert all(high - low <= 40 for _, _, low, high in rows)


def test_asking_again_gives_the_same_numbers(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 100.0})
    statements = (
        "SELECT sex, state, count(*) FROM person GROUP BY ROLLUP (sex, state) ORDER BY ALL",
        "SELECT sex, count(*), count(*) FILTER (WHERE age < 30), sum(age) FROM person"
        " GROUP BY CUBE (sex) ORDER BY ALL",
    )
    for half_width in (None, 40):
        if half_width:
            connection.execute(f"SET dp.half_width = {half_width}")
        for statement in statements:
            first = connection.execute(statement).fetchall()
            assert connection.execute(statement).fetchall() == first


def test_noise_is_chosen_once_for_a_repeated_statement(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect()
    first = connection.execute(BY_SEX).fetchall()
    chosen: list[object] = []
    work_out = Choice.scales

    def counted(self: Choice, *arguments: Any) -> tuple[float, ...]:
        chosen.append(arguments)
        return work_out(self, *arguments)

    monkeypatch.setattr(Choice, "scales", counted)
    assert connection.execute(BY_SEX).fetchall() == first
    assert not chosen
    assert ask(connection, BY_SEX, epsilon=0.5) != first
    assert chosen
    before = len(chosen)
    ask(connection, BY_SEX, confidence=0.5)
    assert len(chosen) > before


def test_the_hint_counts_what_history_does_not_determine(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.source = history")
    whole, by_state = "SELECT count(*) FROM person", "SELECT state, count(*) FROM person GROUP BY 1"
    hints = [connection.execute(sql).notices[0].hint or "" for sql in (whole, by_state)]
    connection.execute("SET dp.source = auto")
    connection.execute(f"{whole} WHERE state = 'AL'")
    connection.execute("SET dp.source = history")
    hints.append(connection.execute(by_state).notices[0].hint or "")
    assert [hint.partition(". ")[0] for hint in hints] == [
        "NULL: earlier answers do not determine it",
        "NULL: earlier answers do not determine any of the 5 different numbers in the result",
        "NULL: earlier answers do not determine 4 of the 5 different numbers in the result",
    ]
