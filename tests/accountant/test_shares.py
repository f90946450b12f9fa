"""Analysts' shares: a filter beside the table's, each against brute force, on disk and in races."""

from __future__ import annotations

import os
import random
import signal
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.accountant import Accountant, Charge, Ledger, Share
from tallyveil.accountant.declarations import budget_text, shares_text
from tallyveil.accountant.store.ledger_records import BudgetRecord
from tallyveil.errors import BudgetExceeded, InvalidParameterValue
from tallyveil.mechanisms import Measure, Neighbours
from tallyveil.workload.workload import Workload
from tests.accountant.ledgers import forked
from tests.pairs import alternately

ANALYSTS = ("alice", "bob", "carol")


def one(cubes: Any, dense: Any, scale: float, table: str = "person") -> Charge:
    return Charge(Workload(table, (cubes.column(("hue",), dense),)), "laplace", (scale,), "…")


def of(**budgets: object) -> dict[str, Share]:
    return {name: Share(Fraction(str(budget))) for name, budget in budgets.items()}


def opened(cubes: Any, path: object = ":memory:", **account: Any) -> Accountant:
    return Accountant(Ledger(str(path)), {"person": cubes.account(**account)})


def left(accountant: Accountant, analyst: str) -> Fraction:
    share = accountant.share("person", analyst)
    assert share is not None
    return share.remaining


def test_share_and_budget_both_hold_and_the_refusal_says_which(cubes: Any) -> None:
    accountant = opened(cubes, budget="1.5", shares=of(alice=1, bob=1))
    accountant.charge([one(cubes, [[1, 1]], 1.0)], "alice")
    with pytest.raises(BudgetExceeded, match='the share of analyst "alice"') as own:
        accountant.charge([one(cubes, [[1, 1]], 4.0)], "alice")
    assert (own.value.sqlstate, own.value.analyst, own.value.remaining) == ("53400", "alice", 0)
    # Bob has a whole share left, and the table a half.
    with pytest.raises(BudgetExceeded, match='the budget of table "person"') as total:
        accountant.charge([one(cubes, [[1, 1]], 1.25)], "bob")
    assert (total.value.analyst, total.value.remaining) == (None, 0.5)
    accountant.charge([one(cubes, [[1, 1]], 2.0)], "bob")
    assert (left(accountant, "alice"), left(accountant, "bob")) == (0, Fraction(1, 2))
    assert accountant.balance("person").remaining == 0
    assert len(accountant.history()) == 2


def test_of_two_that_ran_out_the_scarcer_is_named(cubes: Any) -> None:
    accountant = opened(cubes, budget=1, shares=of(alice="0.75"))
    with pytest.raises(BudgetExceeded) as refused:
        accountant.charge([one(cubes, [[1, 1]], 0.5)], "alice")
    assert (refused.value.analyst, refused.value.remaining) == ("alice", 0.75)


def test_shares_count_by_cell_as_budgets_do(cubes: Any) -> None:
    accountant = opened(cubes, budget=3, shares=of(alice=1))
    accountant.charge([one(cubes, [[1, 0]], 1.0)], "alice")
    accountant.charge([one(cubes, [[0, 1]], 1.0)], "alice")
    assert left(accountant, "alice") == 0
    with pytest.raises(BudgetExceeded):
        accountant.charge([one(cubes, [[0, 1]], 1e6)], "alice")


def test_a_share_ends_at_its_last_unit(cubes: Any) -> None:
    """A third is 333,333,333,333 units as a share and one more as a cost."""
    accountant = opened(cubes, budget=3, shares=of(alice="1/3", bob="0.333333333334"))
    charge = one(cubes, [[1, 1]], 3.0)
    with pytest.raises(BudgetExceeded, match='the share of analyst "alice"'):
        accountant.charge([charge], "alice")
    accountant.charge([charge], "bob")
    assert left(accountant, "bob") == 0


