"""Distinct counts and quantiles from end to end: what they cost, processes, restarts, failures."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded
from tallyveil.gate import Gate
from tests.gate import many_sessions
from tests.gate.asking import Connect, ask, spent
from tests.gate.many_sessions import PATIENCE
from tests.gate.test_gate_concurrency import together
from tests.pairs import one_in
from tests.programs import start

SQL = (
    "SELECT sex, count(DISTINCT age) AS d, dp_interval_low(d) AS low, median(age) AS m, "
    "quantile_disc(age, 0.9) AS q, count(*) AS n FROM person WHERE age > 2 GROUP BY sex ORDER BY 1"
)


def answer(gate: Gate, sql: str = SQL, **settings: str) -> list[dict[str, Any]]:
    with closing(gate.session("alice", "people", "duckdb")) as session:
        for name, value in settings.items():
            session.set(f"dp.{name}", value)
        table, _ = session.query(sql)
    assert table is not None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def cost(gate: Gate) -> float:
    return float(gate.accountant.balance("person").spent)


def test_what_one_process_buys_others_and_later_ones_answer_alike(tmp_path: Path) -> None:
    """Both are open before it is bought; a third opens the ledger by its summary."""
    first, second = (many_sessions.gate(tmp_path, 1000.0) for _ in range(2))
    found = answer(first, epsilon="2")
    paid = cost(first)
    assert paid > 0
    assert answer(second, epsilon="2") == found
    assert answer(second, source="history") == found
    first.accountant.summarise(0)
    third = many_sessions.gate(tmp_path, 1000.0)
    assert answer(third, epsilon="2") == found
    assert cost(third) == cost(second) == paid
    better = answer(third, epsilon="4")
    assert cost(third) == pytest.approx(paid + 4)
    assert answer(second, epsilon="2") == better == answer(first, source="history")
    for gate in (first, second, third):
        gate.close()


def test_the_same_at_once_is_paid_once(tmp_path: Path) -> None:
    gate = many_sessions.gate(tmp_path, 1000.0)
    found: list[Any] = []
    assert together([lambda: found.append(answer(gate, epsilon="1"))] * 6) == [None] * 6
    assert all(one == found[0] for one in found)
    assert cost(gate) == pytest.approx(1)
    gate.close()


DIES = """
import os, signal, sys
from pathlib import Path
from tallyveil.accountant import Accountant
from tests.gate import many_sessions
gate = many_sessions.gate(Path(sys.argv[1]), 1.5)
Accountant.record = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
session = gate.session("alice", "people", "duckdb")
session.set("dp.epsilon", "1")
session.query(sys.argv[2])
"""


def test_a_process_that_dies_after_the_charge_has_paid(tmp_path: Path) -> None:
    """Drawn answers are lost with it, and nothing is overdrawn."""
    with start(DIES, tmp_path, SQL, stderr=subprocess.PIPE) as other:
        other.communicate(timeout=PATIENCE)
    gate = many_sessions.gate(tmp_path, 1.5)
    assert cost(gate) == pytest.approx(1)
    assert {row["d"] for row in answer(gate, source="history")} == {None}
    with pytest.raises(BudgetExceeded):
        answer(gate, epsilon="1")
    assert cost(gate) == pytest.approx(1)
    assert None not in {row["d"] for row in answer(gate, epsilon="0.5")}
    assert cost(gate) == pytest.approx(1.5)
    gate.close()


@pytest.mark.parametrize("sql", ["SELECT count(DISTINCT age) FROM person", SQL])
def test_failing_is_not_free(connect: Connect, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    connection = connect(budget={"epsilon": 10.0})
    real = Cube.answer

    def failing(self: Cube, *arguments: Any, **named: Any) -> Any:
        real(self, *arguments, **named)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Cube, "answer", failing)
        with pytest.raises(MemoryError):
            connection.execute(sql)
    assert spent(connection) == 0.1
    connection.execute(sql)
    assert spent(connection) == 0.2


UNITS: list[dict[str, Any]] = [
    {},
    {"neighbours": "replace"},
    {"privacy_unit": {"column": "age", "max_rows": 2}},
    {"neighbours": "replace", "privacy_unit": {"column": "age", "max_rows": 2}},
]


def budgets() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    each = ({"epsilon": 50.0}, {"rho": 5.0, "delta": 1e-6})
    yield from itertools.product(UNITS, each)


@pytest.mark.parametrize(("table", "budget"), one_in(2, list(budgets())))
def test_a_statement_costs_what_is_set(
    connect: Connect, table: dict[str, Any], budget: dict[str, Any]
) -> None:
    """Whatever a unit is, and in either measure."""
    unit = "rho" if "rho" in budget else "epsilon"
    connection = connect({unit: 0.1}, budget=budget, **table)
    for sql in (
        "SELECT count(DISTINCT age) FROM person WHERE sex = 'F'",
        "SELECT sex, quantile_disc(age, 0.25) FROM person GROUP BY sex",
        "SELECT count(DISTINCT age), count(DISTINCT sex), count(DISTINCT state) FROM person",
    ):
        lines = connection.explain(sql).splitlines()
        (found,) = [line for line in lines if line.startswith(f"Cost: {unit} ")]
        assert 0.0999 < float(found.split()[2]) <= 0.1
        connection.execute(sql)
    assert 0.1 < spent(connection) <= 0.3


def test_disjoint_groups_share_the_budget(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 0.1})
    for sex in "FM":
        ask(
            connection, f"SELECT median(age), count(DISTINCT state) FROM person WHERE sex = '{sex}'"
        )
    assert spent(connection) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("table", "deviation"),
    [
        ({}, 14.13),
        ({"privacy_unit": {"column": "age", "max_rows": 3}}, 42.42),
        ({"neighbours": "replace"}, 14.13),
        ({"budget": {"rho": 1.0, "delta": 1e-6}}, 5**0.5),
    ],
)
def test_the_noise_is_that_of_its_cost(
    connect: Connect, table: dict[str, Any], deviation: float
) -> None:
    """A unit of three rows moves a distinct count by three; one that is replaced by one."""
    connection = connect({"rho" if "budget" in table else "epsilon": 0.1}, **table)
    ((found,),) = ask(connection, "SELECT dp_stddev(count(DISTINCT age)) FROM person")
    assert found == pytest.approx(deviation, rel=0.001)


def test_answers_are_as_good_as_they_say(connect: Connect) -> None:
    """120 distinct counts and quantiles: 95 % intervals miss more than 22 once in 10⁷."""
    connection = connect({"epsilon": 1}, budget={"epsilon": 10_000.0})
    missed = far = 0
    for _ in range(120):
        ((low, high, middle),) = ask(
            connection,
            "SELECT dp_interval_low(d), dp_interval_high(d), m FROM (SELECT count(DISTINCT age) "
            "AS d, median(age) AS m FROM person) AS t",
            source="fresh",
        )
        missed += not low <= 80 <= high
        # 16 records at 95 %, of 37 or 38 at each age: the median is 39 or 40.
        far += not 38 <= middle <= 41
    assert missed <= 22
    assert far <= 22


def test_the_ledger_shows_them(connect: Connect) -> None:
    connection = connect()
    ask(connection, "SELECT sex, count(DISTINCT age), median(age) FROM person GROUP BY sex")
    found = ask(connection, "SELECT mechanism, rows, cost FROM dp.history ORDER BY charge_id")
    assert found == [("distinct_laplace", 3, 0.05), ("quantile", 3, 0.05)]
