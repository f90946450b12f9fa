"""Quotes, charges, receipts and what is remembered, on ledgers in memory and on disk."""

from __future__ import annotations

import datetime as dt
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tallyveil import deadline
from tallyveil.accountant import Account, Accountant, Charge, Ledger, Past
from tallyveil.accountant.store.event_codec import encode_charge
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.boundary import TrueAnswer
from tallyveil.errors import (
    BudgetExceeded,
    InvalidParameterValue,
    LedgerError,
    LedgerMismatch,
    QueryCanceled,
    TallyveilError,
    UndefinedTable,
)
from tallyveil.mechanisms import mechanism
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.policy.limits import Limits
from tallyveil.workload.workload import Column, Workload
from tests.accountant.ledgers import asked, recorded_answers

LAPLACE = mechanism("laplace")


def one(cubes: Any, dense: Any, scale: float, axes: tuple[str, ...] = ("hue",)) -> Charge:
    workload = Workload("person", (cubes.column(axes, dense),))
    return Charge(workload, "laplace", (scale,), "SELECT count(*) FROM person")


@pytest.fixture
def open_accountant(cubes: Any, tmp_path: Path) -> Any:
    def opened(path: str = "ledger.db", **account: Any) -> Accountant:
        return Accountant(Ledger(tmp_path / path), {"person": cubes.account(**account)})

    return opened


def test_processes_on_a_ledger_and_only_these_have_a_seed_in_common(open_accountant: Any) -> None:
    """As they must where it decides what is equal or refused; nobody who knows no key has it."""
    seeds = [open_accountant(path).seed for path in ("ledger.db", "ledger.db", "other.db")]
    assert seeds[0] == seeds[1] != seeds[2]
    assert all(seed.bit_length() > 64 for seed in seeds)


def test_the_example_of_the_paper() -> None:
    """BAYES eqs. 20, 22, 71: B = (0.1, 0.275, 0.25, 0.375), and the system has spent 0.375."""
    h = [
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 1],
        [2, 1, 0, 0],
        [0, 0, 2, -1],
        [0, -1, 0, 1],
    ]
    alpha = ["0.05", "0.1", "0.05", "0.1", "0.1", "0.05", "0.05", "0.1"]
    domain = Domain("person", (Attribute("group", "range", "BIGINT", (0, 1, 2, 3)),))
    account = Account(domain, "add_remove", 1, Fraction(1), "f")
    accountant = Accountant(Ledger(":memory:"), {"person": account})
    scales = []
    for row, a in zip(np.array(h, dtype=np.int64), alpha, strict=True):
        cells = np.flatnonzero(row)
        column = Column.joint(("group",), (4,), 1, np.zeros_like(cells), cells, row[cells])
        workload = Workload("person", (column,))
        (scale,) = LAPLACE.scales_for(workload, a, account.relation, "epsilon")
        scales.append(scale)
        accountant.charge([Charge(workload, "laplace", (scale,), "…")], "alice")
    assert scales == [20, 10, 20, 10, 10, 40, 40, 10]
    assert accountant.balance("person").spent == Fraction("0.375")
    meter: Any = accountant._state.filters.meters["person", None]
    (group,) = meter.tally.groups
    assert group.whole.values.tolist() == [10**11, 275 * 10**9, 25 * 10**10, 375 * 10**9]


def test_sixty_charges_of_a_twentieth_use_up_three_exactly(cubes: Any) -> None:
    accountant = Accountant(Ledger(":memory:"), {"person": cubes.account(3)})
    charge = one(cubes, [[1, 1]], 20.0)
    for _ in range(60):
        accountant.charge([charge], "alice")
    balance = accountant.balance("person")
    assert (balance.spent, balance.remaining, balance.exact) == (3, 0, True)
    with pytest.raises(BudgetExceeded) as refused:
        accountant.charge([charge], "alice")
    assert (refused.value.sqlstate, refused.value.requested) == ("53400", 0.05)
    assert refused.value.remaining == 0
    assert accountant.balance("person") == balance
    assert len(accountant.history()) == 60


