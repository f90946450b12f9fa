"""What the accountant relies on in every store (`LedgerStore`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from tallyveil.accountant import LedgerAdvanced, LedgerStore, Seen
from tallyveil.accountant.store.chain import START, Position, linked
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    BudgetRecord,
    ChargeRecord,
    DerivationRecord,
    TableRecord,
)
from tallyveil.accountant.store.ledger_store import Snapshot, Transaction
from tallyveil.errors import LedgerError
from tests.accountant.stores import House, Houses


@pytest.fixture
def house(houses: Houses) -> House:
    """With two tables."""
    made = houses()
    with closing(made.open()) as store, store.transaction() as transaction:
        for name in ("person", "visit"):
            transaction.append(TableRecord(name, "f", "", "now"))
    return made


@pytest.fixture
def store(house: House) -> Iterator[LedgerStore]:
    with closing(house.open()) as opened:
        yield opened


@pytest.fixture
def other(house: House) -> Iterator[LedgerStore]:
    with closing(house.open()) as opened:
        yield opened


def charge(table: str = "person", sql: str = "SELECT 1") -> ChargeRecord:
    return ChargeRecord("2026-01-01T00:00:00+00:00", "ann", table, "laplace", sql, 5, 1, b"\x00x")


def charges(view: Snapshot) -> list[int]:
    return [end.number for _, end in view.after(ChargeRecord)]


def test_what_is_appended_is_there_for_others_and_linked(
    store: LedgerStore, other: LedgerStore
) -> None:
    records = [charge(sql=str(n)) for n in range(3)]
    with store.transaction() as transaction:
        ends = [transaction.append(record) for record in records]
        assert charges(transaction) == [1, 2, 3]
    with other.snapshot() as view:
        assert [*view.after(ChargeRecord)] == [*zip(records, ends, strict=True)]
        assert [*view.after(ChargeRecord, ends[0], 1)] == [(records[1], ends[1])]
        assert [*view.after(ChargeRecord, ends[2])] == []
        assert [*view.after(AnswerRecord)] == []
        assert [entry.sql for entry in view.history("person", 0, 3)] == ["0", "1", "2"]
        assert [entry.sql for entry in view.history(None, 1, 2)] == ["1"]
        assert [*view.history("visit", 0, 3)] == []
        assert view.charged_tables() == {"person": records[0].time}
    assert ends[0] == Position(1, linked(START.chain, 1, *records[0]))


def test_a_position_of_another_ledger_is_an_error(store: LedgerStore) -> None:
    with store.transaction() as transaction:
        transaction.append(charge())
    for seen in (Position(1, b"other"), Position(2, b"later")):
        with pytest.raises(LedgerError), store.snapshot() as view:
            list(view.after(ChargeRecord, seen))


def test_what_fails_leaves_nothing_and_no_gap(store: LedgerStore, other: LedgerStore) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.append(charge()).number / 0
    with other.transaction() as transaction:
        assert charges(transaction) == []
        assert transaction.append(charge()).number == 1


def test_what_is_kept_survives_a_failure(store: LedgerStore, other: LedgerStore) -> None:
    def failing(transaction: Transaction) -> None:
        transaction.append(charge(sql="kept"))
        transaction.keep()
        transaction.append(AnswerRecord(1, b"drawn"))
        raise MemoryError

    with pytest.raises(MemoryError), store.transaction() as transaction:
        failing(transaction)
    with other.snapshot() as view:
        assert [one.sql for one, _ in view.after(ChargeRecord)] == ["kept"]
        assert [*view.after(AnswerRecord)] == []
    # And nothing is kept of the next one.
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.append(charge()).number / 0
    with other.snapshot() as view:
        assert charges(view) == [1]


@pytest.mark.parametrize("step", [0, 1])
def test_what_became_of_a_lost_commit_is_known_afterwards(
    house: House, store: LedgerStore, step: int
) -> None:
    seen: list[str] = []

    def fault(_: int, asked: str) -> None:
        seen.append(asked)
        if seen.count(house.commit) == 1 + step and asked == house.commit:
            raise house.lost("it is lost here")

    house.fail(store, fault)
    with pytest.raises(LedgerError), store.transaction() as transaction:
        end = transaction.append(charge())
    assert transaction.version is None
    house.fail(store, lambda number, asked: None)
    with store.transaction() as transaction:
        assert transaction.outcome(ChargeRecord, end) == bool(step)
        assert not transaction.outcome(ChargeRecord, Position(1, b"other"))
        assert not transaction.outcome(AnswerRecord, end)


def test_a_decision_is_held_to_what_it_knew_of_its_tables(
    store: LedgerStore, other: LedgerStore
) -> None:
    """A charge or an answer about another table changes nothing."""
    with other.transaction() as transaction:
        transaction.append(charge("person"))
        transaction.append(charge("visit"))
    known = Seen(2, 0)
    with other.transaction() as transaction:
        transaction.append(AnswerRecord(1, b"x"))
        transaction.append(BudgetRecord("now", "visit", "{}"))
        transaction.append(DerivationRecord("visit", "ann", b"x"))
    with store.transaction({"visit": known}):
        pass
    with pytest.raises(LedgerAdvanced), store.transaction({"visit": known, "person": known}):
        pass
    with other.transaction() as transaction:
        transaction.append(charge("visit"))
    with pytest.raises(LedgerAdvanced), store.transaction({"visit": known}):
        pass
    with store.transaction({"visit": Seen(3, 0), "person": Seen(2, 1)}):
        pass


def test_each_commit_changes_the_version(store: LedgerStore, other: LedgerStore) -> None:
    versions = {store.version()}
    for number, one in enumerate((store, other, store)):
        with one.transaction() as transaction:
            transaction.append(charge())
        assert transaction.version == store.version() == other.version()
        versions.add(transaction.version)
        with other.snapshot() as view:
            assert view.version == transaction.version
        assert len(versions) == number + 2
    with store.transaction() as nothing:
        pass
    assert nothing.version == transaction.version == store.version()


def test_a_snapshot_inside_a_transaction_is_the_same(store: LedgerStore) -> None:
    with store.transaction() as transaction:
        transaction.append(charge())
        with store.snapshot() as view:
            assert charges(view) == [1]
    with store.snapshot() as view, store.snapshot() as same:
        assert charges(view) == charges(same) == [1]


def test_what_is_held_is_seen_by_others_until_it_is_let_go(
    store: LedgerStore, other: LedgerStore
) -> None:
    store.hold(3)
    store.hold(3)
    assert [other.is_held(number) for number in (2, 3)] == [False, True]
    store.let_go(3)
    assert other.is_held(3)
    store.let_go(3)
    assert not other.is_held(3)
    store.hold(4)
    store.wait(0.01)
    assert other.is_held(4)
    store.close()
    for _ in range(1_000):
        if not other.is_held(4):
            break
        other.wait(0.01)
    assert not other.is_held(4)


def test_a_checkpoint_is_there_for_others(store: LedgerStore, other: LedgerStore) -> None:
    assert store.has_checkpoint
    assert other.checkpoint() is None
    for parts in ([b"first"], [b"sec", memoryview(b"on"), b"d"]):
        store.write_checkpoint(iter(parts))
        assert other.checkpoint() == b"".join(parts)


def test_keys_are_the_same_in_every_process(store: LedgerStore, other: LedgerStore) -> None:
    assert store.key("rows") == other.key("rows") != store.key("data")


def test_a_forked_process_must_open_its_own_store(store: LedgerStore) -> None:
    child = os.fork()
    if child == 0:
        try:
            store.version()
        except LedgerError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
