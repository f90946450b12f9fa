"""Whatever fails at whichever step: what was drawn is charged, and what left is in the ledger."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant import (
    Accountant,
    Charge,
    ReplacementRecord,
    VersionAdvanced,
    VersionLog,
    publish_replacement,
)
from tallyveil.accountant.store.standing import Standing
from tallyveil.boundary import Receipt, TrueAnswer
from tallyveil.deadline import Deadline
from tallyveil.errors import BudgetExceeded, LedgerError, ReceiptError
from tallyveil.mechanisms import Adjacency, mechanism
from tallyveil.workload.workload import Workload
from tests.accountant.ledgers import recorded_answers
from tests.accountant.stores import House, Houses, SqliteHouse

LAPLACE = mechanism("laplace")
COST = Fraction(1, 20)


class World:
    """A ledger, and a charge for two rows whose true answers are known."""

    def __init__(self, cubes: Any, house: House) -> None:
        self.accounts, self.house = {"person": cubes.account(10)}, house
        workload = Workload("person", (cubes.column(["hue"], [[1, 0], [0, 1]]),))
        self.charge = Charge(workload, "laplace", (20.0,), "SELECT 1")
        self.drawn = 0
        self.ledger = house.open()
        self.accountant = Accountant(self.ledger, self.accounts)

    def draw(self, number: int, receipt: Receipt) -> Any:
        self.drawn += 1
        return LAPLACE.release(TrueAnswer(self.charge.workload.key, [[3, 5]]), receipt)

    def sell(self, draw: Any = None) -> Any:
        return self.accountant.sell([self.charge], "alice", draw or self.draw)

    def charge_elsewhere(self) -> None:
        """As another process does."""
        with closing(self.house.open()) as ledger:
            Accountant(ledger, self.accounts).charge([self.charge], "bob")

    def replace_elsewhere(self) -> None:
        """All rows, by a version that another process publishes."""
        with closing(self.house.open()) as ledger:
            number = len(VersionLog(ledger).of("person", ReplacementRecord)) + 1
            record = ReplacementRecord("person", number, 0, 0, "", "")
            assert publish_replacement(ledger, self.accounts, record)

    def fail(self, fault: Callable[[int, str], None]) -> None:
        self.house.fail(self.ledger, fault)

    def recover(self) -> None:
        self.fail(lambda number, step: None)

    def undo(self) -> None:
        self.house.undo(self.ledger)

    def known(self, accountant: Accountant | None = None) -> Any:
        """What an accountant knows: by default one that opens the ledger now."""
        if accountant is None:
            with closing(self.house.open()) as ledger:
                return self.known(Accountant(ledger, self.accounts))
        answers = [(a.charge_id, a.values) for a in recorded_answers(accountant, "person")]
        charges = [entry.charge_id for entry in accountant.history()]
        return accountant.balance("person").spent, charges, answers


@pytest.fixture
def world(cubes: Any, houses: Houses) -> Iterator[World]:
    made = World(cubes, houses())
    yield made
    made.ledger.close()


def test_a_sale_is_one_commit(world: World) -> None:
    seen: list[str] = []
    world.fail(lambda number, step: seen.append(step))
    sale = world.sell()
    assert seen.count(world.house.commit) == 2  # before it and after it
    spent, charges, answers = world.known()
    assert (spent, charges) == (COST, [1])
    assert answers == [(1, sale.answers[0][0])]
    assert world.known(world.accountant) == (spent, charges, answers)


def _read(accountant: Accountant) -> Any:
    """What statements that are answered from history read, in a thread of their own."""
    found: list[Any] = []

    def read() -> None:
        extent, spent = accountant.extent("person"), accountant.balance("person").spent
        learned, share = accountant.learned("person", 0, 0)[0], accountant.share("person", "alice")
        found.append((extent, spent, len(learned), share, accountant.seen()))

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    reading.join(20)
    return found


def test_who_only_reads_waits_for_no_commit(world: World) -> None:
    """It reads what was known before; once a sale has ended, nothing less than that."""
    first, found = world.sell(), list[Any]()
    before = _read(world.accountant)
    steps = 2 if isinstance(world.house, SqliteHouse) else 0  # the other store does not tell

    def read(number: int, step: str) -> None:
        if step == world.house.commit and len(found) < steps:
            found.append(_read(world.accountant))

    world.fail(read)
    sale = world.sell()
    world.recover()
    assert found == [before] * steps
    ((extent, spent, learned, _, seen),) = _read(world.accountant)
    assert (extent, spent, learned, seen) == ((2, 0), 2 * COST, 2, (2, 2))
    known = world.known(world.accountant)
    assert known[2] == [(1, first.answers[0][0]), (2, sale.answers[0][0])]


@pytest.mark.parametrize("failing", [False, True])
def test_who_reads_after_another_process_has_charged_knows_that(
    world: World, monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    """Also before the own transaction, which has just ended, is in the state."""
    end, later = Standing.end, list[Any]()
    other = Accountant(world.house.open(), world.accounts)  # so that it commits once

    def slowly(standing: Standing) -> None:
        if not later:
            later.append(None)
            elsewhere = threading.Thread(target=other.charge, args=([world.charge], "bob"))
            elsewhere.start()
            elsewhere.join()
            with standing.read() as stands:
                assert not stands
        end(standing)

    def fault(number: int, step: str) -> None:
        if step == world.house.commit:
            world.fail(lambda number, step: None)
            raise OSError("the disk is full")

    monkeypatch.setattr(Standing, "end", slowly)
    if failing:
        world.fail(fault)
        with suppress(LedgerError, OSError):
            world.accountant.charge([world.charge], "alice")
    else:
        world.sell()
    assert later
    other._ledger.close()
    assert world.known(world.accountant) == world.known()


def test_the_receipt_of_a_sale_is_used_up(world: World) -> None:
    (receipt,) = world.sell().receipts
    with pytest.raises(ReceiptError):
        world.draw(0, receipt)


@pytest.mark.parametrize(
    ("houses", "kind"),
    [
        ("sqlite", "lost"),
        ("sqlite", KeyboardInterrupt),
        ("sqlite", MemoryError),
        ("remote", "lost"),
        pytest.param("remote", KeyboardInterrupt, marks=pytest.mark.slow),
        pytest.param("remote", MemoryError, marks=pytest.mark.slow),
    ],
    indirect=["houses"],
)
def test_whichever_step_fails_what_was_drawn_is_charged(
    cubes: Any, houses: Houses, kind: Any
) -> None:
    """One step after the other, before it and after it, until none is left to fail."""
    outcomes, reached = [], True
    for failing in itertools.count():
        world, reached = World(cubes, houses()), False
        error = world.house.lost if kind == "lost" else kind

        def fault(number: int, _: str, failing: int = failing, error: Any = error) -> None:
            nonlocal reached
            if number == failing:
                reached = True
                raise error("it fails here")

        world.fail(fault)
        sale = detail = None
        try:
            sale = world.sell()
        except (LedgerError, KeyboardInterrupt, MemoryError) as caught:
            detail = str(getattr(caught, "detail", None))
        world.recover()
        spent, charges, answers = known = world.known()
        assert len(charges) == world.drawn
        assert spent == COST * world.drawn
        if sale is not None:
            assert answers == [(1, sale.answers[0][0])]
        elif kind == "lost":
            assert ("The charge is kept" in str(detail)) == bool(charges)
            assert ("Nothing was charged" in str(detail)) == (not charges)
        # The accountant goes on where the ledger is.
        assert world.known(world.accountant) == known
        world.accountant.charge([world.charge], "alice")
        assert world.known(world.accountant) == world.known()
        world.ledger.close()
        outcomes.append((world.drawn, len(answers)))
        if not reached:
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


def test_a_cancelled_statement_is_charged_where_the_store_lost_its_charge(
    world: World,
) -> None:
    """And somebody else's charge has to be taken in first, between which it could be stopped."""
    running = Deadline()

    def draw(number: int, receipt: Receipt) -> Any:
        world.draw(number, receipt)
        world.undo()
        other = threading.Thread(target=world.charge_elsewhere)
        other.start()
        other.join()
        running.cancel()
        raise MemoryError

    with pytest.raises(MemoryError), running.entered():
        world.sell(draw)
    assert world.known() == world.known(world.accountant) == (2 * COST, [1, 2], [])


