"""What is opened with a summary is what is opened by taking in every row; damage is still found."""

from __future__ import annotations

import random
import shutil
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.accountant import Accountant, Charge, Ledger, Share, checkpoint
from tallyveil.accountant.background import Background, rest
from tallyveil.accountant.ledger_state import LedgerState
from tallyveil.accountant.readings import Readings
from tallyveil.accountant.store import sqlite_ledger
from tallyveil.accountant.store.chain import linked
from tallyveil.errors import LedgerError, LedgerMismatch
from tests.accountant.ledgers import altered, recorded_answers

EVERY_ACCOUNT = pytest.mark.parametrize(
    "account",
    [
        {"neighbours": neighbours, "max_rows": 2, **measure}
        for neighbours in ("add_remove", "replace")
        for measure in ({}, {"measure": "rho", "delta": Fraction(1, 10**6)})
    ],
)
SHARES = {"alice": Share(Fraction(10**5)), "bob": Share(Fraction(2 * 10**5))}


def charge(release: Any) -> Charge:
    return Charge(release.workload, "laplace", release.scales, "SELECT 1")


def ask(accountant: Accountant, release: Any, analyst: str, answered: bool = True) -> None:
    (receipt,) = accountant.charge([charge(release)], analyst)
    if answered:
        values = [range(7, 7 + column.height) for column in release.columns]
        accountant.record(receipt, values)


def state(accountant: Accountant) -> Any:
    """All that it says, keys for columns."""
    return (
        accountant.balance("person"),
        [accountant.share("person", name) for name in ("alice", "bob", "carol")],
        [accountant.room("person", name) for name in (None, "alice", "bob")],
        accountant.odometer(),
        accountant.spending(),
        [accountant.most_expensive("person", name) for name in (None, "alice", "bob")],
        [
            (a.charge_id, a.mechanism, a.column.row_names, a.scale, repr(a.values))
            for a in (*recorded_answers(accountant, "person"), *accountant.pending("person"))
        ],
        accountant.seen(),
    )


def opened(cubes: Any, path: Path, **account: Any) -> Accountant:
    account = {"shares": SHARES, "budget": 10**6} | account
    return Accountant(Ledger(path), {"person": cubes.account(**account)})


def beside(path: Path) -> Path:
    return path.with_name(path.name + "-summary")


def works_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the charges whose losses are worked out from now on."""
    found: list[int] = []
    work_out = LedgerState._work_out

    def noted(self: LedgerState, number: int, stored: Any) -> None:
        found.append(number)
        work_out(self, number, stored)

    monkeypatch.setattr(LedgerState, "_work_out", noted)
    return found


@EVERY_ACCOUNT
@given(data=st.data())
@settings(max_examples=4)
def test_a_summary_is_equal_to_replaying(
    cubes: Any, tmp_path_factory: pytest.TempPathFactory, account: Any, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    history = cubes.charged(data.draw(cubes.histories), cubes.account(**account))
    covered = data.draw(st.integers(0, len(history)))
    names = st.sampled_from(["alice", "bob"])
    first = opened(cubes, path, **account)
    for number, release in enumerate(history):
        if number == covered:
            first.summarise(1)
        ask(first, release, data.draw(names), data.draw(st.booleans()))
    if covered == len(history):
        first.summarise(1)
    assert beside(path).exists() == (covered > 0)
    summarised = opened(cubes, path, **account)
    beside(path).unlink(missing_ok=True)
    replayed = opened(cubes, path, **account)
    assert state(summarised) == state(replayed) == state(first)
    for accountant in (summarised, replayed, first):
        more = [accountant.quote([charge(one)], "alice") for one in history]
        assert more == [first.quote([charge(one)], "alice") for one in history]
        accountant._ledger.close()


@pytest.fixture
def release(cubes: Any) -> Callable[[int], Any]:
    def made(number: int) -> Any:
        row = [number % 3, 1, 2 * (number % 2)]
        return cubes.release((cubes.column(["age"], [row, [1, 1, 0]]),), (100.0 + number,))

    return made


@pytest.fixture(params=[2, 2_000])
def path(
    cubes: Any,
    release: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Path:
    """A ledger of twelve charges, ten of which are summarised, and sealed if two are together."""
    monkeypatch.setattr("tallyveil.accountant.ledger_state._MANY", request.param)
    made = opened(cubes, tmp_path / "ledger")
    for number in range(12):
        if number == 10:
            made.summarise(1)
        ask(made, release(number), ("alice", "bob")[number % 2], number % 5 != 4)
    made._ledger.close()
    return tmp_path / "ledger"


def test_only_what_is_not_summarised_is_worked_out(
    cubes: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out = works_out(monkeypatch)
    assert stat.S_IMODE(beside(path).stat().st_mode) == 0o600
    opened(cubes, path)
    assert worked_out == [11, 12]


def test_a_crash_leaves_few_charges_to_work_out(
    cubes: Any, release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it happens, and a growing number of them: a summary is of the whole ledger."""
    monkeypatch.setattr("tallyveil.accountant.accountant._LONG", 3)
    monkeypatch.setattr("tallyveil.accountant.accountant._PART", 4)
    worked_out, most = works_out(monkeypatch), list[int]()
    crashing = opened(cubes, tmp_path / "ledger")
    for number in range(30):
        ask(crashing, release(number), "alice")
        crashing._background.wait()
        for file in (tmp_path / "ledger", beside(tmp_path / "ledger")):
            if file.exists():
                shutil.copy(file, tmp_path / file.name.replace("ledger", "left"))
        worked_out.clear()
        opened(cubes, tmp_path / "left")
        most.append(len(worked_out))
    assert max(most[:12]) == 2
    assert max(most) == 5


