"""A statement looks for a cancel often, whatever it is at; what is charged is drawn in between."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import cliffs
from bench.cancel import opened, statement
from bench.looks import looking
from tallyveil.accountant.budgets.pricing import Pricing
from tallyveil.errors import QueryCanceled, StatementTooComplex
from tallyveil.gate import Gate

# Seconds that a statement's thread computes between two looks, on a busy machine; meant is 0.15.
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
        pytest.param("classes of 4,000,000 cells", marks=pytest.mark.slow),
        "long disjunction",
        "many filters",
        "20,000 groups",
        "wide CASE",
    ],
)
def test_a_statement_looks_for_a_cancel_all_the_time(gate: Gate, name: str) -> None:
    # The time limit may end it, where others compute too.
    _looks(gate, statement(name, 1))


def _looks(gate: Gate, sql: str, *settings: str) -> None:
    session = gate.session("analyst")
    for setting in settings:
        session.execute(*session.parse(setting))
    with contextlib.suppress(StatementTooComplex), looking(session) as looks:
        (parsed,) = session.parse(sql)
        session.describe(parsed)
        session.execute(parsed)
    session.close()
    assert max(looks.longest.values()) < _BOUND, looks.longest


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("100,000 groups under 2,000 totals", marks=pytest.mark.slow),
        "20,000 groups under ten totals",
        pytest.param("EXPLAIN over 4,000,000 cells", marks=pytest.mark.slow),
        "CUBE of 112,000 rows",
    ],
)
def test_what_takes_long_looks_for_a_cancel_all_the_time(tmp_path: Path, name: str) -> None:
    exact = cliffs.EXACT.get(name)
    with contextlib.closing(cliffs.opened(tmp_path, exact=exact)) as gate:
        _looks(gate, cliffs.statement(name, 3), *(cliffs.TOGETHER if exact else ()))


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