def test_one_cell_being_used_up_leaves_the_others(cubes: Any) -> None:
    accountant = Accountant(Ledger(":memory:"), {"person": cubes.account(1)})
    accountant.charge([one(cubes, [[1, 0]], 1.0)], "alice")
    assert not accountant.quote([one(cubes, [[1, 0]], 1e9)]).allowed
    quote = accountant.quote([one(cubes, [[0, 1]], 1.0)])["person"]
    assert (quote.cost, quote.remaining_before, quote.remaining_after) == (1, 0, 0)
    assert quote.allowed
    accountant.charge([one(cubes, [[0, 1]], 1.0)], "alice")
    assert accountant.balance("person").spent == 1


def test_a_quote_is_what_the_charge_then_costs(cubes: Any, open_accountant: Any) -> None:
    accountant = open_accountant()
    charges = [one(cubes, [[1, 0]], 10.0), one(cubes, [[1, 1]], 20.0)]
    quote = accountant.quote(charges)["person"]
    assert quote.cost == Fraction(15, 100)
    assert quote.remaining_after == Fraction(285, 100)
    assert accountant.balance("person").spent == 0
    assert accountant.history() == []
    accountant.charge(charges, "alice")
    assert accountant.balance("person").remaining == quote.remaining_after


def test_charges_are_made_together_or_not_at_all(cubes: Any, open_accountant: Any) -> None:
    accountant = open_accountant(budget=1)
    charges = [one(cubes, [[1, 0]], 1.6), one(cubes, [[1, 0]], 1.6)]
    assert all(accountant.quote([charge]).allowed for charge in charges)
    with pytest.raises(BudgetExceeded):
        accountant.charge(charges, "alice")
    assert accountant.balance("person").spent == 0
    assert accountant.history() == []
    assert accountant.charge([], "alice") == ()


def test_tables_have_budgets_of_their_own(cubes: Any) -> None:
    accounts = {name: cubes.account(b, table=name) for name, b in (("person", 1), ("visit", 2))}
    accountant = Accountant(Ledger(":memory:"), accounts)
    person = one(cubes, [[1, 1]], 1.0)
    visit = Charge(Workload("visit", person.workload.columns), "laplace", (1.0,), "…")
    quote = accountant.quote([person, visit, visit])
    assert (quote["person"].cost, quote["visit"].cost, quote.allowed) == (1, 2, True)
    accountant.charge([person, visit], "alice")
    with pytest.raises(BudgetExceeded, match="person"):
        accountant.charge([visit, person], "alice")
    assert accountant.balance("visit").remaining == 1
    with pytest.raises(UndefinedTable):
        accountant.balance("nobody")
    assert [e.table for e in accountant.history("visit")] == ["visit"]