def test_who_has_no_share_buys_nothing(cubes: Any) -> None:
    accountant = opened(cubes, budget=3, shares=of(alice=1))
    for stranger in ("bob", "Alice", "alice ", ""):
        quote = accountant.quote([one(cubes, [[1, 0]], 1e9)], stranger)
        assert not quote.allowed
        with pytest.raises(BudgetExceeded, match="has no share") as refused:
            accountant.charge([one(cubes, [[1, 0]], 1e9)], stranger)
        assert (refused.value.analyst, refused.value.remaining) == (stranger, 0)
        share = accountant.share("person", stranger)
        assert share is not None
        assert (share.budget, share.remaining, share.epsilon_budget) == (0, 0, 0)
    assert accountant.history() == []
    with pytest.raises(InvalidParameterValue, match="costs epsilon 0"):
        accountant.charge([one(cubes, [[0, 0]], 1.0)], "bob")
    assert accountant.history() == []


def test_the_custodian_needs_no_share_but_is_held_to_one(cubes: Any) -> None:
    accountant = opened(cubes, budget=3, shares=of(alice="0.5"))
    charge = one(cubes, [[1, 0]], 1.0)
    accountant.charge([charge], "root", custodian=True)
    assert (accountant.balance("person").spent, left(accountant, "alice")) == (1, Fraction(1, 2))
    with pytest.raises(BudgetExceeded, match="the share of"):
        accountant.charge([charge], "alice", custodian=True)
    with pytest.raises(BudgetExceeded, match='the budget of table "person"'):
        accountant.charge([one(cubes, [[1, 0]], 0.4)], "root", custodian=True)


def test_without_shares_there_are_none(cubes: Any) -> None:
    accountant = opened(cubes)
    accountant.charge([one(cubes, [[1, 0]], 1.0)], "anybody")
    assert accountant.share("person", "anybody") is None
    assert accountant.quote([one(cubes, [[1, 0]], 1.0)], "anybody").shares == ()
    assert accountant.most_expensive("person", "anybody") is None


def test_a_quote_tells_the_share_apart(cubes: Any) -> None:
    accountant = opened(cubes, budget=3, shares=of(alice=1, bob=2))
    accountant.charge([one(cubes, [[1, 0]], 2.0)], "bob")
    charges = [one(cubes, [[1, 0]], 4.0), one(cubes, [[1, 1]], 4.0)]
    quote = accountant.quote(charges, "alice")
    (share,) = quote.shares
    assert (share.analyst, share.cost, share.remaining_before) == ("alice", Fraction(1, 2), 1)
    assert (share.remaining_after, quote["person"].remaining_after) == (Fraction(1, 2), 2)
    accountant.charge(charges, "alice")
    assert left(accountant, "alice") == Fraction(1, 2)


def test_charges_of_a_statement_pass_all_filters_or_none(cubes: Any) -> None:
    """Two tables, one of which the analyst has no share of."""
    person, visit = (
        cubes.account(shares=of(alice=1)),
        cubes.account(table="visit", fingerprint="v", shares={}),
    )
    accountant = Accountant(Ledger(":memory:"), {"person": person, "visit": visit})
    with pytest.raises(BudgetExceeded, match='no share of the budget of table "visit"'):
        accountant.charge(
            [one(cubes, [[1, 0]], 2.0), one(cubes, [[1, 0]], 2.0, table="visit")], "alice"
        )
    assert accountant.history() == []
    assert left(accountant, "alice") == 1


