"""What was once reported stays: no wider, the same where nothing better is known, and free."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tallyveil.errors import BudgetExceeded
from tallyveil.gate import Gate
from tests.gate import many_sessions


@pytest.fixture(autouse=True)
def _little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the history takes part in an estimate, as if it were ten times as long."""
    monkeypatch.setattr("tallyveil.knowledge.estimator._WORK", 1_000)
    monkeypatch.setattr("tallyveil.knowledge.estimator._EACH", 1_000)


ENDS = "count(*) AS n, dp_interval_low(n) AS low, dp_interval_high(n) AS high FROM person"
Rows = dict[Any, tuple[int, int, int]]


@dataclass(frozen=True)
class Question:
    sql: str
    setting: str
    value: str


def questions(chance: random.Random, number: int) -> Iterator[Question]:
    """Ranges, groupings and totals: bought at a cost, topped up to a target, or free."""
    for _ in range(number):
        low = chance.randrange(20)
        high = min(19, low + chance.randrange(12))
        sex = chance.choice(["", " AND sex = 'F'", " AND sex = 'M'"])
        where = f" WHERE age BETWEEN {low} AND {high}{sex}"
        key = chance.choice(["1", "1", "age", "sex"])
        sql = f"SELECT {key} AS key, {ENDS}{where}" + (f" GROUP BY {key}" if key != "1" else "")
        if chance.random() < 0.5:
            yield Question(sql, "dp.epsilon", chance.choice(["0.002", "0.005", "0.02"]))
        else:
            yield Question(sql, "dp.half_width", str(chance.choice([300, 600, 900, 1500])))


def ask(gate: Gate, question: Question, confidence: str = "0.95") -> Rows:
    session = gate.session("alice", "people", "duckdb")
    try:
        session.set("dp.confidence", confidence)
        session.set(question.setting, question.value)
        table, _ = session.query(question.sql)
    finally:
        session.close()
    assert table is not None
    return {row["key"]: (row["n"], row["low"], row["high"]) for row in table.to_pylist()}


def no_worse(now: Rows, then: Rows) -> None:
    assert now.keys() == then.keys()
    for key, (_, low, high) in then.items():
        _, lowest, highest = now[key]
        assert highest - lowest <= high - low, (key, now[key], then[key])


def asked(gate: Gate, number: int, seed: int) -> dict[Question, Rows]:
    """The last answers, as far as the budget reached."""
    answers = {}
    for question in questions(random.Random(seed), number):
        try:
            answers[question] = ask(gate, question)
        except BudgetExceeded:
            continue
    return answers


def all_stay(gate: Gate, answers: dict[Question, Rows]) -> None:
    spent = gate.accountant.balance("person").spent
    for question, rows in answers.items():
        no_worse(ask(gate, question), rows)
    assert gate.accountant.balance("person").spent == spent


def stay_after_a_restart(directory: Path, number: int, seed: int) -> None:
    gate = many_sessions.gate(directory)
    answers = asked(gate, number, seed)
    all_stay(gate, answers)
    last = {question: ask(gate, question) for question in answers}
    gate.close()
    again = many_sessions.gate(directory)
    all_stay(again, answers)
    for question, rows in last.items():
        assert ask(again, question) == rows
    again.close()


def test_answers_stay_after_a_restart(tmp_path: Path) -> None:
    stay_after_a_restart(tmp_path, 12, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_answers_stay_after_a_restart(tmp_path: Path, seed: int) -> None:
    stay_after_a_restart(tmp_path, 600, seed)


def test_answers_stay_in_another_process(tmp_path: Path) -> None:
    """Each process reports what the other does not know, and buys meanwhile."""
    first, second = many_sessions.gate(tmp_path), many_sessions.gate(tmp_path)
    answers = asked(first, 5, 11) | asked(second, 5, 12) | asked(first, 5, 11)
    for gate in (first, second):
        all_stay(gate, answers)
        gate.close()
