"""Answers from everything released: free where it suffices, and topped up where it does not."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tallyveil
from tallyveil.gate.deciding.choice import Choice
from tests.gate.asking import Connect, ask, spent

BY_SEX = "SELECT sex, count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person GROUP BY 1"
WHOLE = "SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"


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
