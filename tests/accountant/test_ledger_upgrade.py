"""Ledgers of older formats go on in the present one, with all that they hold."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.accountant.chain import START
from tallyveil.accountant.schema import APPLICATION_ID
from tallyveil.errors import LedgerError
from tests.accountant.ledgers import recorded_answers

OLD_TABLES = """
CREATE TABLE protected_table (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    added TEXT NOT NULL
) STRICT;
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    analyst TEXT NOT NULL,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    mechanism TEXT NOT NULL,
    sql TEXT NOT NULL,
    cost INTEGER NOT NULL CHECK (cost >= 0),
    height INTEGER NOT NULL,
    columns BLOB NOT NULL,
    chain BLOB NOT NULL{measure}
) STRICT;
CREATE TABLE answer (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    charge_id INTEGER NOT NULL UNIQUE REFERENCES charge (id),
    noisy BLOB NOT NULL
) STRICT;
"""
MEASURE = ",\n    measure TEXT NOT NULL DEFAULT 'epsilon'"
TRIGGER = """
CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


def aged(path: Path, version: int) -> sqlite3.Connection:
    """The ledger rewritten in an older format, as the program of that time left it open."""
    with closing(sqlite3.connect(path)) as new:
        tables = new.execute("SELECT name, fingerprint, added FROM protected_table").fetchall()
        answers = new.execute("SELECT id, charge_id, noisy FROM answer").fetchall()
        fields = "id, time, analyst, table_name, mechanism, sql, cost, height, columns, chain"
        fields += ", measure" if version > 2 else ""
        charges = new.execute(f"SELECT {fields} FROM charge").fetchall()
    path.unlink()
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    old.executescript(OLD_TABLES.format(measure=MEASURE if version > 2 else ""))
    for table in ("protected_table", "charge", "answer"):
        for verb in ("UPDATE", "DELETE"):
            old.executescript(TRIGGER.format(table=table, verb=verb))
    old.executemany("INSERT INTO protected_table VALUES (?, ?, ?)", tables)
    marks = ", ".join("?" * len(fields.split(",")))
    old.executemany(f"INSERT INTO charge ({fields}) VALUES ({marks})", charges)
    old.executemany("INSERT INTO answer VALUES (?, ?, ?)", answers)
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute(f"PRAGMA user_version = {version}")
    return old


@pytest.fixture
def before(cubes: Any, path: Path, charge: Charge) -> Iterator[Accountant]:
    """Three charges by the present program, two of them answered."""
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, {"person": cubes.account()})
        for n in range(3):
            (receipt,) = accountant.charge([charge], "alice")
            if n < 2:
                accountant.record(receipt, [[n]])
        yield accountant


def known(accountant: Accountant) -> Any:
    answers = [(a.charge_id, a.values) for a in recorded_answers(accountant, "person")]
    return accountant.balance("person"), accountant.history(), answers


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_ledger_goes_on_in_the_present_format(
    cubes: Any, before: Accountant, charge: Charge, path: Path, version: int
) -> None:
    expected = known(before)
    before._ledger.close()
    aged(path, version).close()
    for _ in range(2):
        with closing(Ledger(path, create=False)) as ledger:
            assert known(Accountant(ledger, {"person": cubes.account()})) == expected
    with closing(Ledger(path)) as ledger:
        again = Accountant(ledger, {"person": cubes.account()})
        again.charge([charge], "alice")
        more = known(again)
    with closing(Ledger(path)) as ledger:
        assert known(Accountant(ledger, {"person": cubes.account()})) == more
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (6,)


def crash(path: Path) -> None:
    """Leave an older ledger as a program that is killed leaves it: with its log beside it."""
    old = aged(path, 3)
    old.execute("PRAGMA wal_autocheckpoint = 0")
    old.execute("PRAGMA user_version = 3")
    multiprocessing.current_process().kill()


def test_what_an_older_programs_log_holds_is_taken_over(
    cubes: Any, before: Accountant, path: Path
) -> None:
    expected = known(before)
    before._ledger.close()
    child = multiprocessing.get_context("fork").Process(target=crash, args=(path,))
    child.start()
    child.join()
    assert path.with_name(path.name + "-wal").stat().st_size
    with closing(Ledger(path)) as ledger:
        assert known(Accountant(ledger, {"person": cubes.account()})) == expected
        assert not path.with_name(path.name + "-wal").exists()


def test_an_older_program_that_still_runs_is_not_pushed_aside(
    before: Accountant, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before._ledger.close()
    monkeypatch.setattr("tallyveil.accountant.database._BUSY_SECONDS", 0.05)
    with closing(aged(path, 3)) as old:
        with pytest.raises(LedgerError, match=r"locked|in use") as refused:
            Ledger(path)
        assert refused.value.hint
        assert old.execute("PRAGMA user_version").fetchone() == (3,)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM charge WHERE id = 3",
        "UPDATE charge SET cost = 0 WHERE id = 1",
        "DELETE FROM answer WHERE id = 2",
    ],
)
def test_an_older_ledger_that_was_altered_is_left_as_it_is(
    before: Accountant, path: Path, change: str
) -> None:
    before._ledger.close()
    with closing(aged(path, 3)) as old:
        for trigger in ("charge_UPDATE", "charge_DELETE", "answer_DELETE"):
            old.execute(f"DROP TRIGGER {trigger}")
        old.execute(change)
    with pytest.raises(LedgerError, match="lost or altered"):
        Ledger(path)
    with closing(sqlite3.connect(path)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (3,)
        assert old.execute("SELECT count(*) FROM charge").fetchone()[0] >= 2


def test_a_present_ledger_that_says_it_is_older_is_refused(before: Accountant, path: Path) -> None:
    before._ledger.close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 3")
    with pytest.raises(LedgerError, match="not those of format 3"):
        Ledger(path)


def test_an_older_ledger_without_a_charge_is_upgraded_too(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    Ledger(path).close()
    aged(path, 2).close()
    with closing(Ledger(path)) as ledger, ledger.reading():
        assert list(ledger.charges_after(START)) == []
