"""What is recorded is read while other threads ask, and no answer is lost between two readings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tallyveil.accountant import Account, Accountant, Charge, Ledger
from tallyveil.deadline import Deadline
from tallyveil.errors import QueryCanceled
from tallyveil.knowledge import Aim, Knowledge
from tallyveil.mechanisms import mechanism
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.workload import workload
from tallyveil.workload.workload import Column, Factor, Workload

DAYS = 600
DOMAIN = Domain("person", (Attribute("day", "range", "BIGINT", tuple(range(DAYS))),))
ACCOUNTS = {"person": Account(DOMAIN, "add_remove", 1, Fraction(10), "f")}
AIM = Aim(mechanism("laplace"), 20.0, None, Fraction("0.95"))
PATIENCE = 60.0  # seconds after which a thread that should have ended is a failure


def days(first: int, last: int) -> Column:
    """A row for each of these days."""
    places = np.arange(last - first)
    return Column((Factor(("day",), (DAYS,), len(places), places, first + places, places * 0 + 1),))


def charge(first: int, last: int) -> Charge:
    return Charge(Workload("person", (days(first, last),)), "laplace", (20.0,), "SELECT 1")


def bought(accountant: Accountant, first: int, last: int) -> None:
    (receipt,) = accountant.charge([charge(first, last)], "alice")
    accountant.record(receipt, [range(first, last)])


def values(knowledge: Knowledge, first: int, last: int) -> list[int | None]:
    ((*rows,),) = knowledge.find([days(first, last)], [AIM]).rows
    return [None if row is None else round(row.value) for row in rows]


@pytest.fixture
def accountants(tmp_path: Path) -> Iterator[tuple[Accountant, Accountant]]:
    """As of two processes on one ledger."""
    with closing(Ledger(tmp_path / "l")) as here, closing(Ledger(tmp_path / "l")) as there:
        yield Accountant(here, ACCOUNTS), Accountant(there, ACCOUNTS)


def test_nobody_waits_while_another_thread_reads_a_large_answer(
    accountants: tuple[Accountant, Accountant], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread stops where it names the many rows that another process has bought."""
    here, there = accountants
    bought(here, 0, 2)
    bought(there, 0, DAYS)
    named, naming, go_on = workload.row_key, threading.Event(), threading.Event()
    found: list[Any] = []
    rows = list[bytes]()

    def slowly(parts: Any) -> bytes:
        if threading.current_thread() is reader:
            rows.append(named(parts))
            if len(rows) == DAYS // 2:
                naming.set()
                assert go_on.wait(PATIENCE)
        return named(parts)

    monkeypatch.setattr(workload, "row_key", slowly)
    knowledge = Knowledge(here, "person")
    reader = threading.Thread(target=lambda: found.append(values(knowledge, 5, 7)))
    other = threading.Thread(target=lambda: found.append(values(knowledge, 0, 2)))
    reader.start()
    assert naming.wait(PATIENCE)
    other.start()
    other.join(PATIENCE)
    assert found == [[0, 1]]
    go_on.set()
    reader.join(PATIENCE)
    assert found == [[0, 1], [5, 6]]


def test_who_waits_for_what_is_known_can_be_cancelled(
    accountants: tuple[Accountant, Accountant],
) -> None:
    here, _ = accountants
    knowledge, deadline, raised = Knowledge(here, "person"), Deadline(), list[BaseException]()

    def ask() -> None:
        with deadline.entered(), pytest.raises(QueryCanceled) as error:
            knowledge._learned()
        raised.append(error.value)

    waiting = threading.Thread(target=ask)
    with knowledge._lock:
        deadline.cancel()
        waiting.start()
        waiting.join(PATIENCE)
        assert len(raised) == 1


def test_all_threads_that_read_at_once_know_each_answer_once(
    accountants: tuple[Accountant, Accountant],
) -> None:
    """Of more answers than are added at a time, some of which a thread finds added already."""
    here, there = accountants
    for first in range(40):
        bought(there, first, first + 2)
    knowledge, found = Knowledge(here, "person"), list[Any]()
    together = threading.Barrier(4)

    def ask() -> None:
        together.wait(PATIENCE)
        found.append(values(knowledge, 0, 2))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    state, seen = knowledge._learned()
    assert (state.releases, seen) == (40, 40)
    assert [state.answer(n).charge_id for n in range(seen)] == [*range(1, 41)]
    assert found == [found[0]] * 4


def test_an_answer_learnt_during_a_preview_still_counts_as_awaited(
    accountants: tuple[Accountant, Accountant], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not among the columns that the preview looks at, so it must be among the others."""
    here, _ = accountants
    (receipt,) = here.charge([charge(0, 2)], "alice")
    knowledge = Knowledge(here, "person")
    learned = knowledge._learned

    def then_another_learns() -> Any:
        found = learned()
        here.record(receipt, [[3, 4]])
        learned()
        return found

    monkeypatch.setattr(knowledge, "_learned", then_another_learns)
    (preview,) = knowledge.previews(charge(0, 3))
    assert preview.origin.tolist() == [0, 0, 0, -1, -1]
    assert np.isnan(preview.values).all()