def test_no_statement_waits_for_a_summary_to_be_written(
    cubes: Any, release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is being written, others are charged, and no second one is written."""
    monkeypatch.setattr("tallyveil.accountant.accountant._LONG", 2)
    write, writing, go_on = checkpoint.write_summary, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert not writing.is_set()
        writing.set()
        assert go_on.wait(60)
        write(*arguments)

    monkeypatch.setattr("tallyveil.accountant.accountant.write_summary", slowly)
    accountant = opened(cubes, tmp_path / "ledger")
    for number in range(2):
        ask(accountant, release(number), "alice")
    assert writing.wait(60)
    for number in range(2, 6):
        ask(accountant, release(number), "alice")
    assert not beside(tmp_path / "ledger").exists()
    go_on.set()
    accountant._background.wait()
    assert beside(tmp_path / "ledger").exists()


def test_no_statement_waits_for_records_to_be_sealed(
    cubes: Any, release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyveil.accountant.accountant._LONG", 2)
    monkeypatch.setattr("tallyveil.accountant.ledger_state._MANY", 2)
    seal, sealing, go_on = sqlite_ledger._sealed, threading.Event(), threading.Event()

    def slowly(rows: list[Any]) -> Any:
        sealing.set()
        assert go_on.wait(60)
        return seal(rows)

    accountant = opened(cubes, tmp_path / "ledger")
    monkeypatch.setattr(sqlite_ledger, "_sealed", slowly)
    for number in range(2):
        ask(accountant, release(number), "alice")
    assert sealing.wait(60)
    for number in range(2, 6):
        ask(accountant, release(number), "alice")
    go_on.set()
    accountant._background.wait()
    assert len(accountant._state._seals) == 6  # of two charges or two answers each


def test_background_work_rests_until_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyveil.accountant.background._REST", 10**6)
    resting, done = threading.Event(), list[str]()

    def work() -> None:
        sum(range(1_000))
        resting.set()
        rest()
        done.append("rested")

    background = Background(work)
    background.start()
    assert resting.wait(60)
    assert not done
    background.wait()
    assert done == ["rested"]
    rest()  # in any other thread that is nothing


@pytest.mark.parametrize(
    "account",
    [
        {"fingerprint": "f", "shares": None},
        {"shares": {"carol": Share(Fraction(5))}},
        {"measure": "rho", "delta": Fraction(1, 10**9)},
        {"max_rows": 3},
    ],
)
def test_another_account_is_worked_out_anew(
    cubes: Any, path: Path, monkeypatch: pytest.MonkeyPatch, account: Any
) -> None:
    worked_out = works_out(monkeypatch)
    found = state(opened(cubes, path, **account))
    assert worked_out == list(range(1, 13))
    beside(path).unlink()
    assert found == state(opened(cubes, path, **account))


def test_opening_by_another_version_works_a_ledger_out_once(
    cubes: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, worked_out = state(opened(cubes, path)), works_out(monkeypatch)
    monkeypatch.setattr(checkpoint, "__version__", f"{checkpoint.__version__}.1")
    monkeypatch.setattr("tallyveil.accountant.accountant._LONG", 12)
    accountant = opened(cubes, path)
    assert worked_out == list(range(1, 13))
    assert state(accountant) == state(opened(cubes, path)) == before
    assert len(worked_out) == 12


def test_a_table_without_charges_need_not_be_in_a_summary(
    cubes: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a shell command has looked at the others alone."""
    account = cubes.account(shares=SHARES, budget=10**6)
    worked_out = works_out(monkeypatch)
    both = Accountant(Ledger(path), {"person": account, "visit": account})
    assert worked_out == [11, 12]
    assert both.balance("person") == opened(cubes, path).balance("person")
    assert both.balance("visit").spent == 0
    assert both.share("visit", "alice") == account.share_balance("alice", 0, True)


def test_a_table_with_charges_must_be_in_a_summary(
    cubes: Any, path: Path, release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = cubes.account(shares=SHARES, budget=10**6)
    visit = Accountant(Ledger(path), {"visit": replace(account, beside=("person",))})
    visit.summarise(1)
    worked_out = works_out(monkeypatch)
    found = Accountant(Ledger(path), {"person": account, "visit": account})
    assert worked_out == list(range(1, 13))
    assert found.balance("person") == opened(cubes, path).balance("person")


def test_the_budget_is_no_part_of_a_summary(cubes: Any, path: Path) -> None:
    accountant = opened(cubes, path, budget=2000)
    assert accountant.balance("person").budget == 2000


def test_no_damage_to_a_summary_is_believed(cubes: Any, path: Path) -> None:
    expected, whole = state(opened(cubes, path)), beside(path).read_bytes()
    draw = random.Random(4)
    for at in draw.sample(range(len(whole)), 10):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << draw.randrange(8)
        beside(path).write_bytes(damaged)
        assert state(opened(cubes, path)) == expected
    for part in (b"", whole[:20], whole[:32], whole[:-1], b"x" * 100):
        beside(path).write_bytes(part)
        assert state(opened(cubes, path)) == expected


def test_a_summary_of_another_ledger_is_not_believed(
    cubes: Any, path: Path, release: Any, tmp_path: Path
) -> None:
    """Neither of a longer one, of an older copy, nor of one of the same length."""
    for length in (3, 10, 12):
        other = tmp_path / f"other{length}"
        made = opened(cubes, other)
        for number in range(length):
            ask(made, release(number + 7), "alice", number % 5 != 4)
        expected = state(made)
        made._ledger.close()
        shutil.copy(beside(path), beside(other))
        assert state(opened(cubes, other)) == expected


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE charge SET cost = 0 WHERE id = 3",
        "UPDATE charge SET columns = zeroblob(20) WHERE id = 2",
        "DELETE FROM charge WHERE id = 5",
        "DELETE FROM charge WHERE id = 12",
        "UPDATE answer SET noisy = zeroblob(9) WHERE id = 2",
        "DELETE FROM answer WHERE id = 3",
        "DELETE FROM charge",
    ],
)
def test_altered_rows_are_noticed_beside_a_summary(cubes: Any, path: Path, change: str) -> None:
    altered(path, change)
    with pytest.raises(LedgerError, match="lost or altered"):
        opened(cubes, path)


