"""A damaged or half-copied ledger is refused, or nothing of it is lost; never in between."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.accountant.store.ledger_records import DataRecord
from tallyveil.errors import LedgerError
from tallyveil.workload.workload import Workload
from tests.accountant.ledgers import recorded_answers


@pytest.fixture
def charge(cubes: Any) -> Charge:
    workload = Workload("person", (cubes.column(["hue"], [[1, 0]]),))
    return Charge(workload, "laplace", (20.0,), "SELECT 'ä' " + "— a comment " * 30)


@pytest.fixture
def path(cubes: Any, charge: Charge, tmp_path: Path) -> Path:
    """A ledger of eight charges, six of them answered."""
    found = tmp_path / "ledger"
    with closing(Ledger(found)) as ledger:
        accountant = Accountant(ledger, {"person": cubes.account()})
        accountant.remember_data("person", lambda _: b"what the data is recognised by")
        for n in range(8):
            (receipt,) = accountant.charge([charge], "alice")
            if n < 6:
                accountant.record(receipt, [[n]])
    return found


def known(cubes: Any, path: Path) -> Any:
    with closing(Ledger(path, create=False)) as ledger:
        accountant = Accountant(ledger, {"person": cubes.account()})
        answers = [(a.charge_id, a.scale, a.values) for a in recorded_answers(accountant, "person")]
        with ledger.snapshot() as view:
            data = list(view.after(DataRecord))
        return accountant.balance("person"), accountant.history(), answers, data


def refusal(cubes: Any, path: Path, expected: Any) -> LedgerError | None:
    """Why the ledger does not open; None if it does, with all that is expected."""
    try:
        found = known(cubes, path)
    except LedgerError as error:
        return error
    assert found == expected
    return None


def flipped(cubes: Any, path: Path, places: Any) -> None:
    """Flip a bit at each place, one at a time: the ledger opens with all it held, or not."""
    whole, expected = path.read_bytes(), known(cubes, path)
    refused = 0
    for at, bit in places(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        error = refusal(cubes, path, expected)
        if error is not None:
            refused += 1
            assert error.message.startswith(
                (f"the ledger {path} ", f"the ledger {path.name} ", f"{path} is not")
            )
            assert error.hint
            # What was refused before this one left the file to others.
            assert "locked" not in str(error.detail)
    assert refused


def test_no_flipped_bit_is_taken_for_the_ledger(cubes: Any, path: Path) -> None:
    def places(size: int) -> Any:
        draw = random.Random(15)
        schema = ((at, draw.randrange(8)) for at in range(100, 4096, 58))
        rest = ((draw.randrange(size), draw.randrange(8)) for _ in range(80))
        return [*schema, *rest]

    flipped(cubes, path, places)


@pytest.mark.slow
def test_no_bit_of_thousands_is_taken_for_the_ledger(cubes: Any, path: Path) -> None:
    flipped(cubes, path, lambda size: ((at, at % 8) for at in range(0, size, 7)))


def test_the_file_alone_is_the_ledger_while_it_is_in_use(
    cubes: Any, charge: Charge, path: Path
) -> None:
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, {"person": cubes.account()})
        accountant.charge([charge], "alice")
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        assert known(cubes, copy)[:2] == (accountant.balance("person"), accountant.history())


def test_a_copy_made_in_the_middle_of_a_write_loses_no_charge(cubes: Any, path: Path) -> None:
    """The worst moment: pages of a transaction are in the file already, its journal is not."""
    expected, copies = known(cubes, path), 0
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 2")
        writer.execute("BEGIN IMMEDIATE")
        for number in range(9, 60):
            row = writer.execute("SELECT * FROM charge WHERE id = 1").fetchone()
            marks = ", ".join("?" * len(row))
            writer.execute(f"INSERT INTO charge VALUES ({marks})", (number, *row[1:]))
            if number % 10 == 0:
                copy = path.with_name(f"copy{number}")
                shutil.copy(path, copy)
                copies += copy.read_bytes() != path.with_name("copy10").read_bytes()
                error = refusal(cubes, copy, expected)
                assert error is None or error.hint
        writer.execute("ROLLBACK")
    assert copies
    assert known(cubes, path) == expected


def test_a_log_that_somebody_switches_on_ends_all_charging(
    cubes: Any, charge: Charge, path: Path
) -> None:
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, {"person": cubes.account()})
        accountant.charge([charge], "alice")
        with closing(sqlite3.connect(path)) as tool:
            assert tool.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
            with pytest.raises(LedgerError, match="write-ahead log"):
                accountant.charge([charge], "alice")
    assert len(known(cubes, path)[1]) == 9
