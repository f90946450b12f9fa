"""Sessions that ask at the same time: none hangs, nothing is overdrawn, nothing paid for twice."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil import deadline
from tallyveil.accountant import LedgerAdvanced
from tallyveil.errors import InsufficientPrivilege, QueryCanceled
from tallyveil.gate import Gate
from tallyveil.locks import check_none_held
from tests.gate import many_sessions
from tests.gate.asking import spent
from tests.gate.many_sessions import PATIENCE, SEXES, ask_all
from tests.programs import start

SCRIPT = "import sys; from tests.gate.many_sessions import main; main(*sys.argv[1:])"


def budget(gate: Gate) -> list[tuple[Any, ...]]:
    session = gate.session("custodian", "people", "duckdb")
    try:
        table, _ = session.query("SELECT remaining, budget FROM dp.budget")
    finally:
        session.close()
    assert table is not None
    return [tuple(row.values()) for row in table.to_pylist()]


def together(work: list[Callable[[], object]]) -> list[BaseException | None]:
    """What each raises, at the same time. Raises TimeoutError if they do not end."""
    begin = threading.Barrier(len(work))

    def one(ask: Callable[[], object]) -> None:
        begin.wait(PATIENCE)
        ask()

    pool = ThreadPoolExecutor(len(work))
    try:
        return [one.exception(PATIENCE) for one in [pool.submit(one, ask) for ask in work]]
    finally:
        pool.shutdown(wait=False)


@pytest.mark.parametrize("questions", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_eight_sessions_with_different_questions_come_to_an_end(
    tmp_path: Path, questions: int
) -> None:
    gate = many_sessions.gate(tmp_path)
    outcome = ask_all(gate, 8, questions)
    assert sum(outcome.values()) == 8 * questions
    assert outcome["refused"] > 0
    ((remaining, whole),) = budget(gate)
    assert 0 <= remaining < whole
    gate.close()


def two_processes(directory: Path, sessions: int, questions: int) -> None:
    """This one, and another that begins with it."""
    gate = many_sessions.gate(directory)
    pipe = subprocess.PIPE
    with start(SCRIPT, directory, sessions, questions, stdin=pipe, stdout=pipe) as other:
        try:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            other.stdin.write("begin\n")
            other.stdin.flush()
            ours = ask_all(gate, sessions, questions)
            theirs = other.communicate(timeout=PATIENCE)[0].split()
        finally:
            other.kill()
    assert [sum(ours.values()), sum(map(int, theirs))] == [sessions * questions] * 2
    assert gate.accountant.balance("person").remaining >= 0
    gate.close()


def test_sessions_of_two_processes_on_one_ledger_come_to_an_end(tmp_path: Path) -> None:
    two_processes(tmp_path, 3, 5)


@pytest.mark.slow
def test_many_sessions_of_two_processes_on_one_ledger_come_to_an_end(tmp_path: Path) -> None:
    two_processes(tmp_path, 8, 50)


DRAWS_LONG = """
import sys
from pathlib import Path
from tests.gate import many_sessions
gate = many_sessions.gate(Path(sys.argv[1]), 1000.0)
drawing = gate.decision._drawing
def slowly(purchases):
    draw = drawing(purchases)
    def drawn(*arguments):
        print("drawing", flush=True)
        sys.stdin.readline()
        return draw(*arguments)
    return drawn
