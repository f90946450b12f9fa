"""Rows that are known exactly are answers of variance 0, and always take part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tallyveil.accountant import Account, Accountant, Charge, Ledger
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.invariants import Span
from tallyveil.knowledge import Aim, Knowledge, Known
from tallyveil.mechanisms import mechanism
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.workload.workload import Column, Workload
from tests import matrices

LEVEL = Fraction("0.95")
LAPLACE = mechanism("laplace")


def days(*rows: Sequence[int]) -> Column:
    return matrices.column(rows, ["day"])


Asks = Callable[[Column], list[Known | None]]


@pytest.fixture
def ask(tmp_path: Path) -> Callable[[Accountant], Asks]:
    """What is known of a column's rows: days 0 and 1 hold nobody, days 2 and 3 have 10 together,
    and there are 40 in all."""

    def make(accountant: Accountant) -> Asks:
        knowledge = Knowledge(accountant, "person")
        exact = [
            days([1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]),
            days([0, 0, 1, 1, 0, 0]),
            Column(),
        ]
        knowledge.declare(Span(exact, {"day": 6}), (0, 0, 10, 40))
        aim = Aim(LAPLACE, 20.0, None, LEVEL)
        return lambda column: list(knowledge.find([column], [aim]).rows[0])

    return make


@pytest.fixture
def accountant() -> Accountant:
    domain = Domain("person", (Attribute("day", "range", "BIGINT", tuple(range(6))),))
    account = Account(domain, "add_remove", 1, Fraction(10), "f")
    with closing(Ledger(":memory:")) as ledger:
        yield Accountant(ledger, {"person": account})


def test_what_follows_from_exact_rows_is_exact(
    ask: Callable[[Accountant], Asks], accountant: Accountant
) -> None:
    known = ask(accountant)
    for row, value in (
        ([1, 0, 0, 0, 0, 0], 0),
        ([1, 1, 0, 0, 0, 0], 0),
        ([1, 0, 1, 1, 0, 0], 10),
        ([0, 0, 0, 0, 1, 1], 30),
        ([3, 0, 2, 2, 0, 0], 20),
        ([1, 1, 1, 1, 1, 1], 40),
    ):
        [found] = known(days(row))
        assert found is not None
        assert found.error.exact
        assert found.interval(LEVEL) == (value, value, value)
        assert found.probability(value, value) == pytest.approx(1)
        assert found.error.deviation == 0
    assert known(days([0, 0, 1, 0, 0, 0])) == [None]


def test_estimates_agree_with_what_is_exact(
    ask: Callable[[Accountant], Asks], accountant: Accountant
) -> None:
    """To 1e-9, before they are rounded, over answers of several scales and shapes."""
    every = days(*np.eye(6, dtype=np.int64).tolist())
    ends = days([1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 0])
    for columns, scale in (([every], 20.0), ([ends], 3.0), ([every, ends], 7.5)):
        charge = Charge(Workload("person", tuple(columns)), "laplace", (scale,) * len(columns), "")
        (receipt,) = accountant.charge([charge], "alice")
        accountant.record(receipt, [range(7, 7 + column.height) for column in columns])
        found = [row.value for row in ask(accountant)(every) if row is not None]
        assert len(found) == 6
        assert found[:2] == [0, 0]
        assert sum(found[2:4]) == pytest.approx(10, rel=1e-9)
        assert sum(found) == pytest.approx(40, rel=1e-9)


def test_exact_rows_take_part_in_estimates_of_answers(
    ask: Callable[[Accountant], Asks], accountant: Accountant
) -> None:
    charge = Charge(Workload("person", (days([0, 0, 1, 0, 0, 0]),)), "laplace", (5.0,), "SELECT 1")
    (receipt,) = accountant.charge([charge], "alice")
    accountant.record(receipt, [[7]])
    [other] = ask(accountant)(days([0, 0, 0, 1, 0, 0]))
    half = DiscreteLaplaceLaw(5.0).half_width(LEVEL)
    assert other is not None
    assert other.interval(LEVEL) == (3, 3 - half, 3 + half)
    assert not other.error.exact