@pytest.mark.parametrize("undone", [False, True])
def test_a_charge_of_a_former_version_is_not_written_again(world: World, *, undone: bool) -> None:
    """Under the next one it would count as a loss in other cells than those that were asked."""
    world.replace_elsewhere()

    def draw(number: int, receipt: Receipt) -> Any:
        world.draw(number, receipt)
        if undone:
            world.undo()
            other = threading.Thread(target=world.replace_elsewhere)
            other.start()
            other.join()
        raise MemoryError

    with pytest.raises(MemoryError):
        world.accountant.sell([world.charge], "alice", draw, versions={"person": 1})
    assert world.known()[1] == ([] if undone else [1])
    with pytest.raises(VersionAdvanced):
        world.accountant.sell([world.charge], "alice", world.draw, versions={"person": 3})
    assert world.drawn == 1


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
            world.undo()
        raise MemoryError

    with caplog.at_level("INFO", "tallyveil"), pytest.raises(MemoryError):
        world.sell(draw)
    assert [(r.message, r.fields["charge"]) for r in caplog.records] == [("charged", 1)]
    assert world.known()[1] == [1]


def test_an_answer_that_finds_no_room_on_the_disk_is_charged(
    cubes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own error, with what it makes of the transaction."""
    world = World(cubes, SqliteHouse(tmp_path))
    ledger: Any = world.ledger
    world.sell()

    def page_count() -> int:
        number: int = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        return number

    pages = page_count()
    monkeypatch.setattr("tallyveil.accountant.sale.encode_answers", lambda _: bytes(100_000))
    for room in range(12):
        ledger._connection.execute(f"PRAGMA max_page_count = {pages + room}")
        before = world.known()[1]
        with pytest.raises(LedgerError, match="cannot be written"):
            world.sell()
        charged = world.known()[1]
        if room > 2:
            assert len(charged) == len(before) + 1
        pages = page_count()
    assert world.known() == world.known(world.accountant)
    world.ledger.close()


def test_a_store_that_fails_for_good_lets_nothing_out(world: World) -> None:
    """Nor does it say that nothing was charged, which nobody knows then."""
    failing = False

    def fault(number: int, _: str) -> None:
        if failing:
            raise world.house.lost("disk I/O error")

    def draw(number: int, receipt: Receipt) -> Any:
        nonlocal failing
        failing = True
        return world.draw(number, receipt)

    world.fail(fault)
    with pytest.raises(LedgerError) as lost:
        world.sell(draw)
    assert "Whether this was charged is not known" in str(lost.value.detail)
    failing = False
    world.undo()  # which it could not either
    assert world.known() == (0, [], [])


def lose(world: World, commits: Iterator[int], lost: Sequence[int], _: int, step: str) -> None:
    """Lose these of the commits, counted before each and after it."""
    if step == world.house.commit and next(commits) in lost:
        raise world.house.lost("it is lost here")


@pytest.mark.parametrize("drawn", [False, True])
def test_a_sale_whose_commit_is_lost_is_complete_or_charged(
    cubes: Any, houses: Houses, *, drawn: bool
) -> None:
    """Before it or after it, once or twice: what is in the ledger is what the analyst hears."""
    outcomes = set()
    for lost in ([0], [1], [0, 2], [0, 3], [1, 2], [0, 1, 2]):
        world = World(cubes, houses())
        commits = itertools.count()

        world.fail(partial(lose, world, commits, lost))
        sale, detail = None, ""
        try:
            draw = world.draw if drawn else None
            sale = world.accountant.sell([world.charge], "alice", draw)
        except LedgerError as error:
            detail = str(error.detail)
        world.recover()
        spent, charges, answers = known = world.known()
        assert spent == COST * len(charges)
        assert world.known(world.accountant) == known
        if sale is not None:
            assert [one.charge_id for one in sale.receipts] == charges == [1]
            assert answers == [(1, own[0]) for own in sale.answers]
        else:
            assert len(charges) == world.drawn
            assert ("The charge is kept" in detail) == bool(charges)
            assert ("Nothing was charged" in detail) <= (not charges)
        outcomes.add((sale is not None, len(charges), len(answers)))
        world.ledger.close()
    complete = (True, 1, 1) if drawn else (True, 1, 0)
    failed = (False, 1, 0) if drawn else (False, 0, 0)
    assert outcomes == {complete, failed}


def test_an_answer_whose_commit_is_lost_is_recorded_or_not(world: World) -> None:
    """By a second commit, after that of its charge."""
    for lost in (0, 1):
        (receipt,) = world.accountant.charge([world.charge], "alice")
        commits = itertools.count()

        def fault(_: int, step: str, lost: int = lost, commits: Any = commits) -> None:
            if step == world.house.commit and next(commits) == lost:
                raise world.house.lost("it is lost here")

        values = world.draw(0, receipt)
        world.fail(fault)
        if lost:
            world.accountant.record(receipt, values)
        else:
            with pytest.raises(LedgerError):
                world.accountant.record(receipt, values)
        world.recover()
        assert (receipt.charge_id in dict(world.known()[2])) == bool(lost)
        assert world.known() == world.known(world.accountant)


def test_nothing_is_drawn_for_what_is_refused(world: World) -> None:
    for _ in range(200):
        world.accountant.charge([world.charge], "alice")
    with pytest.raises(BudgetExceeded):
        world.sell()
    assert world.drawn == 0


@pytest.mark.parametrize(
    "houses", ["sqlite", pytest.param("remote", marks=pytest.mark.slow)], indirect=True
)
def test_killed_at_any_step_all_of_a_sale_is_there_or_nothing(cubes: Any, houses: Houses) -> None:
    """What was handed out is; and a kill before the commit hands out nothing."""
    outcomes = set()
    for step in itertools.count():
        house = houses()
        World(cubes, house).ledger.close()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            world = World(cubes, house)

            def fault(number: int, _: str, step: int = step) -> None:
                if number == step:
                    os._exit(9)

            world.fail(fault)
            os.write(writer, repr(world.sell().answers[0][0]).encode())
            os._exit(0)
        os.close(writer)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told = os.read(reader, 1000)
        os.close(reader)
        world = World(cubes, house)
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


def test_losses_add_up_whatever_fails(cubes: Any, world: World) -> None:
    """Brute force over all cells: everything that was drawn is counted, to the unit."""
    chance = random.Random(11)
    drawn, relation = [], Adjacency("add_remove")
    number = itertools.count()
    steps: set[int] = set()

    def fault(_: int, __: str) -> None:
        if next(number) in steps:
            raise world.house.lost("it fails here")

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
        steps = {start + chance.randrange(1, 40)} if chance.random() < 0.7 else set()
        with suppress(LedgerError, BudgetExceeded):
            world.accountant.sell([charge], "alice", draw)
    steps = set()
    spent = world.accountant.balance("person").spent
    assert spent * 10**12 == cubes.truth(drawn, relation)
    assert world.known()[0] == spent
    assert len(drawn) == len(world.accountant.history())
    assert len(recorded_answers(world.accountant, "person")) < len(drawn)
