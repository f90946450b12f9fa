"""A cancel request hits the call it was meant for, or nothing."""

from __future__ import annotations

import pytest

from tallyveil.errors import QueryCanceled
from tallyveil.proxy.interruption import Interruption
from tests.proxy.talk import STARTUP, Talk, query


@pytest.fixture
def expected() -> Interruption:
    """Messages have come."""
    interruption = Interruption()
    interruption.expect()
    return interruption


def test_idle_cancels_are_forgotten() -> None:
    interruption = Interruption()
    interruption.cancel()
    interruption.expect()
    with interruption.running():
        assert not interruption.cancelled()


def test_a_running_call_is_flagged_and_the_next_is_not(expected: Interruption) -> None:
    def look() -> None:
        with expected.running():
            expected.cancel()
            if expected.cancelled():
                raise QueryCanceled("it was seen")

    with pytest.raises(QueryCanceled):
        look()
    with expected.running():
        assert not expected.cancelled()


def test_what_was_parsed_without_a_look_at_a_cancel_is_not_executed(
    expected: Interruption,
) -> None:
    """A call may end between its last look and the request."""
    with expected.running():
        expected.cancel()
    with pytest.raises(QueryCanceled), expected.running():
        pytest.fail("it began")
    with expected.running():
        assert not expected.cancelled()


def test_a_waiting_statement_does_not_begin(expected: Interruption) -> None:
    expected.cancel()
    with pytest.raises(QueryCanceled), expected.running():
        pytest.fail("it began")
    with expected.running():
        assert not expected.cancelled()


def test_what_was_parsed_when_a_cancel_comes_is_not_executed(expected: Interruption) -> None:
    """Between two calls for one message nothing runs, and the request is not lost."""
    with expected.running():
        pass
    expected.cancel()
    with pytest.raises(QueryCanceled), expected.running():
        pytest.fail("it began")


def test_a_late_cancel_dies_with_its_messages(expected: Interruption) -> None:
    expected.cancel()
    expected.settle()
    expected.expect()
    with expected.running():
        assert not expected.cancelled()


def test_after_leaving_nothing_begins() -> None:
    talk = Talk()
    talk(STARTUP)
    talk.interruption.abandon()
    assert talk(query("select 1")) == []
    assert talk.session.executed == []
