"""A cancel ends a statement, whatever it is at, and leaves a ledger that adds up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import QueryCanceled

from bench import cancel
from bench.cancel import (
    STATEMENTS,
    Cancelled,
    Spent,
    cancel_after,
    connected,
    opened,
    statement,
)
from tallyveil.gate import Gate
from tests.accountant.ledgers import recorded_answers


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = opened(tmp_path_factory.mktemp("cancel"))
    yield gate
    gate.close()


@pytest.fixture(scope="module")
def connection(gate: Gate) -> Iterator[psycopg.Connection[Any]]:
    with connected(gate) as connection:
        yield connection


def test_a_cancel_ends_a_statement_at_any_moment(connection: psycopg.Connection[Any]) -> None:
    """Some end by themselves before it. Most are cancelled a few hundredths of a second after they
    began, and would take longer on any machine."""
    ended = []
    for name in STATEMENTS:
        moments = random.Random(name)
        for number in range(2):
            seconds = moments.choice([0.01, 0.03, 0.3]) * moments.uniform(0.5, 1.0)
            sql = statement(name, 1 + number)
            found = cancel_after(connection, sql, seconds, prepare=number > 0)
            assert found.error is None or isinstance(found.error, QueryCanceled), name
            ended.append(found.error is not None)
            # After a cancel the session serves on.
            assert connection.execute("SELECT 1").fetchall() == [(1,)], name
    assert sum(ended) >= len(ended) / 2


def test_what_was_charged_before_a_cancel_is_answered(
    gate: Gate, connection: psycopg.Connection[Any]
) -> None:
    """Every charge has its answer, so that asking again costs nothing."""
    account, moments = gate.accountant, random.Random(1)
    for number in range(4):
        sql = statement("20,000 groups", 100 + number)
        before = account.balance("t").spent
        found = cancel_after(connection, sql, 0.4 * moments.random())
        spent = account.balance("t").spent - before
        assert spent in (0, 1)
        assert found.error is not None or spent == 1
        if spent:
            assert len(connection.execute(sql).fetchall()) == 20_000
            assert account.balance("t").spent - before == 1
    answered = {answer.charge_id for answer in recorded_answers(account, "t")}
    assert answered == {charge.charge_id for charge in account.history("t")}


def test_latencies_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel comes in time, however busy the machine is."""
    cancelled = Cancelled(0.001, QueryCanceled(), Spent.now().since(Spent.now()))
    monkeypatch.setattr(cancel, "REPEATS", 1)
    monkeypatch.setattr(cancel, "STATEMENTS", {"two sums": STATEMENTS["two sums"]})
    monkeypatch.setattr(cancel, "cancel_after", lambda *_, **__: cancelled)
    monkeypatch.setattr("bench.looks._WARM", 1)
    cancel.main()
    assert '"statement": "two sums"' in capsys.readouterr().out
