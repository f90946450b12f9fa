"""How far a ledger has come is known without a lock, and without taking one away."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tallyveil.accountant import Ledger
from tallyveil.accountant.store.file_header import Header
from tallyveil.accountant.store.ledger_records import TableRecord
from tallyveil.accountant.store.ledger_store import Transaction
from tallyveil.errors import LedgerError
from tests.programs import run, start

WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("free")
except sqlite3.OperationalError:
    print("locked")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Ledger(tmp_path / "ledger").close()
    return tmp_path / "ledger"


def add(transaction: Transaction, *tables: str) -> None:
    for table in tables:
        transaction.append(TableRecord(table, "fingerprint", "", ""))


def another_process_finds(path: Path) -> str:
    command = [sys.executable, "-c", WRITE, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_each_commit_changes_it_whoever_makes_it(path: Path) -> None:
    one, two = Ledger(path), Ledger(path)
    seen = {one.position()}
    for number, ledger in enumerate((one, two, one)):
        with ledger.snapshot() as view:
            list(view.after(TableRecord))
        assert one.position() in seen
        with ledger.transaction() as transaction:
            add(transaction, f"t{number}")
            assert one.position() in seen
        assert one.position() == two.position()
        assert one.position() not in seen
        seen.add(one.position())
    one.close()
    two.close()


def test_what_is_written_is_told_apart_from_what_others_write_since(path: Path) -> None:
    with closing(Ledger(path)) as one, closing(Ledger(path)) as two:
        for number, ledger in enumerate((one, two, two, one)):
            with ledger.transaction() as last:
                add(last, f"t{number}")
                assert ledger.version() == one.position()
            assert last.version == one.version() == two.version()
        with two.transaction() as later:
            add(later, "later")
        assert last.version not in (None, one.version())
        with one.transaction() as nothing:
            pass
        assert nothing.version == one.version() == later.version


def test_it_is_unknown_while_a_log_holds_what_is_written(path: Path) -> None:
    with closing(Ledger(path)) as ledger, closing(sqlite3.connect(path)) as tool:
        tool.execute("PRAGMA journal_mode = WAL")
        assert ledger.position() is None
        assert ledger.version() is None


def test_what_was_rolled_back_changes_nothing(path: Path) -> None:
    ledger = Ledger(path)
    before = ledger.position()
    with pytest.raises(LedgerError), ledger.transaction() as transaction:
        add(transaction, "t", "t")
    assert ledger.position() == before is not None
    assert transaction.version is None
    ledger.close()


def test_it_is_unknown_of_ledgers_that_are_swapped_gone_closed_or_not_kept(path: Path) -> None:
    ledger = Ledger(path)
    aside = path.with_name("aside")
    path.rename(aside)
    assert ledger.position() is None
    Ledger(path).close()
    assert ledger.position() is None
    path.unlink()
    aside.rename(path)
    assert ledger.position() is not None
    ledger.close()
    assert ledger.position() is None
    assert Ledger(":memory:").position() is None


def test_closing_one_ledger_takes_no_lock_from_another_of_the_same_file(path: Path) -> None:
    one, two = Ledger(path), Ledger(path)
    with one.transaction():
        two.close()
        assert another_process_finds(path) == "locked"
    one.close()
    assert another_process_finds(path) == "free"


def test_a_descriptor_is_closed_with_its_last_header(path: Path) -> None:
    one, two = Header(path), Header(path)
    assert one.read() == two.read()
    one.close()
    assert two.read()
    two.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        two.read()


HOLDS = """
import sys
from tallyveil.accountant import Ledger
ledger = Ledger(sys.argv[1])
ledger.hold(7)
print("holds", flush=True)
sys.stdin.readline()
ledger.let_go(7)
print("let go", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["lets go", "is killed"])
def test_a_charge_is_held_until_its_process_lets_go_or_dies(path: Path, how: str) -> None:
    """Also while another ledger of the same file is closed here and there."""
    ledger, pipe = Ledger(path), subprocess.PIPE
    with start(HOLDS, path, stdin=pipe, stdout=pipe) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "holds\n"
        Ledger(path).close()
        assert [ledger.is_held(number) for number in (6, 7, 8)] == [False, True, False]
        with ledger.transaction():
            assert ledger.is_held(7)
        if how == "lets go":
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "let go\n"
        else:
            other.kill()
            other.wait(60)
        assert not ledger.is_held(7)
        other.kill()
    ledger.close()


def test_a_charge_held_by_another_ledger_of_this_process_is_seen(path: Path) -> None:
    one, two = Ledger(path), Ledger(path)
    for ledger in (one, two):
        ledger.hold(3)
    one.let_go(3)
    assert one.is_held(3)
    two.close()  # lets go of all that it holds
    assert not one.is_held(3)
    one.close()


def test_what_a_ledger_holds_stays_held_when_another_of_its_file_is_closed(path: Path) -> None:
    one, two = Ledger(path), Ledger(path)
    one.hold(3)
    two.close()
    found = run(IS_HELD, path, timeout=60)
    assert found.stdout == "True\n"
    one.close()


IS_HELD = """
import sys
from tallyveil.accountant import Ledger
print(Ledger(sys.argv[1]).is_held(3))
"""
