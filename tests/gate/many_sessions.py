"""Sessions of one gate, each in a thread, that ask different questions: `main` says when it could
begin, does so once it reads a line, and prints how many were answered and how many refused.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

from tallyveil.errors import BudgetExceeded, InsufficientPrivilege
from tallyveil.gate import Gate
from tallyveil.policy import parse_policy

# Generous: nothing that is asked here takes a hundredth of it.
PATIENCE = 120.0
SEXES = ("", " WHERE sex = 'F'", " WHERE sex = 'M'")


def gate(directory: Path, epsilon: float = 3.0, **table: Any) -> Gate:
    """Over a table of 600 records, with a ledger in the directory."""
    attributes = {"age": {"range": [0, 19]}, "sex": {"values": ["F", "M"]}}
    declared = {"from": "people", "budget": {"epsilon": epsilon}, "attributes": attributes}
    policy = parse_policy(
        {"tables": {"person": declared | table}, "defaults": {"epsilon": 0.02}}, base=directory
    )
    with duckdb.connect(":memory:") as source:
        source.execute(
            "CREATE TABLE people AS SELECT i % 20 AS age, "
            "CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END AS sex FROM range(600) t(i)"
        )
        return Gate(policy, source, time_limit=PATIENCE)


def question(session: int, number: int) -> str:
    """Different from those the other sessions ask at the time, and related to many."""
    place = session + 7 * number
    match number % 4:
        case 0:
            return f"SELECT age, count(*) FROM person{SEXES[place % 3]} GROUP BY age"
        case 1:
            return f"SELECT sex, count(*) FROM person WHERE age < {1 + place % 19} GROUP BY sex"
    low = place % 13
    return f"SELECT count(*) FROM person WHERE age BETWEEN {low} AND {low + place % 7}"


def ask(gate: Gate, session: int, questions: int, outcome: Counter[str]) -> None:
    """With top-ups, since half-widths shrink, and refusals, since the budget does not reach."""
    opened = gate.session(f"analyst{session}", "people", "duckdb")
    try:
        for number in range(questions):
            if number % 10 == 9:
                opened.set("dp.epsilon", "2.5")
            elif number % 5 == 4:
                opened.set("dp.half_width", str(max(5, 400 - 10 * number)))
            else:
                opened.set("dp.epsilon", "0.02")
            try:
                opened.query(question(session, number))
            except (BudgetExceeded, InsufficientPrivilege):
                outcome["refused"] += 1
            else:
                outcome["answered"] += 1
            if number % 10 == 5:
                opened.query("SELECT * FROM dp.budget")
    finally:
        opened.close()


def ask_all(gate: Gate, sessions: int, questions: int) -> Counter[str]:
    """Raises AssertionError if they do not come to an end."""
    outcomes = [Counter[str]() for _ in range(sessions)]
    threads = [
        threading.Thread(target=ask, args=(gate, n, questions, outcomes[n]), daemon=True)
        for n in range(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a session hangs"
    return sum(outcomes, Counter[str]())


def main(directory: str, sessions: str, questions: str) -> None:
    opened = gate(Path(directory))
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        outcome = ask_all(opened, int(sessions), int(questions))
    finally:
        opened.close()
    print(outcome["answered"], outcome["refused"])