def test_history_is_read_in_parts_between_which_others_charge(
    cubes: Any, open_accountant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accountant = open_accountant()
    charge = one(cubes, [[1, 1]], 100.0)
    for _ in range(7):
        accountant.charge([charge], "ann")
    whole, readings = accountant.history(), accountant.odometer()
    assert [entry.charge_id for entry in whole] == [1, 2, 3, 4, 5, 6, 7]
    monkeypatch.setattr("tallyveil.accountant.budget_reports._PART", 3)
    assert (accountant.history(), accountant.odometer()) == (whole, readings)
    for latest_first in (False, True):
        read = accountant.charges(latest_first=latest_first)
        seen = [next(read)]
        open_accountant().charge([charge], "bob")  # another process, and this one
        accountant.charge([charge], "ann")
        assert [*seen, *read] == (whole[::-1] if latest_first else whole)
        whole = accountant.history()
    assert len(whole) == 11
    for entry in whole:
        last = max(other.charge_id for other in whole if other.time <= entry.time)
        assert Past.until(accountant, entry.time) == last
    assert Past.until(accountant, whole[0].time - dt.timedelta(seconds=1)) == 0
    assert [one.entry for one in accountant.odometer()] == whole


def test_a_receipt_opens_the_answer_it_paid_for(cubes: Any) -> None:
    accountant = Accountant(Ledger(":memory:"), {"person": cubes.account()})
    charge = one(cubes, [[1, 1], [0, 1]], 20.0)
    (receipt,) = accountant.charge([charge], "alice")
    answer = TrueAnswer(charge.workload.key, [[7, 3]])
    (noisy,) = LAPLACE.release(answer, receipt)
    accountant.record(receipt, [noisy])
    [answer_recorded] = recorded_answers(accountant, "person")
    assert answer_recorded.values == tuple(noisy)


def test_an_answer_is_recorded_once_and_must_fit(cubes: Any) -> None:
    accountant = Accountant(Ledger(":memory:"), {"person": cubes.account()})
    (receipt,) = accountant.charge([one(cubes, [[1, 0]], 20.0)], "alice")
    for wrong in ([[1, 2]], [[1], [2]], []):
        with pytest.raises(TallyveilError, match="number of rows"):
            accountant.record(receipt, wrong)
    accountant.record(receipt, [[2**80]])
    for charge in (receipt, 99):
        with pytest.raises(TallyveilError, match="awaits no answer"):
            accountant.record(charge, [[1]])


@pytest.mark.parametrize("limits", [Limits(), Limits(least_cost=Fraction(0))])
def test_nothing_is_charged_at_no_cost(cubes: Any, limits: Limits) -> None:
    """What no record moves is exact, and the gate's to answer: a ledger grows at a price."""
    account = replace(cubes.account(1, neighbours="replace"), limits=limits)
    assert not account.domain.complete
    accountant = Accountant(Ledger(":memory:"), {"person": account})
    accountant.charge([one(cubes, [[1, 0]], 1.0)], "alice")
    for scale in (0.0, 1.0):
        with pytest.raises(InvalidParameterValue, match="costs epsilon 0"):
            accountant.charge([one(cubes, [[0, 0]], scale)], "alice")
    assert [e.cost for e in accountant.history()] == [1]


def test_noise_cannot_be_left_out_where_it_is_needed(cubes: Any) -> None:
    for neighbours in ("add_remove", "replace"):
        accountant = Accountant(
            Ledger(":memory:"), {"person": cubes.account(neighbours=neighbours)}
        )
        with pytest.raises(InvalidParameterValue):
            accountant.charge([one(cubes, [[1, 0]], 0.0)], "alice")


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0])
def test_a_scale_that_is_no_number_is_refused(cubes: Any, scale: float) -> None:
    with pytest.raises(InvalidParameterValue):
        one(cubes, [[1, 0]], scale)


@pytest.mark.parametrize("budget", [math.nan, math.inf, 0, -1, "x", 10**9])
def test_a_budget_that_is_no_number_is_refused(cubes: Any, budget: Any) -> None:
    account = cubes.account()
    with pytest.raises(InvalidParameterValue):
        Account(account.domain, "add_remove", 1, budget, "f")


def test_a_workload_about_other_cells_is_refused(cubes: Any) -> None:
    accountant = Accountant(Ledger(":memory:"), {"person": cubes.account()})
    ones = np.ones(1, dtype=np.int64)
    for axes, shape in ((("hue",), (3,)), (("shoe",), (2,))):
        workload = Workload("person", (Column.joint(axes, shape, 1, 0 * ones, ones, ones),))
        with pytest.raises(TallyveilError, match="does not fit"):
            accountant.charge([Charge(workload, "laplace", (1.0,), "…")], "alice")


def test_history_says_who_asked_what_at_which_cost(cubes: Any, open_accountant: Any) -> None:
    accountant = open_accountant()
    accountant.charge([one(cubes, [[1, 0], [0, 1]], 20.0)], "alice")
    (entry,) = accountant.history("person")
    assert (entry.analyst, entry.table, entry.mechanism) == ("alice", "person", "laplace")
    assert (entry.cost, entry.rows, entry.sql) == (
        Fraction("0.05"),
        2,
        "SELECT count(*) FROM person",
    )
    assert entry.time.tzinfo is not None


