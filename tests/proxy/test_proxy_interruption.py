"""A cancel request hits the call it was meant for, or nothing."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tallyveil.errors import QueryCanceled
from tallyveil.proxy.interruption import Interruption
from tests.proxy.talk import STARTUP, Talk, query

STEPS = {
    "an idle cancel is forgotten": ["cancel", "expect", "goes on"],
    "a running call is flagged and the next is not": ["expect", "is seen", "goes on"],
    "one that comes when a call looks no more stops the next": ["expect", "run", "no", "goes on"],
    "a waiting call does not begin": ["expect", "cancel", "no", "goes on"],
    "between two calls for one message it is not lost": ["expect", "goes on", "cancel", "no"],
    "a late one dies with its messages": ["expect", "cancel", "settle", "expect", "goes on"],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_a_cancel_hits_what_was_expected(steps: list[str]) -> None:
    interruption = Interruption()
    for step in steps:
        match step:
            case "goes on":
                with interruption.running():
                    assert not interruption.cancelled()
            case "run":  # a cancel comes after the call's last look
                with interruption.running():
                    interruption.cancel()
            case "is seen":
                with suppress(QueryCanceled), interruption.running():
                    interruption.cancel()
                    assert interruption.cancelled()
                    raise QueryCanceled("it was seen")
            case "no":
                with pytest.raises(QueryCanceled), interruption.running():
                    pytest.fail("it began")
            case _:
                getattr(interruption, step)()


def test_after_leaving_nothing_begins() -> None:
    talk = Talk()
    talk(STARTUP)
    talk.interruption.abandon()
    assert talk(query("select 1")) == []
    assert talk.session.executed == []
