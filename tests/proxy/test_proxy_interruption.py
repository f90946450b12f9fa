"""A cancel request hits the call it was meant for, or nothing."""

from __future__ import annotations

import pytest

from tallyveil.errors import QueryCanceled
from tallyveil.proxy.interruption import Interruption
from tests.proxy.talk import STARTUP, Talk, query


def test_idle_cancels_are_forgotten() -> None:
    interruption = Interruption()
    interruption.cancel()
    with interruption.running(lambda: None):
        assert not interruption.cancelled()


def test_a_running_call_is_flagged_and_interrupted_and_the_next_is_not() -> None:
    interruption = Interruption()
    calls: list[str] = []
    interruption.expect()
    with interruption.running(lambda: calls.append("one")):
        interruption.cancel()
        assert interruption.cancelled()
    interruption.cancel()
    with interruption.running(lambda: calls.append("two")):
        assert not interruption.cancelled()
    assert calls == ["one"]


def test_a_waiting_statement_does_not_begin() -> None:
    interruption = Interruption()
    interruption.expect()
    interruption.cancel()
    with pytest.raises(QueryCanceled), interruption.running(lambda: None):
        pytest.fail("it began")
    with interruption.running(lambda: None):
        assert not interruption.cancelled()


def test_a_late_cancel_dies_with_its_messages() -> None:
    interruption = Interruption()
    interruption.expect()
    interruption.cancel()
    interruption.settle()
    with interruption.running(lambda: None):
        assert not interruption.cancelled()


def test_after_leaving_nothing_begins() -> None:
    talk = Talk()
    talk(STARTUP)
    talk.interruption.abandon()
    assert talk(query("select 1")) == []
    assert talk.session.executed == []
