"""Whatever fails at whichever step: what was drawn is charged, and what left is in the ledger."""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.boundary import Receipt, TrueAnswer
from tallyveil.deadline import Deadline
from tallyveil.errors import BudgetExceeded, LedgerError, ReceiptError
from tallyveil.mechanisms import Adjacency, mechanism
from tallyveil.workload.workload import Workload
from tests.accountant.ledgers import recorded_answers

LAPLACE = mechanism("laplace")
COST = Fraction(1, 20)


class Connection:
    """An SQLite connection that calls ``fault`` before each statement, with its number."""

    def __init__(self, real: sqlite3.Connection, fault: Callable[[int], None]) -> None:
        self._real, self._fault, self._numbers = real, fault, itertools.count()

    def execute(self, *arguments: Any) -> Any:
        self._fault(next(self._numbers))
        return self._real.execute(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class World:
    """A ledger on disk, and a charge for two rows whose true answers are known."""

    def __init__(self, cubes: Any, path: Path) -> None:
        self.accounts, self.path = {"person": cubes.account(10)}, path
        workload = Workload("person", (cubes.column(["hue"], [[1, 0], [0, 1]]),))
        self.charge = Charge(workload, "laplace", (20.0,), "SELECT 1")
        self.drawn = 0
        self.ledger = Ledger(path)
        self._database: Any = self.ledger
        self._real = self._database._connection
        self.accountant = Accountant(self.ledger, self.accounts)

    def draw(self, number: int, receipt: Receipt) -> Any:
        self.drawn += 1
        return LAPLACE.release(TrueAnswer(self.charge.workload.key, [[3, 5]]), receipt)

    def sell(self, draw: Any = None) -> Any:
        return self.accountant.sell([self.charge], "alice", draw or self.draw)

    def charge_elsewhere(self) -> None:
        """As another process does."""
        with closing(Ledger(self.path)) as ledger:
            Accountant(ledger, self.accounts).charge([self.charge], "bob")

    def fail(self, fault: Callable[[int], None]) -> None:
        self._database._connection = Connection(self._real, fault)

    def known(self, accountant: Accountant | None = None) -> Any:
        """What an accountant knows: by default one that opens the ledger now."""
        if accountant is None:
            with closing(Ledger(self.path)) as ledger:
                return self.known(Accountant(ledger, self.accounts))
        answers = [(a.charge_id, a.values) for a in recorded_answers(accountant, "person")]
        charges = [entry.charge_id for entry in accountant.history()]
        return accountant.balance("person").spent, charges, answers


@pytest.fixture
def world(cubes: Any, tmp_path: Path) -> Iterator[World]:
    made = World(cubes, tmp_path / "ledger")
    yield made
    made.ledger.close()


def test_a_sale_is_one_commit(world: World) -> None:
    seen: list[str] = []
    world.ledger._connection.set_trace_callback(seen.append)
    sale = world.sell()
    assert seen.count("COMMIT") == 1
    spent, charges, answers = world.known()
    assert (spent, charges) == (COST, [1])
    assert answers == [(1, sale.answers[0][0])]
    assert world.known(world.accountant) == (spent, charges, answers)


def test_the_receipt_of_a_sale_is_used_up(world: World) -> None:
    (receipt,) = world.sell().receipts
    with pytest.raises(ReceiptError):
        world.draw(0, receipt)


@pytest.mark.parametrize("kind", [sqlite3.OperationalError, KeyboardInterrupt, MemoryError])
def test_whichever_statement_fails_what_was_drawn_is_charged(
    cubes: Any, tmp_path: Path, kind: type[BaseException]
) -> None:
    """One statement after the other, until none is left to fail."""
    outcomes = []
    for step in itertools.count():
        world = World(cubes, tmp_path / f"ledger{step}")

        def fault(number: int, step: int = step) -> None:
            if number == step:
                raise kind("it fails here")

        world.fail(fault)
        sale = None
        with suppress(LedgerError, KeyboardInterrupt, MemoryError):
            sale = world.sell()
        world.fail(lambda number: None)
        spent, charges, answers = known = world.known()
        assert len(charges) == world.drawn
        assert spent == COST * world.drawn
        if sale is not None:
            assert answers == [(1, sale.answers[0][0])]
        # The accountant goes on where the ledger is.
        assert world.known(world.accountant) == known
        world.accountant.charge([world.charge], "alice")
        assert world.known(world.accountant) == world.known()
        world.ledger.close()
        outcomes.append((world.drawn, len(answers)))
        if sale is not None:
            break
    assert outcomes[-1] == (1, 1)
    # Some failed before anything was drawn, some after, and one with all in the ledger.
    assert {(0, 0), (1, 0)} <= set(outcomes)


@pytest.mark.parametrize("error", [ReceiptError("no"), KeyboardInterrupt(), MemoryError()])
def test_a_drawing_that_fails_is_charged(world: World, error: BaseException) -> None:
    def draw(number: int, receipt: Receipt) -> Any:
        world.draw(number, receipt)
        raise error

    with pytest.raises(type(error)):
        world.sell(draw)
    assert world.known() == world.known(world.accountant) == (COST, [1], [])
    world.sell()
    assert world.known() == world.known(world.accountant)


def test_a_cancelled_statement_is_charged_where_sqlite_has_undone_its_charge(world: World) -> None:
    """And somebody else's charge has to be taken in first, between which it could be stopped."""
    running = Deadline()

    def draw(number: int, receipt: Receipt) -> Any:
        world.draw(number, receipt)
        world.ledger._connection.execute("ROLLBACK")
        other = threading.Thread(target=world.charge_elsewhere)
        other.start()
        other.join()
        running.cancel()
        raise MemoryError

    with pytest.raises(MemoryError), running.entered():
        world.sell(draw)
    assert world.known() == world.known(world.accountant) == (2 * COST, [1, 2], [])


def test_an_answer_is_recorded_though_its_statement_is_cancelled(world: World) -> None:
    (receipt,) = world.accountant.charge([world.charge], "alice")
    world.charge_elsewhere()
    running = Deadline()
    running.cancel()
    with running.entered():
        world.accountant.record(receipt, world.draw(0, receipt))
    assert [number for number, _ in world.known()[2]] == [1]


@pytest.mark.parametrize("undone", [False, True])
def test_a_charge_that_stays_is_logged_though_its_drawing_fails(
    world: World, caplog: pytest.LogCaptureFixture, *, undone: bool
) -> None:
    def draw(number: int, receipt: Receipt) -> Any:
        if undone:
            world.ledger._connection.execute("ROLLBACK")
        raise MemoryError

    with caplog.at_level("INFO", "tallyveil"), pytest.raises(MemoryError):
        world.sell(draw)
    assert [(r.message, r.fields["charge"]) for r in caplog.records] == [("charged", 1)]
    assert world.known()[1] == [1]


def test_an_answer_that_finds_no_room_on_the_disk_is_charged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own error, with what it makes of the transaction."""
    database = world.ledger
    world.sell()
    pages = database._pragma("page_count")
    monkeypatch.setattr("tallyveil.accountant.books.encode_answers", lambda _: bytes(100_000))
    for room in range(12):
        database._connection.execute(f"PRAGMA max_page_count = {pages + room}")
        before = world.known()[1]
        with pytest.raises(LedgerError, match="cannot be written"):
            world.sell()
        charged = world.known()[1]
        if room > 2:
            assert len(charged) == len(before) + 1
        pages = database._pragma("page_count")
    assert world.known() == world.known(world.accountant)


def test_a_disk_that_fails_for_good_lets_nothing_out(world: World) -> None:
    failing = False

    def fault(number: int) -> None:
        if failing:
            raise sqlite3.OperationalError("disk I/O error")

    def draw(number: int, receipt: Receipt) -> Any:
        nonlocal failing
        failing = True
        return world.draw(number, receipt)

    world.fail(fault)
    with pytest.raises(LedgerError):
        world.sell(draw)
    failing = False
    world.ledger._connection.execute("ROLLBACK")  # which it could not either
    assert world.known() == (0, [], [])


def test_nothing_is_drawn_for_what_is_refused(world: World) -> None:
    for _ in range(200):
        world.accountant.charge([world.charge], "alice")
    with pytest.raises(BudgetExceeded):
        world.sell()
    assert world.drawn == 0


def test_killed_at_any_step_all_of_a_sale_is_there_or_nothing(cubes: Any, tmp_path: Path) -> None:
    """What was handed out is; and a kill before the commit hands out nothing."""
    outcomes = set()
    for step in itertools.count():
        path = tmp_path / f"ledger{step}"
        World(cubes, path).ledger.close()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            world = World(cubes, path)

            def fault(number: int, step: int = step) -> None:
                if number == step:
                    os._exit(9)

            world.fail(fault)
            os.write(writer, repr(world.sell().answers[0][0]).encode())
            os._exit(0)
        os.close(writer)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told = os.read(reader, 1000)
        os.close(reader)
        world = World(cubes, path)
        spent, charges, answers = world.known()
        world.ledger.close()
        assert len(charges) == len(answers)
        assert spent == COST * len(charges)
        if told:
            assert repr(answers[0][1]).encode() == told
        outcomes.add((len(charges), bool(told)))
        if status == 0:
            break
    assert outcomes >= {(0, False), (1, True)}


def test_losses_add_up_whatever_fails(cubes: Any, tmp_path: Path) -> None:
    """Brute force over all cells: everything that was drawn is counted, to the unit."""
    chance = random.Random(11)
    world = World(cubes, tmp_path / "ledger")
    drawn, relation = [], Adjacency("add_remove")
    number = itertools.count()
    steps: set[int] = set()

    def fault(_: int) -> None:
        if next(number) in steps:
            raise sqlite3.OperationalError("it fails here")

    world.fail(fault)
    for _ in range(60):
        dense = [[chance.choice([0, 1, 1, -2]) for _ in range(3)] for _ in range(2)]
        release = cubes.release(
            (cubes.column(["age"], dense),), (chance.choice([30.0, 70.0, 200.0]),)
        )
        charge = Charge(release.workload, "laplace", release.scales, "SELECT 1")

        def draw(_: int, receipt: Receipt, release: Any = release) -> Any:
            drawn.append(release)
            return LAPLACE.release(TrueAnswer(release.workload.key, [[1, 2]]), receipt)

        start = next(number)
        steps = {start + chance.randrange(1, 14)} if chance.random() < 0.7 else set()
        with suppress(LedgerError, BudgetExceeded):
            world.accountant.sell([charge], "alice", draw)
    steps = set()
    spent = world.accountant.balance("person").spent
    assert spent * 10**12 == cubes.truth(drawn, relation)
    assert world.known()[0] == spent
    assert len(drawn) == len(world.accountant.history())
    assert len(recorded_answers(world.accountant, "person")) < len(drawn)
    world.ledger.close()
