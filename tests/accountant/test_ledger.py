"""The ledger file: durable, append-only, shared, and closed to anything doubtful."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.accountant.store.chain import linked
from tallyveil.accountant.store.event_codec import decode_answers, encode_answers, encode_charge
from tallyveil.accountant.store.sqlite_ledger import SqliteTransaction
from tallyveil.deadline import Deadline
from tallyveil.errors import LedgerError, StatementTooComplex
from tallyveil.mechanisms import Adjacency
from tallyveil.workload.workload import Workload
from tests.accountant.ledgers import altered, asked, raw, read, recorded_answers


@pytest.fixture
def accountant(cubes: Any, path: Path, charge: Charge) -> Iterator[Accountant]:
    """With three charges made, two of them answered."""
    ledger = Ledger(path)
    made = Accountant(ledger, {"person": cubes.account()})
    for n in range(3):
        (receipt,) = made.charge([charge], "alice")
        if n < 2:
            made.record(receipt, [[n]])
    yield made
    ledger.close()


def reopened(cubes: Any, path: Path) -> Accountant:
    return Accountant(Ledger(path, create=False), {"person": cubes.account()})


def test_only_its_owner_may_read_it(accountant: Accountant, path: Path) -> None:
    for file in path.parent.glob(path.name + "*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # The draft it was made from is gone.
    assert {f.name for f in path.parent.iterdir()} <= {path.name + s for s in ("", "-journal")}


def test_writes_wait_for_the_disk(accountant: Accountant) -> None:
    ledger: Any = accountant._ledger
    # A write-ahead log would be a second file that the charges are in.
    for pragma, value in (("journal_mode", "persist"), ("synchronous", 2)):
        assert ledger._connection.execute(f"PRAGMA {pragma}").fetchone() == (value,)


@pytest.mark.parametrize("table", ["charge", "answer", "protected_table"])
def test_nothing_is_ever_changed_or_deleted(accountant: Accountant, path: Path, table: str) -> None:
    with raw(path) as db:
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET rowid = rowid + 7"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                db.execute(change)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM charge WHERE id = 2",
        "DELETE FROM charge WHERE id = 3",
        "UPDATE charge SET cost = 0 WHERE id = 1",
        "UPDATE charge SET columns = zeroblob(20) WHERE id = 2",
        "UPDATE charge SET analyst = 'mallory' WHERE id = 3",
        "UPDATE charge SET measure = 'rho' WHERE id = 2",
        "UPDATE sqlite_sequence SET seq = 'three' WHERE name = 'charge'",
        "DELETE FROM sqlite_sequence",
        "DELETE FROM answer WHERE id = 2",
        "UPDATE answer SET charge_id = 3 WHERE id = 1",
        "UPDATE protected_table SET name = 'persons'",
    ],
)
def test_altered_rows_are_noticed(
    cubes: Any, accountant: Accountant, path: Path, change: str
) -> None:
    altered(path, change)
    with pytest.raises(LedgerError, match="lost or altered"):
        reopened(cubes, path)


_VALUES = st.lists(st.sampled_from([0, 1, 11, "", "1", "', '", "[1", b"", b"1", b"11", b", 1]"]))


@given(_VALUES, _VALUES)
def test_rows_that_differ_are_linked_otherwise(one: list[Any], other: list[Any]) -> None:
    assert (linked(b"", *one) == linked(b"", *other)) == (repr(one) == repr(other))


@pytest.mark.parametrize("noisy", [b"", b"x", encode_answers([[1, 2]]), zlib.compress(b'[["7"]]')])
def test_a_damaged_answer_is_noticed(
    cubes: Any, accountant: Accountant, path: Path, noisy: bytes
) -> None:
    with raw(path) as db:
        (before,) = db.execute("SELECT chain FROM answer WHERE id = 2").fetchone()
        row = (3, 3, noisy, linked(before, 3, 3, noisy))
        db.execute("INSERT INTO answer VALUES (?, ?, ?, ?)", row)
    with pytest.raises(LedgerError, match="an answer in the ledger"):
        reopened(cubes, path)


def test_what_is_no_ledger_is_refused(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(path)
    path.write_bytes(b"twelve apples, four pears" * 100)
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(path)
    path.unlink()
    with raw(path) as db:
        db.execute("CREATE TABLE t (a)")
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(path)


def test_a_missing_ledger_is_made_only_if_wanted(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(path, create=False)
    with pytest.raises(LedgerError) as refused:
        Ledger(tmp_path / "no" / "such" / "directory")
    assert refused.value.sqlstate == "58030"
    Ledger(path).close()
    Ledger(path, create=False).close()


def test_a_ledger_with_another_hard_link_is_refused_by_each_of_its_names(
    path: Path, tmp_path: Path
) -> None:
    """A crash would leave its journal beside one of them, and the other be opened without it."""
    Ledger(path).close()
    other, symbolic = tmp_path / "other", tmp_path / "symbolic"
    other.hardlink_to(path)
    before = path.read_bytes()
    for name in (path, other):
        with pytest.raises(LedgerError, match="has another hard link"):
            Ledger(name)
    assert path.read_bytes() == before
    other.rename(tmp_path / f".{path.name}.0123")  # as after a crash while it was made
    symbolic.symlink_to(path)
    for name in (path, symbolic):
        Ledger(name, create=False).close()


@pytest.mark.parametrize("version", [0, 9, 99])
def test_another_format_is_refused_and_left_as_it_is(
    accountant: Accountant, path: Path, version: int
) -> None:
    with raw(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=f"has format {version}, this program reads format 14"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_torn_file_is_refused(cubes: Any, path: Path, charge: Charge) -> None:
    ledger = Ledger(path)
    accountant = Accountant(ledger, {"person": cubes.account()})
    for _ in range(40):
        accountant.charge([charge], "alice")
    ledger.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(LedgerError):
        reopened(cubes, path)


@pytest.mark.parametrize("fate", ["gone", "moved", "swapped"])
def test_a_ledger_that_disappears_ends_all_charging(
    cubes: Any, accountant: Accountant, charge: Charge, path: Path, fate: str
) -> None:
    if fate == "gone":
        path.unlink()
    else:
        path.rename(path.with_name("elsewhere"))
    if fate == "swapped":
        Ledger(path).close()
    for use in (lambda: accountant.charge([charge], "alice"), lambda: accountant.balance("person")):
        with pytest.raises(LedgerError) as caught:
            use()
        assert ("was replaced" if fate == "swapped" else "was removed") in str(caught.value)
        hint = "counts only what" if fate == "swapped" else "with nothing spent"
        assert hint in str(caught.value.hint)


def test_an_older_copy_put_back_is_noticed(
    cubes: Any, accountant: Accountant, charge: Charge, path: Path, tmp_path: Path
) -> None:
    with raw(path) as db, raw(tmp_path / "copy") as copy:
        db.backup(copy)
    accountant.charge([charge], "alice")
    with raw(path) as db, raw(tmp_path / "copy") as copy:
        copy.backup(db)
    with pytest.raises(LedgerError, match="lost or altered"):
        accountant.charge([charge], "alice")


def test_a_locked_ledger_is_an_error_and_not_a_charge(
    accountant: Accountant, charge: Charge, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = accountant.balance("person")
    accountant.price([charge])
    monkeypatch.setattr("tallyveil.accountant.store.sqlite_file._BUSY_SECONDS", 0.02)
    with raw(path) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="cannot be written") as locked:
            accountant.charge([charge], "alice")
        assert str(locked.value.hint).startswith("Another program has locked the file.")
        monkeypatch.setattr("tallyveil.accountant.store.sqlite_file._BUSY_SECONDS", 60)
        with (
            Deadline(limit=0).entered(),
            pytest.raises(StatementTooComplex, match="waiting for the ledger took longer") as late,
        ):
            accountant.charge([charge], "alice")
        assert "another program has locked the ledger" in str(late.value.hint)
        db.execute("ROLLBACK")
    assert accountant.balance("person") == before
    accountant.charge([charge], "alice")


def test_an_error_while_writing_leaves_nothing_behind(
    accountant: Accountant, charge: Charge, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = accountant.balance("person"), accountant.history()
    append, calls = SqliteTransaction.append, []

    def failing(transaction: SqliteTransaction, record: Any) -> Any:
        calls.append(record)
        if len(calls) == 2:
            raise sqlite3.OperationalError("disk I/O error")
        return append(transaction, record)

    monkeypatch.setattr(SqliteTransaction, "append", failing)
    with pytest.raises(LedgerError, match="cannot be written"):
        accountant.charge([charge, charge], "alice")
    assert (accountant.balance("person"), accountant.history()) == before


def test_a_forked_process_must_open_its_own(accountant: Accountant) -> None:
    child = os.fork()
    if child == 0:
        try:
            accountant.balance("person")
        except LedgerError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_copy_of_a_closed_ledger_is_a_backup(
    cubes: Any, accountant: Accountant, path: Path, tmp_path: Path
) -> None:
    balance = accountant.balance("person")
    accountant._ledger.close()
    shutil.copy(path, tmp_path / "backup")
    assert reopened(cubes, tmp_path / "backup").balance("person") == balance


@given(st.data())
def test_columns_survive_the_ledger(cubes: Any, data: st.DataObject) -> None:
    for release in data.draw(cubes.histories):
        charge = asked(release.columns, release.scales, law="discrete_laplace")
        again = read(encode_charge(charge, Adjacency("replace", 2)))
        assert (again.scales, again.law) == (release.scales, "discrete_laplace")
        assert again.workload.key == Workload("t", release.columns).key


def test_wide_and_rational_columns_survive_the_ledger(cubes: Any) -> None:
    column = cubes.column(["age"], [[2**40, -(2**62), 0], [0, 200, -129]], "5/3")
    (again,) = read(encode_charge(asked((column,), (0.1,)))).workload.columns
    assert again.multiplier == column.multiplier
    (known,), (factor,) = again.factors, column.factors
    assert np.array_equal(known.coefficients, factor.coefficients)


@example([[*range(4_500)], [], [-7]])
@given(st.lists(st.lists(st.integers())))
def test_answers_survive_the_ledger(values: list[list[int]]) -> None:
    heights = [len(column) for column in values]
    assert decode_answers(encode_answers(values), heights) == tuple(map(tuple, values))


def test_others_can_charge_while_a_ledger_is_opened(
    cubes: Any, accountant: Accountant, charge: Charge, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, times = Ledger.snapshot, iter(range(5))

    def busy(ledger: Ledger) -> Any:
        if ledger is not accountant._ledger and next(times, None) is not None:
            (receipt,) = accountant.charge([charge], "bob")
            accountant.record(receipt, [[7]])
        return snapshot(ledger)

    monkeypatch.setattr("tallyveil.accountant.ledger_state.BATCH", 1)
    monkeypatch.setattr(Ledger, "snapshot", busy)
    opened = reopened(cubes, path)
    assert len(opened.history()) == 8
    assert opened.balance("person") == accountant.balance("person")
    known = [
        [(a.charge_id, a.values) for a in recorded_answers(one, "person")]
        for one in (opened, accountant)
    ]
    assert known[0] == known[1]
    assert len(known[0]) == 7
    opened._ledger.close()