@pytest.mark.parametrize("path", [2], indirect=True)
def test_sealed_records_are_not_chained_again_unless_they_seem_changed(
    cubes: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chained: list[int] = []

    def noted(before: bytes, *row: Any) -> bytes:
        chained.append(row[0])
        return linked(before, *row)

    monkeypatch.setattr(sqlite_ledger, "linked", noted)
    accountant = opened(cubes, path)
    known = state(accountant)
    accountant.summarise(0)
    accountant._ledger.close()
    chained.clear()
    accountant = opened(cubes, path)
    assert len(chained) < 12  # of 12 charges and 10 answers
    assert state(accountant) == known
    accountant._ledger.close()
    monkeypatch.setattr(sqlite_ledger, "_sealed", lambda rows: None)
    chained.clear()
    accountant = opened(cubes, path)
    assert len(chained) > 22
    assert state(accountant) == known


def test_a_folder_that_takes_no_summary_is_no_error(
    cubes: Any, path: Path, release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> Any:
        raise OSError("no space left")

    accountant, before = opened(cubes, path), beside(path).read_bytes()
    monkeypatch.setattr("tallyveil.accountant.store.sqlite_ledger.os.open", full)
    accountant.summarise(1)
    assert beside(path).read_bytes() == before


def test_another_declaration_is_refused_beside_a_summary(cubes: Any, path: Path) -> None:
    with pytest.raises(LedgerMismatch):
        opened(cubes, path, fingerprint="g")


@given(st.lists(st.tuples(st.integers(0, 2**64), st.booleans()), max_size=8), st.integers(0, 8))
def test_readings_that_were_written_are_the_same(every: list[tuple[int, bool]], cut: int) -> None:
    """Numbers that do not fit in 64 bits are not written."""
    first = Readings()
    for number, reading in enumerate(every[:cut]):
        first.add(number, *reading)
    written = first.written()
    assert (written is None) == any(spent >= 2**63 for spent, _ in every[:cut])
    resumed = first if written is None else Readings(written)
    for number, reading in enumerate(every[cut:], cut):
        resumed.add(number, *reading)
    assert len(resumed) == len(every)
    assert resumed.every() == dict(enumerate(every))
    again = resumed.written()
    assert again is None or Readings(again).every() == resumed.every()