gate.decision._drawing = slowly
gate.decision._quickly_drawn = lambda purchases: False
session = gate.session("alice", "people", "duckdb")
session.query(sys.argv[2])
"""


@pytest.mark.parametrize("ends", ["draws", "dies"])
def test_what_another_process_draws_is_waited_for_as_long_as_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """However long that takes; if it is killed meanwhile, the rows are bought at once."""
    sql, pauses = f"SELECT count(*) FROM person WHERE age < 9{SEXES[0]}", list[int]()
    gate = many_sessions.gate(tmp_path, 1000.0)
    pipe = subprocess.PIPE
    with start(DRAWS_LONG, tmp_path, sql, stdin=pipe, stdout=pipe) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "drawing\n"

        def pause() -> None:
            pauses.append(len(gate.accountant.history("person")))
            if len(pauses) == 100:
                if ends == "dies":
                    other.kill()
                else:
                    other.stdin.write("go on\n")
                    other.stdin.flush()
                other.wait(PATIENCE)

        monkeypatch.setattr(gate.decision.others, "_pause", pause)
        session = gate.session("bob", "people", "duckdb")
        session.query(sql)
    assert pauses == [1] * 100
    assert len(gate.accountant.history("person")) == (1 if ends == "draws" else 2)
    gate.close()


@pytest.mark.parametrize("source", ["auto", "fresh"])
def test_the_same_questions_at_once_are_paid_once_unless_fresh(tmp_path: Path, source: str) -> None:
    gate = many_sessions.gate(tmp_path, 1000.0)

    def ask() -> None:
        session = gate.session("alice", "people", "duckdb")
        session.set("dp.source", source)
        for number in range(10):
            session.query(f"SELECT count(*) FROM person WHERE age < {number + 1}{SEXES[0]}")
        session.close()

    assert together([ask] * 6) == [None] * 6
    charges = 10 if source == "auto" else 60
    assert len(gate.accountant.history("person")) == charges
    gate.close()


def test_whoever_waits_for_another_purchase_can_be_cancelled(tmp_path: Path) -> None:
    gate = many_sessions.gate(tmp_path)
    session = gate.session("alice", "people", "duckdb")
    statement = session.parse("SELECT count(*) FROM person")[0]
    taken, cancelled = threading.Event(), threading.Event()

    def buy() -> None:
        rows = [gate.rewriter.plan(statement.sql, "duckdb", session._cursor).workloads["person"]]
        with gate.decision.reservations.of(rows, ()):
            taken.set()
            assert cancelled.wait(PATIENCE)

    def ask() -> None:
        other = gate.session("bob", "people", "duckdb")
        assert taken.wait(PATIENCE)
        try:
            with other.limited(lambda: deadline._current.get().phase is deadline.Phase.OTHERS):
                other.execute(statement)
        finally:
            cancelled.set()
            other.close()

    first, second = together([buy, ask])
    assert first is None
    assert isinstance(second, QueryCanceled)
    assert gate.accountant.balance("person").spent == 0
    session.close()
    gate.close()


CONTROL = {"min_half_width": 20.0, "confidence": 0.95}
# One of these is allowed, at ±24 or so; both together would tell the count to less than ±20.
EPSILON = "0.12"


def test_purchases_at_once_do_not_get_past_inference_control(tmp_path: Path) -> None:
    gate = many_sessions.gate(tmp_path, inference_control=CONTROL)

    def ask() -> None:
        session = gate.session("alice", "people", "duckdb")
        session.set("dp.source", "fresh")
        session.set("dp.epsilon", EPSILON)
        try:
            session.query("SELECT count(*) FROM person WHERE sex = 'F'")
        finally:
            session.close()

    failures = together([ask] * 4)
    assert [type(failure) for failure in failures if failure is not None] == [
        InsufficientPrivilege
    ] * 3
    assert gate.accountant.balance("person").spent == Fraction(EPSILON)
    gate.close()


def test_purchases_of_two_processes_do_not_get_past_inference_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process charges between this one's look and its charge, and has not recorded its
    answer when it is looked at again."""
    gate = many_sessions.gate(tmp_path, inference_control=CONTROL)
    other = many_sessions.gate(tmp_path)
    session = gate.session("alice", "people", "duckdb")
    session.set("dp.epsilon", EPSILON)
    session.set("dp.source", "fresh")
    sell, made = gate.accountant.sell, []

    def overtaken(charges: Any, *arguments: Any, **options: Any) -> Any:
        if not made:
            made.append(other.accountant.charge(charges, "bob"))
        return sell(charges, *arguments, **options)

    monkeypatch.setattr(gate.accountant, "sell", overtaken)
    with pytest.raises(InsufficientPrivilege):
        session.query("SELECT count(*) FROM person WHERE sex = 'F'")
    assert gate.accountant.balance("person").spent == Fraction(EPSILON)
    session.close()
    gate.close()
    other.close()


def test_a_charge_decided_on_an_older_state_is_not_made(tmp_path: Path) -> None:
    gate = many_sessions.gate(tmp_path)
    session = gate.session("alice", "people", "duckdb")
    state = {"person": gate.accountant.seen()}
    session.query("SELECT count(*) FROM person")
    spent = gate.accountant.balance("person").spent
    with pytest.raises(LedgerAdvanced):
        gate.accountant.sell([], "alice", decided_on=state)
    assert gate.accountant.balance("person").spent == spent
    gate.accountant.sell([], "alice", decided_on={"person": gate.accountant.seen()})
    session.close()
    gate.close()


class _Looks:
    """A turn that never waits, asked wherever a statement would wait or could end."""

    def waits(self) -> bool:
        check_none_held()
        return False


def test_no_statement_waits_while_it_takes_in_the_answers_of_others(tmp_path: Path) -> None:
    """It would keep a lock from all others and, if it ended there, know half of a purchase."""
    source = duckdb.connect()
    source.execute("CREATE TABLE people AS SELECT i % 3 AS a, i % 4 AS b FROM range(3000) t(i)")
    attributes = {"a": {"range": [0, 2]}, "b": {"range": [0, 3]}}
    table = {"from": "people", "budget": {"epsilon": 10.0}, "attributes": attributes}
    keys = {"ledger": "own.sqlite", "tables": {"person": table}, "defaults": {"epsilon": 0.1}}
    policy = tallyveil.parse_policy(keys, base=tmp_path)
    buyer, reader = (tallyveil.Connection(Gate(policy, source)) for _ in range(2))
    for sql in (
        "SELECT a, b, count(*) FROM person GROUP BY a, b",
        "SELECT CASE WHEN a < 1 THEN 'x' ELSE 'y' END AS k, count(*) FROM person GROUP BY k",
    ):
        bought = buyer.execute(sql).fetchall()
        with deadline.taking(_Looks()):
            assert reader.execute(sql).fetchall() == bought
    assert spent(reader) == spent(buyer)
    for one in (buyer, reader):
        one.close()
    source.close()