@pytest.mark.parametrize(
    ("measure", "neighbours"), alternately(["epsilon", "rho"], ["add_remove", "replace"])
)
@given(data=st.data())
@settings(max_examples=12)
def test_every_share_and_the_odometer_by_brute_force(
    cubes: Any, neighbours: Neighbours, measure: Measure, data: st.DataObject
) -> None:
    """Against going through all cells or pairs, for each analyst's releases and for all."""
    account = cubes.account(
        1000,
        neighbours,
        measure=measure,
        delta=None if measure == "epsilon" else Fraction(1, 10**9),
        shares=of(alice=1000, bob=1000),
    )
    history = cubes.charged(data.draw(cubes.histories), account)
    asked = [data.draw(st.sampled_from(ANALYSTS)) for _ in history]
    accountant = Accountant(Ledger(":memory:"), {"person": account})
    for release, analyst in zip(history, asked, strict=True):
        charge = Charge(release.workload, "laplace", release.scales, "…")
        accountant.charge([charge], analyst, custodian=analyst == "carol")

    def truth(releases: Any) -> Fraction:
        found = list(releases)
        return Fraction(cubes.truth(found, account.relation, measure) if found else 0, 10**12)

    def bought_by(analyst: str) -> Fraction:
        return truth(r for r, a in zip(history, asked, strict=True) if a == analyst)

    for analyst in ("alice", "bob"):
        share = accountant.share("person", analyst)
        assert share is not None
        assert share.spent == bought_by(analyst)
    assert accountant.balance("person").spent == truth(history)
    assert [r.spent for r in accountant.odometer()] == [
        truth(history[: n + 1]) for n in range(len(history))
    ]
    # Also of those who have no share.
    spending = {s.analyst: (s.charges, s.spent) for s in accountant.spending()}
    names = {"alice", "bob", *asked}
    assert spending == {a: (asked.count(a), bought_by(a)) for a in names}


def test_what_was_bought_before_there_were_shares_counts(cubes: Any, tmp_path: Path) -> None:
    opened(cubes, tmp_path / "l").charge([one(cubes, [[1, 0]], 1.0)], "alice")
    accountant = opened(cubes, tmp_path / "l", shares=of(alice="1.5", bob=2))
    assert left(accountant, "alice") == Fraction(1, 2)
    lowered = opened(cubes, tmp_path / "l", shares=of(alice="0.5"))
    assert left(lowered, "alice") == 0


def test_a_share_is_not_overdrawn_by_two_processes(cubes: Any, tmp_path: Path) -> None:
    """Two accountants on one ledger, as two processes have; each sees the other's charges."""
    two = [opened(cubes, tmp_path / "l", budget=3, shares=of(alice=1, bob=1)) for _ in range(2)]
    made, named = 0, set()
    for n in range(14):
        try:
            two[n % 2].charge([one(cubes, [[1, 1]], 10.0)], "alice")
            made += 1
        except BudgetExceeded as refused:
            named.add(refused.analyst)
    assert (made, named) == (10, {"alice"})
    assert {left(a, "alice") for a in two} == {Fraction(0)}
    assert {left(a, "bob") for a in two} == {Fraction(1)}


def test_killed_at_any_moment_no_share_comes_back(cubes: Any, tmp_path: Path) -> None:
    """Children spend alice's share and are killed at random, until it is gone."""
    path, shares = tmp_path / "l", of(alice=2, bob=1)
    charge = one(cubes, [[1, 0]], 20.0)

    def work(pipe: int) -> None:
        accountant = opened(cubes, path, budget=100, shares=shares)
        try:
            while True:
                accountant.charge([charge], "alice")
                os.write(pipe, b".")
        except BudgetExceeded:
            return

    acknowledged, remaining = 0, Fraction(2)
    while remaining > 0:
        children = [forked(work) for _ in range(2)]
        acknowledged += len(os.read(children[0][1], 1))
        time.sleep(random.uniform(0, 0.02))
        for child, _ in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for _, reader in children:
            while chunk := os.read(reader, 65536):
                acknowledged += len(chunk)
            os.close(reader)
        ledger = Ledger(path)
        account = cubes.account(budget=100, shares=shares)
        accountant = Accountant(ledger, {"person": account})
        now, charged = left(accountant, "alice"), len(accountant.history())
        assert now <= remaining
        assert now == 2 - Fraction(charged, 20)
        assert acknowledged <= charged <= 40
        remaining = now
        ledger.close()


