"""A mechanism that takes a program: who waits for it can be stopped, and nobody else waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.deadline import Deadline, unlimited
from tallyveil.errors import QueryCanceled, StatementTooComplex
from tallyveil.gate import Gate, GateSession
from tallyveil.mechanisms import chart_of, mechanism
from tallyveil.mechanisms.matrix import designing
from tallyveil.mechanisms.matrix.designing import design
from tallyveil.solver_threads import in_solver_thread

DESIGNED = "designed(n=9, properties=cm, objective=l1)"
ONE_AGE = "SELECT count(*) AS n FROM person WHERE age = 7"


class Solver:
    """In place of the real one: it says that it runs, and ends when it is told to."""

    def __init__(self) -> None:
        self.runs, self.end, self.ended = (threading.Event() for _ in range(3))
        self.limits: list[float] = []

    def __call__(self, *arguments: Any, time_limit: float, **options: Any) -> None:
        self.limits.append(time_limit)
        self.runs.set()
        assert self.end.wait(60)
        self.ended.set()


@pytest.fixture
def solver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Solver]:
    replaced = Solver()
    monkeypatch.setattr(designing, "solve", replaced)
    yield replaced
    replaced.end.set()


@pytest.fixture
def open_gate(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> Iterator[Callable[[float], Gate]]:
    opened: list[Gate] = []

    def make(time_limit: float) -> Gate:
        declared = {
            "from": "people",
            "budget": {"epsilon": 1.0},
            "attributes": {"age": {"range": [0, 99], "clamp": True, "nullable": True}},
        }
        policy = tallyveil.parse_policy(
            {"tables": {"person": declared}, "defaults": {"epsilon": 0.1}}, base=tmp_path
        )
        opened.append(Gate(policy, source, time_limit=time_limit))
        return opened[-1]

    yield make
    for gate in opened:
        gate.close()


def asks(session: GateSession, sql: str, cancelled: Callable[[], bool] = bool) -> Any:
    (statement,) = session.parse(sql)
    with session.limited(cancelled):
        return session.execute(statement)


def spent(gate: Gate) -> Any:
    (row,) = asks(gate.session("custodian"), "SELECT spent FROM dp.budget").rows
    return row[0]


@pytest.mark.parametrize("how", ["cancelled", "interrupted"])
@pytest.mark.parametrize("prefix", ["", "EXPLAIN "])
def test_a_design_under_way_is_cancelled_and_costs_nothing(
    open_gate: Callable[[float], Gate], solver: Solver, how: str, prefix: str
) -> None:
    gate = open_gate(60)
    session = gate.session("analyst")
    session.set("dp.mechanism", DESIGNED)
    flag, raised = threading.Event(), []

    def ask() -> None:
        try:
            asks(session, prefix + ONE_AGE, flag.is_set)
        except tallyveil.Error as error:
            raised.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    assert solver.runs.wait(20)
    # Others are answered meanwhile.
    assert asks(gate.session("other"), ONE_AGE).rows
    before = spent(gate)
    if how == "cancelled":
        flag.set()
    else:
        session.interrupt()
    waiting.join(10)
    assert not waiting.is_alive()
    assert [type(error) for error in raised] == [QueryCanceled]
    assert spent(gate) == before


def test_a_design_takes_no_longer_than_the_time_limit(
    open_gate: Callable[[float], Gate], solver: Solver
) -> None:
    gate = open_gate(0.5)
    session = gate.session("analyst")
    session.set("dp.mechanism", DESIGNED)
    with pytest.raises(StatementTooComplex, match="time limit"):
        asks(session, ONE_AGE)
    assert not solver.ended.is_set()
    # The solver was told to stop in time for a proof.
    assert 0 < solver.limits[0] <= 0.45
    assert spent(gate) == 0


def takes_a_matrix() -> None:
    fair: Any = mechanism("fair(n=20)")
    fair.matrix(7.25)


def chooses_a_matrix() -> None:
    chart: Any = chart_of("auto(n=20, properties=rm)")
    chart.chosen(20, (7.25, 7.5))


@pytest.mark.parametrize("work", [takes_a_matrix, chooses_a_matrix])
def test_closed_forms_are_looked_up_from_as_well(work: Callable[[], None]) -> None:
    """Each scale takes a matrix of its own, so who waits for many of them can be stopped."""
    with Deadline(30, cancelled=lambda: True).entered(), pytest.raises(QueryCanceled):
        work()
    work()


def test_the_real_solver_lets_others_run_and_is_left_alone() -> None:
    """n = 80 takes it most of a second; whoever waits looks up five times and is stopped."""
    looks = count()

    def cancelled() -> bool:
        return next(looks) >= 5

    with Deadline(20, cancelled=cancelled).entered(), pytest.raises(QueryCanceled):
        design(80, "10/11", ["WH", "CM"])
    # The next one waits for its turn, and can be stopped as well.
    with Deadline(20, cancelled=cancelled).entered(), pytest.raises(QueryCanceled):
        design(79, "10/11", ["WH", "CM"])


def test_what_a_solver_raises_is_raised_where_it_is_waited_for() -> None:
    def fails() -> None:
        raise ZeroDivisionError("here")

    for _ in range(5):
        with pytest.raises(ZeroDivisionError, match="here"):
            in_solver_thread(fails)
    assert in_solver_thread(lambda: 7) == 7


def test_what_is_paid_for_is_worked_out_after_a_cancel() -> None:
    with Deadline(0, cancelled=lambda: True).entered(), unlimited():
        assert in_solver_thread(lambda: threading.Event().wait(0.1) or 1) == 1


def test_a_condition_too_slow_for_its_cells_says_how_many_and_what_to_write(
    tmp_path: Path,
) -> None:
    with duckdb.connect(":memory:") as source:
        source.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b")
        attributes = {name: {"range": [0, 1999]} for name in "ab"}
        table = {"attributes": attributes, "budget": {"epsilon": 1.0}}
        policy = tallyveil.parse_policy({"tables": {"t": table}}, base=tmp_path)
        gate = Gate(policy, source, time_limit=1.5)  # reading it takes a part of that
        session = gate.session("ann")
        terms = " + ".join(f"sqrt(a * {k} + b)" for k in range(80))
        (parsed,) = session.parse(f"SELECT count(*) FROM t WHERE {terms} > 0")
        with pytest.raises(StatementTooComplex, match="time limit") as caught:
            session.execute(parsed)
        assert caught.value.position == 35
        assert "4000000 combinations of a (2000) × b (2000)" in str(caught.value.detail)
        assert "EXISTS (SELECT 1 FROM (VALUES" in str(caught.value.hint)
        assert gate.accountant.balance("t").spent == 0
        session.close()
        gate.close()


def test_what_the_hint_of_a_slow_condition_says_is_answered(tmp_path: Path) -> None:
    with duckdb.connect(":memory:") as source:
        source.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b FROM range(1000)")
        attributes = {name: {"range": [0, 9]} for name in "ab"}
        table = {"attributes": attributes, "budget": {"epsilon": 100.0}}
        policy = tallyveil.parse_policy({"tables": {"t": table}}, base=tmp_path)
        gate = Gate(policy, source)
        session = gate.session("ann")
        session.set("dp.epsilon", "50")
        (parsed,) = session.parse(
            "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM (VALUES (1, 2), (3, 4), (1, 2))"
            " AS v (x, y) WHERE x = a AND y = b)"
        )
        assert session.execute(parsed).rows == [(1000,)]
        session.close()
        gate.close()


def test_the_time_limit_says_what_took_long_and_what_to_do_about_that(
    open_gate: Callable[[float], Gate],
) -> None:
    """Not to mention fewer attributes where it is the query over the noisy rows."""
    gate = open_gate(1.5)
    counts = "(SELECT age, count(*) AS n FROM person GROUP BY age)"
    crossed = ", ".join(f"{counts} AS t{number}" for number in range(5))
    total = " + ".join(f"t{number}.n" for number in range(5))
    with pytest.raises(StatementTooComplex, match="noisy rows took longer than") as caught:
        asks(gate.session("analyst"), f"SELECT count(*) FROM {crossed} WHERE {total} > 17")
    assert "attributes" not in str(caught.value.hint)
    assert "paid for is remembered" in str(caught.value.hint)
    assert spent(gate) > 0
