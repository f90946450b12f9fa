"""A cancel, or a timeout: free until the charge is written, and then what was drawn is kept."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tests.accountant.ledgers import recorded_answers
from tests.wire.waiting import until

FEW = "SELECT count(*) FROM person WHERE age < 40"
MANY = "SELECT age, state, count(*) FROM person GROUP BY age, state"


class Asking:
    """A statement that is executed in a thread of its own."""

    def __init__(self, connection: psycopg.Connection[Any], sql: str) -> None:
        self.error: psycopg.Error | None = None
        self._connection, self._sql = connection, sql
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._connection.execute(self._sql)
        except psycopg.Error as error:
            self.error = error

    def running(self) -> bool:
        return self._thread.is_alive()

    def ended(self) -> psycopg.Error | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.error


@contextmanager
def another_writes(house: Any, lock: str = "IMMEDIATE") -> Iterator[None]:
    """Inside, another process is about to write to the ledger; EXCLUSIVE: it is writing."""
    with closing(sqlite3.connect(house.gate._ledger.path, isolation_level=None)) as other:
        other.execute(f"BEGIN {lock}")
        yield
        other.execute("ROLLBACK")


@contextmanager
def slow_drawing(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, Any]]:
    """Two events: noise is being drawn, and it may be drawn on."""
    drawing, go_on = threading.Event(), threading.Event()
    release = DiscreteLaplace.release

    def slow(self: Any, *arguments: Any) -> Any:
        drawing.set()
        assert go_on.wait(30)
        return release(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(DiscreteLaplace, "release", slow)
        yield drawing, go_on
        go_on.set()


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are waited for until somebody cancels, or the statement's time is over."""
    monkeypatch.setattr("tallyveil.accountant.store.sqlite_file._BUSY_SECONDS", 1_000.0)


@pytest.mark.usefixtures("_patient")
def test_who_waits_for_another_process_on_the_ledger_can_cancel(house: Any) -> None:
    """Two sessions: one waits for the file, the other one for the first."""
    with house.connect() as one, house.connect() as two, another_writes(house):
        asking = [Asking(one, FEW), Asking(two, MANY)]
        for sql in (FEW, MANY):
            until(lambda sql=sql: any(sql in str(key) for key in house.gate.plans.held()))
        one.cancel_safe()
        two.cancel_safe()
        assert [type(each.ended()) for each in asking] == [errors.QueryCanceled] * 2
    assert house.spent() == 0
    assert not house.gate.accountant.history()


def test_waiting_for_another_process_on_the_ledger_has_the_time_of_the_statement(
    house: Any,
) -> None:
    with house.connect() as connection:
        connection.execute(FEW.replace("40", "50"))
        before = house.spent()
        connection.execute("SET statement_timeout = 300")
        with another_writes(house), pytest.raises(errors.QueryCanceled, match="statement timeout"):
            connection.execute(FEW)
        assert house.spent() == before
        assert len(house.gate.accountant.history()) == 1
        connection.execute("SET statement_timeout = 0")
        assert connection.execute(FEW).fetchall()
    assert house.spent() == pytest.approx(2 * before)


@pytest.mark.usefixtures("_patient")
def test_who_reads_the_ledger_while_another_process_writes_can_cancel(house: Any) -> None:
    """The header that says whether there is anything to read cannot be trusted then."""
    reading = "SELECT * FROM dp.history"
    with house.connect() as connection, another_writes(house, "EXCLUSIVE"):
        connection.execute("SET statement_timeout = 300")
        with pytest.raises(errors.QueryCanceled, match="statement timeout"):
            connection.execute(reading)
        connection.execute("SET statement_timeout = 0")
        asking = Asking(connection, reading)
        while asking.running():
            connection.cancel_safe()
        assert isinstance(asking.ended(), errors.QueryCanceled)


@pytest.mark.parametrize("asked", [FEW, MANY])
@pytest.mark.parametrize("timeout", [False, True])
def test_what_is_drawn_when_a_statement_is_cancelled_is_kept(
    house: Any, monkeypatch: pytest.MonkeyPatch, asked: str, *, timeout: bool
) -> None:
    """The error says so; asked again it is free, and what the ledger holds."""
    with house.connect() as connection:
        if timeout:
            connection.execute("SET statement_timeout = 500")
        with slow_drawing(monkeypatch) as (drawing, go_on):
            asking = Asking(connection, asked)
            assert drawing.wait(30)
            if timeout:
                threading.Event().wait(0.5)
            else:
                connection.cancel_safe()
                house.connect().close()  # it has been served, and the cancel request before it
            go_on.set()
            error = asking.ended()
        assert isinstance(error, errors.QueryCanceled)
        assert "charged before (cost epsilon 0.05), and are kept" in str(error.diag.message_detail)
        assert "free" in str(error.diag.message_hint)
        spent = house.spent()
        assert spent == 0.05
        connection.execute("SET statement_timeout = 0")
        answer = [row[-1] for row in connection.execute(asked).fetchall()]
        assert house.spent() == spent
    ((held,),) = [[a.values] for a in recorded_answers(house.gate.accountant, "person")]
    assert sorted(answer) == sorted(held)


def test_cancels_one_after_the_other_leave_nothing_behind(house: Any) -> None:
    """At any moment: each charge is answered, what was told is in the ledger, no thread stays."""
    threads, told = threading.active_count(), []
    with house.connect(options="-c dp.source=fresh") as connection:
        for n in range(30):
            asking = Asking(connection, MANY.replace("GROUP", f"WHERE age > {n} GROUP"))
            threading.Event().wait(n / 300)
            connection.cancel_safe()
            error = asking.ended()
            assert error is None or isinstance(error, errors.QueryCanceled)
            told.append(error is None or "charged before" in str(error.diag.message_detail))
    accountant = house.gate.accountant
    assert not accountant.pending("person")
    assert accountant.recorded("person") == len(accountant.history()) == sum(told)
    until(lambda: threading.active_count() <= threads + 1)
