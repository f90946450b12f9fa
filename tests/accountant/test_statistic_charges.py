"""Charges for distinct counts and quantiles in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.errors import BudgetExceeded, LedgerMismatch, TallyveilError
from tallyveil.mechanisms import STATISTICS
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Workload


def statistic(cubes: Any, name: str, scale: float = 20.0) -> Charge:
    """Of the three ages of each hue, the second hue's in another order, or of the units in two of
    them."""
    rows = np.eye(6, dtype=int).tolist()
    order = np.array([0, 1, 2, 5, 4, 3], dtype=np.int64)
    groups = np.array([0, 0, 0, 1, 1, 1], dtype=np.int64)
    q = Fraction(1, 4) if name == "quantile" else None
    histogram = Histogram(cubes.column(["hue", "age"], rows), order, groups, 2, q)
    if name == "mode":
        histogram = replace(histogram, kind="mode")
    if STATISTICS[name].kind == "units":
        rows = [[1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0]]
        histogram = Histogram.of_units(cubes.column(["hue", "age"], rows))
    workload = Workload("person", (histogram.column,))
    return Charge(workload, name, (scale,), "SELECT 1", histogram=histogram)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("summarised", [False, True])
def test_they_are_read_as_they_were_made(
    cubes: Any, path: Path, name: str, summarised: bool
) -> None:
    """By their own rule, also when the ledger is opened by its summary; no counts are estimated
    from their answers."""
    account = cubes.account(neighbours="replace", measure="rho", delta=1e-6)
    charge = statistic(cubes, name)

    def opened(use: Callable[[Accountant], None]) -> None:
        with closing(Ledger(path)) as ledger:
            use(Accountant(ledger, {"person": account}))

    def buy(accountant: Accountant) -> None:
        (receipt,) = accountant.charge([charge], "alice")
        assert receipt.workload_key == charge.key != charge.workload.key
        assert not accountant.pending("person")
        with pytest.raises(TallyveilError, match="another number of rows"):
            accountant.record(receipt, [[1, 2, 0, 0, 1, 1]])
        accountant.record(receipt, [[1, 2]])
        accountant.charge([charge], "alice")
        if summarised:
            accountant.summarise(0)

    opened(buy)

    def look(accountant: Accountant) -> None:
        loss = STATISTICS[name].loss(charge.histogram, 20.0, account.relation, "rho")
        assert accountant.balance("person").spent == Fraction(2 * loss.bound, 10**12)
        assert accountant.learned("person", 0, 0) == ([], [])
        assert not accountant.pending("person")
        (release,) = accountant.statistics("person", 0)
        found = release.decoded()
        assert [answer.values for answer in release.answers] == [(1, 2)]
        assert found.histogram is not None
        assert found.histogram.keys == charge.histogram.keys
        assert (found.mechanism, found.scales, found.key) == (name, (20.0,), charge.key)
        assert [entry.rows for entry in accountant.history()] == [2, 2]
        assert accountant.statistics("person", 1) == []

    opened(look)


def test_they_share_the_budget_of_counts(cubes: Any, path: Path) -> None:
    """All three cells of a hue pay; to replace one by another moves two groups."""
    with closing(Ledger(path)) as ledger:
        account = cubes.account(Fraction(1, 8), "replace")
        accountant = Accountant(ledger, {"person": account})
        charge = statistic(cubes, "distinct_laplace")
        accountant.charge([charge], "alice")
        assert accountant.balance("person").spent == Fraction(1, 10)
        with pytest.raises(BudgetExceeded):
            accountant.charge([charge], "alice")
        assert accountant.balance("person").spent == Fraction(1, 10)


def test_gaussian_ones_have_no_cost_in_epsilon(cubes: Any, path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, {"person": cubes.account(measure="rho", delta=1e-6)})
        accountant.charge([statistic(cubes, "distinct_gaussian")], "alice")
    with closing(Ledger(path)) as ledger, pytest.raises(LedgerMismatch):
        Accountant(ledger, {"person": cubes.account()})
