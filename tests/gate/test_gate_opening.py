"""A gate has taken in its ledger before anybody asks: no statement's time goes into that."""

from __future__ import annotations

from typing import Any

import pytest

from tallyveil.knowledge.state import State
from tests.gate.asking import Connect


def test_what_was_recorded_is_learnt_once_and_before_the_first_question(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect()
    for age in (10, 20, 30):
        connection.execute(f"SELECT count(*) FROM person WHERE age < {age}")
    learnt: list[int] = []
    learn = State.learn

    def noted(self: State, answer: Any) -> None:
        learnt.append(answer.charge_id)
        learn(self, answer)

    monkeypatch.setattr(State, "learn", noted)
    again = connect()
    assert learnt == [1, 2, 3]
    again.execute("SELECT count(*) FROM person WHERE age < 20")
    assert learnt == [1, 2, 3]
