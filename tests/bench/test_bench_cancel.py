"""A cancel ends a statement soon, whatever it is at, and leaves a ledger that adds up."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from bench import cancel
from bench.cancel import STATEMENTS, cancel_after, opened, statement
from tallyveil.errors import QueryCanceled
from tallyveil.gate import Gate

# Far beyond what is meant, 0.2 s: the machine may be busy with other things.
_SOON = 5.0


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = opened(tmp_path_factory.mktemp("cancel"))
    yield gate
    gate.close()


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_cancel_ends_a_statement_at_any_moment(gate: Gate, name: str) -> None:
    moments = random.Random(name)
    for number in range(2):
        # After a cancel the session serves on.
        session = gate.session("analyst")
        sql = statement(name, 1 + number)
        found = cancel_after(session, sql, moments.choice([0.0, 0.03, 0.3]) * moments.random())
        assert found.error is None or isinstance(found.error, QueryCanceled)
        assert found.latency < _SOON
        (after,) = session.parse("SELECT 1")
        assert session.execute(after).rows == [(1,)]
        session.close()


def test_what_was_charged_before_a_cancel_is_answered(gate: Gate) -> None:
    """Every charge has its answer, so that asking again costs nothing."""
    account, moments = gate.accountant, random.Random(1)
    for number in range(4):
        session = gate.session("analyst")
        sql = statement("20,000 groups", 100 + number)
        before = account.balance("t").spent
        found = cancel_after(session, sql, 0.4 * moments.random())
        spent = account.balance("t").spent - before
        assert spent in (0, 1)
        assert found.error is not None or spent == 1
        if spent:
            (again,) = session.parse(sql)
            assert len(session.execute(again).rows) == 20_000
            assert account.balance("t").spent - before == 1
        session.close()
    answered = {answer.charge_id for answer in account.learned("t", 0, 0)[0]}
    assert answered == {charge.charge_id for charge in account.history("t")}


def test_latencies_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "REPEATS", 1)
    monkeypatch.setattr(cancel, "STATEMENTS", {"two sums": STATEMENTS["two sums"]})
    monkeypatch.setattr(cancel, "_WITHIN", 0.0)
    cancel.main()
    assert '"statement": "two sums"' in capsys.readouterr().out