def test_a_changed_table_does_not_get_an_old_ledger(cubes: Any, open_accountant: Any) -> None:
    open_accountant()
    with pytest.raises(LedgerMismatch, match="person") as refused:
        open_accountant(fingerprint="g")
    assert (refused.value.sqlstate, bool(refused.value.hint)) == ("55000", True)
    open_accountant()


def test_a_table_can_be_added_to_a_ledger(cubes: Any, tmp_path: Path) -> None:
    person, visit = cubes.account(), cubes.account(table="visit", fingerprint="v")
    first = Accountant(Ledger(tmp_path / "l"), {"person": person})
    first.charge([one(cubes, [[1, 0]], 1.0)], "alice")
    both = Accountant(Ledger(tmp_path / "l"), {"person": person, "visit": visit})
    assert both.balance("visit").spent == 0
    alone = Accountant(Ledger(tmp_path / "l"), {"visit": visit})
    assert alone.balance("visit").spent == 0
    assert both.balance("person").spent == 1


def test_a_lowered_budget_leaves_nothing(cubes: Any, open_accountant: Any) -> None:
    open_accountant().charge([one(cubes, [[1, 0]], 0.5)], "alice")
    accountant = open_accountant(budget=1)
    assert accountant.balance("person").remaining == 0
    with pytest.raises(BudgetExceeded):
        accountant.charge([one(cubes, [[0, 1]], 100.0)], "alice")


def test_what_one_process_records_another_recalls(cubes: Any, open_accountant: Any) -> None:
    serving, shell = open_accountant(), open_accountant()
    charge = one(cubes, [[1, 0]], 20.0)
    (receipt,) = serving.charge([charge], "alice")
    assert recorded_answers(shell, "person") == []
    serving.record(receipt, [[42]])
    [known] = recorded_answers(shell, "person")
    assert known.values == (42,)
    with pytest.raises(TallyveilError):
        shell.record(receipt.charge_id, [[43]])


def test_threads_share_an_accountant(cubes: Any, open_accountant: Any) -> None:
    accountant = open_accountant(budget=1)
    charge = one(cubes, [[1, 1]], 20.0)

    def ask(_: int) -> int | None:
        try:
            (receipt,) = accountant.charge([charge], "alice")
        except BudgetExceeded:
            return None
        accountant.record(receipt, [[1]])
        return receipt.charge_id

    with ThreadPoolExecutor(5) as threads:
        made = [number for number in threads.map(ask, range(30)) if number is not None]
    assert sorted(made) == list(range(1, 21))
    assert accountant.balance("person").remaining == 0


def test_an_unknown_mechanism_in_the_ledger_closes_it(
    cubes: Any, open_accountant: Any, tmp_path: Path
) -> None:
    open_accountant()
    ledger = Ledger(tmp_path / "ledger.db")
    columns = encode_charge(asked((), ()))
    with ledger.transaction() as transaction:
        transaction.append(ChargeRecord("", "alice", "person", "unheard-of", "", 0, 0, columns))
    with pytest.raises(LedgerError, match="cannot be accounted for"):
        open_accountant()


def test_what_others_charged_is_read_by_one_who_may_be_stopped(
    cubes: Any, open_accountant: Any
) -> None:
    """Without waiting for a turn, since others wait for the ledger; and it says why it stopped."""

    class Others:
        def waits(self) -> bool:
            raise AssertionError("it waits for a turn under a lock")

    first, second = open_accountant(), open_accountant()
    column = cubes.column(("hue",), [[1, 1], [7, 3]])
    for number in range(3):
        scales = (20.0 + number, 31.7)
        charge = Charge(Workload("person", (column, column)), "laplace", scales, "…")
        first.charge([charge], "alice")
    stopped = iter([False, False])
    late = deadline.Deadline(cancelled=lambda: next(stopped, True))
    with late.entered(), pytest.raises(QueryCanceled):
        second.balance("person")
    with deadline.Deadline().entered(), deadline.taking(Others()):
        assert second.balance("person") == first.balance("person")
    assert second.room("person") == first.room("person")
