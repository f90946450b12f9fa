"""A cancel, or a timeout, ends a question about the catalogs whatever it waits for."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import QueryCanceled

from tallyveil.catalog import CatalogQuestion
from tallyveil.catalog.relay import Relay
from tallyveil.deadline import Deadline
from tallyveil.errors import StatementTooComplex
from tests.catalog.waiting import SLEEPING, SOON, UNHEEDING, canceled
from tests.wire.waiting import until

ASKED = "SELECT count(*) FROM pg_am"

Where = Callable[[Any, pytest.MonkeyPatch], AbstractContextManager[object]]


@contextmanager
def no_place(catalogued: Any, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two statements of one analyst run at a time."""
    with ExitStack() as stack:
        beside = stack.enter_context(ThreadPoolExecutor(2))
        two = [stack.enter_context(catalogued.connect()) for _ in range(2)]
        places = catalogued.catalog._pool._places
        # Statements of the test before have left; the catalog may have been started again for that.
        until(lambda: "alice" not in places or places["alice"]._value == 2)
        until(lambda: _answered(two[0]))
        running = [beside.submit(one.execute, SLEEPING) for one in two]
        until(lambda: "alice" in places and not places["alice"]._value)
        yield
        for one in two:
            one.cancel_safe()
        assert all(isinstance(one.exception(), QueryCanceled) for one in running)


@contextmanager
def not_started(catalogued: Any, patch: pytest.MonkeyPatch) -> Iterator[None]:
    settled = catalogued.catalog._pool._address.__self__._settled
    settled.clear()
    try:
        yield
    finally:
        settled.set()


@contextmanager
def not_there(catalogued: Any, patch: pytest.MonkeyPatch) -> Iterator[None]:
    patch.setattr("tallyveil.catalog.relay.RECOVERY", 600.0)
    patch.setattr(catalogued.catalog._pool, "_address", lambda: "/nonexistent")
    yield


@contextmanager
def takes_nobody_in(catalogued: Any, patch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = Path(catalogued.catalog._pool._address()).parent
    pid = int((folder / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


STATES: dict[str, tuple[str, Where]] = {
    "it is answered": (SLEEPING, lambda *_: nullcontext()),
    "it heeds no signal": (UNHEEDING, lambda *_: nullcontext()),
    "it waits for a place": (ASKED, no_place),
    "the catalog starts": (ASKED, not_started),
    "the catalog is gone": (ASKED, not_there),
    "the catalog takes nobody in": (ASKED, takes_nobody_in),
}


def _stops() -> Iterator[Any]:
    """What heeds no signal keeps a processor busy for seconds: one of the two is for long runs."""
    for state, how in itertools.product(STATES, ("cancel", "timeout")):
        slow = state == "it heeds no signal" and how == "timeout"
        marks = [pytest.mark.slow] if slow else []
        yield pytest.param(*STATES[state], how, id=f"{state}-{how}", marks=marks)


@pytest.mark.parametrize(("asked", "where", "how"), list(_stops()))
def test_a_question_is_stopped_wherever_it_is(
    catalogued: Any, monkeypatch: pytest.MonkeyPatch, asked: str, where: Where, how: str
) -> None:
    with catalogued.connect() as connection, ThreadPoolExecutor(1) as beside:
        with where(catalogued, monkeypatch):
            catalogued.catalog.close()  # what is kept open would answer at once
            if how == "timeout":
                connection.execute("SET statement_timeout = '300ms'")
            begun = _begun(monkeypatch)
            running = beside.submit(connection.execute, asked)
            assert begun.wait(SOON)
            if how == "cancel":
                connection.cancel_safe()
            words = "user request" if how == "cancel" else "statement timeout"
            assert words in canceled(running)
        monkeypatch.undo()
        connection.execute("RESET statement_timeout")
        until(lambda: _answered(connection))


def test_the_time_limit_says_that_it_is_the_catalogs_which_took_long(catalogued: Any) -> None:
    relay = catalogued.catalog.relay("alice", "tallyveil")
    with Deadline(limit=0.3).entered(), pytest.raises(StatementTooComplex) as caught:
        relay.answer(CatalogQuestion(SLEEPING), ())
    said = "the question about the catalogs took longer than the time limit"
    assert str(caught.value).splitlines()[0] == said
    assert "attributes" not in str(caught.value.hint)


def _begun(patch: pytest.MonkeyPatch) -> threading.Event:
    """Set once the server puts a question to the catalog, and then waits for whatever it waits for.
    Before that, a cancel would find nothing to stop."""
    begun, answer = threading.Event(), Relay.answer

    def told(self: Relay, question: CatalogQuestion, *others: Any, **named: Any) -> Any:
        if "pg_am" in question.sql:
            begun.set()
        return answer(self, question, *others, **named)

    patch.setattr(Relay, "answer", told)
    return begun


def _answered(connection: psycopg.Connection[Any]) -> bool:
    try:
        return connection.execute(ASKED).fetchone() is not None
    except psycopg.Error:  # it starts again, since one of its processes was killed
        return False
