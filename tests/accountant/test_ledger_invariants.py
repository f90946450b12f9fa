"""Counts that are published exactly, as the ledger keeps them: facts without a charge."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tallyveil.accountant import PUBLISHED, Account, Accountant, Ledger, invariants_of
from tallyveil.accountant.published_counts import DECLARED
from tallyveil.boundary import TrueAnswer
from tallyveil.errors import LedgerError, ReceiptError
from tallyveil.mechanisms.constrained.joint_release import published
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.workload.workload import Column, Workload
from tests.accountant.ledgers import altered

DOMAIN = Domain("person", (Attribute("day", "range", "BIGINT", tuple(range(6))),))
ACCOUNTS = {"person": Account(DOMAIN, "replace", 1, Fraction(1), "f")}


def days(*cells: int) -> Workload:
    at = np.array(cells)
    column = Column.joint(("day",), (6,), 1, np.zeros_like(at), at, np.ones_like(at))
    return Workload("person", (column,))


COUNTS = {"SELECT 1": days(1), "SELECT 2": days(2, 3)}


def recorded(path: Path, event: str) -> list[tuple[str, bytes]]:
    with closing(Ledger(path)) as ledger:
        found = invariants_of(ledger, "person", event)
    return [(sql, Workload("person", columns).key) for sql, columns in found]


def test_they_are_kept_once_and_cost_nothing(path: Path) -> None:
    for _ in range(2):
        with closing(Ledger(path)) as ledger:
            accountant = Accountant(ledger, ACCOUNTS)
            accountant.declare_exact("person", COUNTS)
            accountant.publish_exact("person", {"SELECT 2": COUNTS["SELECT 2"]})
            assert accountant.balance("person").spent == 0
            assert accountant.history() == []
    assert recorded(path, DECLARED) == [(sql, own.key) for sql, own in COUNTS.items()]
    assert recorded(path, PUBLISHED) == [("SELECT 2", COUNTS["SELECT 2"].key)]


def test_the_same_words_for_other_rows_are_another_invariant(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, ACCOUNTS)
        for own in (days(1), days(1, 2)):
            accountant.publish_exact("person", {"SELECT 1": own})
    assert recorded(path, PUBLISHED) == [("SELECT 1", days(1).key), ("SELECT 1", days(1, 2).key)]


def test_they_are_opened_by_a_receipt_for_no_noise_only(path: Path) -> None:
    """Which there is once they are written down."""
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, ACCOUNTS)
        (receipt,) = accountant.declare_exact("person", {"SELECT 1": days(1)})
        assert len(invariants_of(ledger, "person", DECLARED)) == 1
        assert published(TrueAnswer(days(1).key, [[7]]), receipt) == ((7,),)
        with pytest.raises(ReceiptError):
            published(TrueAnswer(days(1).key, [[7]]), receipt)
        (other,) = accountant.declare_exact("person", {"SELECT 1": days(1)})
        with pytest.raises(ReceiptError):
            published(TrueAnswer(days(2).key, [[7]]), other)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE invariant SET event = 'declared'",
        "UPDATE invariant SET columns = x'00'",
        "DELETE FROM invariant WHERE id = 1",
        "DELETE FROM invariant",
    ],
)
def test_what_was_altered_or_lost_is_found(path: Path, change: str) -> None:
    with closing(Ledger(path)) as ledger:
        Accountant(ledger, ACCOUNTS).publish_exact("person", COUNTS)
    altered(path, change)
    with pytest.raises(LedgerError, match="lost or altered"):
        recorded(path, PUBLISHED)
