"""Killed at any moment, the ledger holds every charge that was ever acknowledged."""

from __future__ import annotations

import itertools
import os
import random
import select
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.boundary import Receipt
from tallyveil.errors import BudgetExceeded, LedgerError
from tallyveil.workload.workload import Workload
from tests.accountant.ledgers import forked, recorded_answers
from tests.accountant.stores import Houses

COST = Fraction(1, 20)


def announced(reader: int) -> list[int]:
    text = b""
    while chunk := os.read(reader, 65536):
        text += chunk
    os.close(reader)
    return [int(line) for line in text.split(b"\n")[:-1]]


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_no_acknowledged_charge_is_lost_and_no_budget_comes_back(
    cubes: Any, houses: Houses, kills: int
) -> None:
    house, accounts = houses(), {"person": cubes.account(10**5)}
    workload = Workload("person", (cubes.column(["hue"], [[1, 0], [0, 1]]),))
    charge = Charge(workload, "laplace", (20.0,), "SELECT 1")

    def work(pipe: int) -> None:
        accountant = Accountant(house.open(), accounts)
        while True:
            (receipt,) = accountant.charge([charge], "alice")
            os.write(pipe, b"%d\n" % receipt.charge_id)
            accountant.record(receipt, [[1, receipt.charge_id]])

    remaining, total = accounts["person"].budget, 0
    for _ in range(kills):
        child, reader = forked(work)
        # Once it has begun to charge, a moment chosen at random.
        select.select([reader], [], [], 10)
        select.select([], [], [], random.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        receipts = announced(reader)
        ledger = house.open()
        accountant = Accountant(ledger, accounts)
        charged = [entry.charge_id for entry in accountant.history()]
        assert receipts
        assert set(receipts) <= set(charged)
        balance = accountant.balance("person")
        assert balance.remaining <= remaining - len(receipts) * COST
        assert balance.spent == len(charged) * COST
        remaining, total = balance.remaining, total + len(receipts)
        ledger.close()
    assert total >= kills


@pytest.mark.parametrize("losing", [False, True])
def test_processes_racing_for_the_last_budget_do_not_overdraw(
    cubes: Any, houses: Houses, *, losing: bool
) -> None:
    """Also if each loses its store now and then, at any step."""
    house, accounts = houses(), {"person": cubes.account(2)}
    workload = Workload("person", (cubes.column(["hue"], [[1, 0]]),))
    charge = Charge(workload, "laplace", (20.0,), "SELECT 1")

    def draw(number: int, receipt: Receipt) -> Any:
        return ((receipt.charge_id,),)

    def work(pipe: int) -> None:
        ledger, chance = house.open(), random.Random()
        accountant = Accountant(ledger, accounts)

        def fault(_: int, __: str) -> None:
            if chance.random() < 0.02:
                raise house.lost("it is lost here")

        if losing:
            house.fail(ledger, fault)
        for number in itertools.count():
            try:
                sale = accountant.sell([charge], "alice", draw if number % 2 else None)
            except BudgetExceeded:
                return
            except LedgerError:
                continue
            os.write(pipe, b"%d\n" % sale.receipts[0].charge_id)

    children = [forked(work) for _ in range(3)]
    receipts = [number for _, reader in children for number in announced(reader)]
    for child, _ in children:
        os.waitpid(child, 0)
    accountant = Accountant(house.open(), accounts)
    charged = [entry.charge_id for entry in accountant.history()]
    assert charged == list(range(1, 41))
    assert accountant.balance("person").remaining == 0
    assert len(set(receipts)) == len(receipts)
    assert set(receipts) <= set(charged)
    assert losing or len(receipts) == 40
    answers = recorded_answers(accountant, "person")
    assert all(one.values == (one.charge_id,) for one in answers)


def test_files_deleted_beside_a_ledger_in_use_give_no_budget_back(
    cubes: Any, tmp_path: Path
) -> None:
    path, accounts = tmp_path / "ledger", {"person": cubes.account(100)}
    workload = Workload("person", (cubes.column(["hue"], [[1, 0]]),))
    charge = Charge(workload, "laplace", (20.0,), "SELECT 1")

    def work(pipe: int) -> None:
        accountant = Accountant(Ledger(path), accounts)
        for _ in range(40):
            (receipt,) = accountant.charge([charge], "alice")
            os.write(pipe, b"%d\n" % receipt.charge_id)

    child, reader = forked(work)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        for ending in ("-journal", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
    # The second server knows all that the first one sold.
    second = Accountant(Ledger(path), accounts)
    assert announced(reader) == list(range(1, 41))
    assert len(second.history()) == 40
    assert second.balance("person").spent == 40 * COST
