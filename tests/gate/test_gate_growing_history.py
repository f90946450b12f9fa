"""What others ask meanwhile costs a question asked again a new look only where it can matter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tallyveil
from tallyveil.knowledge import Aim, Knowledge
from tallyveil.knowledge.estimates import Estimates
from tallyveil.knowledge.recorded.matrix import Selection
from tallyveil.knowledge.recorded.prepared import PreparedColumn
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.mechanisms import mechanism
from tests.gate.asking import ask

WIDE = {"a": {"range": [0, 199]}, "b": {"range": [0, 299]}, "d": {"range": [0, 9]}}
COUNT = "SELECT count(*) FROM visits WHERE a < 100"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[tallyveil.Connection]:
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE visits AS SELECT i % 200 AS a, i % 300 AS b, i % 10 AS d"
            " FROM range(6000) t(i)"
        )
        table = {"from": "visits", "budget": {"epsilon": 100}, "attributes": WIDE}
        keys = {"tables": {"visits": table}, "defaults": {"epsilon": 0.05}}
        policy = tallyveil.parse_policy(keys, base=tmp_path)
        with tallyveil.connect(policy, source=source) as made:
            yield made


def looked(knowledge: Knowledge, connection: tallyveil.Connection) -> Estimates:
    session = connection._session
    [statement] = session.parse(COUNT)
    plan = session._planner.plan(statement.query)
    [column] = plan.workloads["visits"].columns
    aim = Aim(mechanism("laplace"), 20.0, None, session.settings.target.confidence)
    [joint] = knowledge.find([column], [aim]).estimates
    return joint


def answered(joint: Estimates) -> list[object]:
    return [
        (row.value, row.variance, row.numbers.tolist(), row.basis)
        for row in joint.rows[0].row_estimates
        if row is not None
    ]


def test_what_is_kept_while_history_grows_is_what_a_new_look_finds(
    connection: tallyveil.Connection,
) -> None:
    """Narrow answers, one that makes the count better, and ones too wide to be looked at."""
    accountant = connection._session._gate.accountant
    kept = Knowledge(accountant, "visits")
    improving = [
        "a < 50",
        "a BETWEEN 50 AND 99",
        "b < 10",
        "a < 100 AND d < 5",
        "a < 100 AND d > 4",
    ]
    seen = set()
    for number, where in enumerate(improving):
        connection.execute(f"SELECT count(*) FROM visits WHERE {where}").fetchall()
        connection.execute(f"SELECT sum(a * b) FROM visits WHERE d <> {number}").fetchall()
        found, anew = looked(kept, connection), looked(Knowledge(accountant, "visits"), connection)
        assert answered(found) == answered(anew)
        assert found.seen == anew.seen
        seen.add(str(answered(found)))
    assert len(seen) > 2


def test_an_answer_too_wide_to_be_looked_at_costs_a_repeated_count_no_new_look(
    connection: tallyveil.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(COUNT).fetchall()
    for d in range(1, 5):
        items = (f"count(*) FILTER (WHERE a BETWEEN {low} AND 190)" for low in range(90))
        connection.execute(f"SELECT {', '.join(items)} FROM visits WHERE d < {d}").fetchall()
    laid_out: list[int] = []
    make = System.of_selected

    def noted(state: State, selection: Selection, kinds: int, sums: int) -> System:
        laid_out.append(len(selection.recorded))
        return make(state, selection, kinds, sums)

    monkeypatch.setattr(System, "of_selected", noted)
    connection.execute(COUNT).fetchall()
    assert sum(map(bool, laid_out)) == 1
    for number in range(5):
        ask(connection, f"SELECT sum(a * b) FROM visits WHERE d <> {number}", source="fresh")
        ask(connection, COUNT, source="auto")
    assert sum(map(bool, laid_out)) == 1


def test_who_buys_much_works_out_what_others_need_of_it(
    connection: tallyveil.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count asked after 90 columns were bought prepares none of them."""
    ask(connection, COUNT, source="fresh")
    items = (f"count(*) FILTER (WHERE a BETWEEN {low} AND 190)" for low in range(90))
    connection.execute(f"SELECT {', '.join(items)} FROM visits").fetchall()
    made: list[object] = []
    of = PreparedColumn.of
    monkeypatch.setattr(PreparedColumn, "of", lambda *own: made.append(own) or of(*own))
    ask(connection, COUNT, source="history")
    assert len(made) <= 1
