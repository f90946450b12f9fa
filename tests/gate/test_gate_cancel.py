"""A statement looks for a cancel often, whatever it is at; what is charged is drawn in between."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bench.cancel import opened, statement
from tallyveil.accountant.pricing import Pricing
from tallyveil.errors import QueryCanceled, StatementTooComplex
from tallyveil.gate import Gate

# Seconds that a statement's thread computes between two looks, on a busy machine; meant is 0.2.
_BOUND = 1.0


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    gate = opened(tmp_path_factory.mktemp("cancel"))
    yield gate
    gate.close()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("domain of 4,000,000 cells", marks=pytest.mark.slow),
        pytest.param("groups of 4,000,000 cells", marks=pytest.mark.slow),
        "classes of 4,000,000 cells",
        "long disjunction",
        "many filters",
        "20,000 groups",
        "wide CASE",
    ],
)
def test_a_statement_looks_for_a_cancel_all_the_time(gate: Gate, name: str) -> None:
    looks: list[float] = []
    thread = threading.get_ident()

    def look() -> bool:
        if threading.get_ident() == thread:
            looks.append(time.thread_time())
        return False

    session = gate.session("analyst")
    (parsed,) = session.parse(statement(name, 1))
    look()
    # The time limit may end it, where others compute too.
    with contextlib.suppress(StatementTooComplex), session.limited(look):
        session.execute(parsed)
    look()
    session.close()
    assert max(after - before for before, after in itertools.pairwise(looks)) < _BOUND


def test_a_cancel_while_a_charge_is_worked_out_charges_nothing(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    price, cancelled = Pricing.price, []

    def cancel_and_price(pricing: Pricing, charge: Any) -> Any:
        cancelled.append(charge)
        return price(pricing, charge)

    monkeypatch.setattr(Pricing, "price", cancel_and_price)
    session = gate.session("analyst")
    before = gate.accountant.balance("t").spent
    (parsed,) = session.parse("SELECT count(*) FROM t WHERE a > 5 AND b < 7")
    with pytest.raises(QueryCanceled), session.limited(lambda: bool(cancelled)):
        session.execute(parsed)
    assert cancelled
    assert gate.accountant.balance("t").spent == before
    session.close()