@pytest.mark.parametrize("amount", [0, -1, float("nan"), float("inf")])
def test_a_share_is_positive_and_finite(amount: Any) -> None:
    with pytest.raises(InvalidParameterValue):
        Share(amount)


def test_a_budget_declared_by_one_process_holds_in_all(cubes: Any, path: Path) -> None:
    first = opened(cubes, path, budget=1)
    first.charge([one(cubes, [[1, 1]], 1.0)], "alice")
    with pytest.raises(BudgetExceeded):
        first.charge([one(cubes, [[1, 1]], 1.0)], "alice")
    raised = opened(cubes, path, budget=2)
    assert first.balance("person").remaining == raised.balance("person").remaining == 1
    first.charge([one(cubes, [[1, 1]], 2.0)], "alice")
    raised.declare({"person": cubes.account(budget="1.25")})
    for accountant in (first, raised):
        assert accountant.balance("person").budget == Fraction("1.25")
        with pytest.raises(BudgetExceeded):
            accountant.charge([one(cubes, [[1, 1]], 4.0)], "alice")
    # Nothing is recorded where nothing changes, nor by a report.
    opened(cubes, path, budget="1.25")
    Accountant(Ledger(path), {"person": cubes.account(budget=7)}, "as given")
    assert recorded(path) == [("epsilon 1", ""), ("epsilon 2", ""), ("epsilon 1.25", "")]


def recorded(path: Path) -> list[tuple[str, str]]:
    ledger = Ledger(path)
    with ledger.snapshot() as view:
        rows = [row.declared for row, _ in view.after(BudgetRecord)]
    return [(budget_text(one), shares_text(one)) for one in rows]


def test_a_process_that_takes_up_the_ledger_has_the_budgets_last_recorded(
    cubes: Any, path: Path
) -> None:
    opened(cubes, path, budget=2, shares=of(alice=1, bob=1))
    given = {"person": cubes.account(budget=9, shares=of(alice=9))}
    later = Accountant(Ledger(path), given, "recorded")
    assert later.balance("person").budget == 2
    assert left(later, "alice") == 1
    assert len(recorded(path)) == 1


def test_shares_declared_by_another_process_hold_at_once_or_forbid(
    cubes: Any, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A share that is new to a running process, which has no meter for it, buys nothing there."""
    caplog.set_level("INFO", "tallyveil")
    first = opened(cubes, path, budget=3, shares=of(alice=1, bob=1))
    second = opened(cubes, path, budget=3, shares=of(alice=2, carol=1))
    first.charge([one(cubes, [[1, 1]], 0.5)], "alice")
    for analyst in ("bob", "carol"):
        with pytest.raises(BudgetExceeded):
            first.charge([one(cubes, [[1, 1]], 4.0)], analyst)
    second.charge([one(cubes, [[1, 1]], 1.0)], "carol")
    assert [left(second, "alice"), left(second, "carol")] == [0, 0]
    needed = [record.fields for record in caplog.records if record.msg == "restart needed"]
    assert needed == [{"table": "person", "reason": "new shares: carol"}]
    second.declare({"person": cubes.account(budget=4)})
    first.charge([one(cubes, [[1, 1]], 4.0)], "bob")
    assert recorded(path)[-1] == ("epsilon 4", "")
    assert recorded(path)[1] == ("epsilon 3", "alice epsilon 2; carol epsilon 1")


def test_a_budget_of_another_unit_needs_a_restart(
    cubes: Any, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = opened(cubes, path, budget=1)
    opened(cubes, path, budget=5, measure="rho", delta=Fraction(1, 10**9))
    assert first.balance("person").budget == 1
    assert "restart needed" in [record.msg for record in caplog.records]
    assert recorded(path)[-1] == ("rho 5 at delta 1e-09", "")
