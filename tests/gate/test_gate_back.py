"""The back of the gate in a process of its own: what passes between it and the front are values.

Each call of `Back` and `BudgetReports`, its result and its errors are pickled on the way to a
process that was started afresh and has the counts. The front answers as one with its own back
does, and nothing that is confidential or names a place passes.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import pickle
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.accountant import Accountant
from tallyveil.boundary import Receipt, TrueAnswer
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, FeatureNotSupported, TallyveilError
from tallyveil.gate import Gate
from tallyveil.gate.planning import Planner
from tallyveil.gate.settings.as_of import AsOf
from tallyveil.gate.shared import Shared
from tallyveil.policy import Policy, load_policy

POLICY = """
ledger = "ledger"
source = { url = "people.parquet" }
[tables.person]
privacy_unit = "row"
budget = { epsilon = 40 }
[tables.person.attributes]
age = { range = [0, 19] }
town = { values = ["north", "south", "west"] }
"""
STATEMENTS = [
    "SELECT count(*) FROM person",
    "SELECT town, count(*) FROM person WHERE age < 12 GROUP BY ROLLUP (town) ORDER BY town",
    "SELECT town, avg(age), dp_interval_low(avg(age)), dp_interval_high(avg(age)) FROM person"
    " GROUP BY town ORDER BY town",
    "SELECT stddev(age), dp_interval_low(stddev(age)) FROM person",
    "SELECT age, sum(count(*)) OVER (ORDER BY age) FROM person GROUP BY age ORDER BY age",
    "SELECT count(DISTINCT age) FROM person WHERE town = 'west'",
    "SELECT median(age) FROM person",
    "SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person)",
]
CONFIDENTIAL = Cube, TrueAnswer, Receipt, Accountant, Policy, Path
SECONDS = 300


class Values(pickle.Pickler):
    """Refuses what must not pass."""

    def persistent_id(self, thing: object) -> None:
        assert not isinstance(thing, CONFIDENTIAL), type(thing)


def packed(thing: object) -> bytes:
    found = io.BytesIO()
    Values(found).dump(thing)
    return found.getvalue()


def serve(policy: str, pipe: Pipe) -> None:
    """The process of the back: calls come as (of which edition, of what, name, arguments)."""
    with contextlib.closing(Gate(load_policy(Path(policy)))) as gate:
        pipe.send_bytes(b"open")
        while called := pipe.recv_bytes():
            then, of, name, arguments = pickle.loads(called)
            gate.editions.follow()
            owner = gate.budgets if of == "budgets" else gate.editions.at(then).decision
            try:
                result: tuple[bool, object] = True, getattr(owner, name)(*arguments)
            except TallyveilError as error:
                result = False, error
            pipe.send_bytes(packed(result))


class Away:
    """Calls the other process."""

    def __init__(self, pipe: Pipe, of: str, then: AsOf | None, passed: list[bytes]) -> None:
        self._about, self._pipe, self._passed = (then, of), pipe, passed

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object) -> Any:
            sent = packed((*self._about, name, arguments))
            self._pipe.send_bytes(sent)
            assert self._pipe.poll(SECONDS)
            received = self._pipe.recv_bytes()
            self._passed += [sent, received]
            good, result = pickle.loads(received)
            if not good:
                raise result
            return result

        return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secret-place")
    with duckdb.connect() as source:
        source.execute(
            "COPY (SELECT i * 7 % 20 AS age, ['north', 'south', 'west'][1 + i % 3] AS town"
            f" FROM range(3000) r(i)) TO '{folder / 'people.parquet'}'"
        )
    (folder / "policy.toml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def back(folder: Path) -> Iterator[Pipe]:
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=serve, args=(str(folder / "policy.toml"), its))
    process.start()
    assert mine.poll(SECONDS)
    assert mine.recv_bytes() == b"open"
    yield mine
    mine.send_bytes(b"")
    process.join(SECONDS)
    assert process.exitcode == 0


@pytest.fixture
def passed() -> list[bytes]:
    return []


@contextlib.contextmanager
def front(folder: Path, back: Pipe, passed: list[bytes]) -> Iterator[tallyveil.Connection]:
    """A connection whose gate has its back in the other process."""

    def of_edition(planner: Planner) -> Away:
        return Away(back, "decision", planner.settings.as_of, passed)

    budgets = Away(back, "budgets", None, passed)
    opened = tallyveil.connect(folder / "policy.toml")
    with opened as connection, pytest.MonkeyPatch.context() as patched:
        patched.setattr(Planner, "back", property(of_edition))
        patched.setattr(Shared, "budgets", property(lambda _: budgets))
        yield connection


@pytest.fixture
def away(folder: Path, back: Pipe, passed: list[bytes]) -> Iterator[tallyveil.Connection]:
    with front(folder, back, passed) as connection:
        yield connection


def rows(connection: tallyveil.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_front_answers_from_a_back_in_another_process(
    folder: Path, back: Pipe, passed: list[bytes], sql: str
) -> None:
    with front(folder, back, passed) as away:
        away.execute("SET dp.epsilon = 1")
        announced = rows(away, f"EXPLAIN {sql}")
        bought = rows(away, sql)
        assert all(row[-1] is not None for row in bought)
        assert rows(away, sql) == bought
        assert rows(away, f"EXPLAIN {sql}") != announced
    assert len(passed) >= 8
    assert not any(b"secret-place" in one or b"people.parquet" in one for one in passed)
    with tallyveil.connect(folder / "policy.toml") as alone:
        alone.execute("SET dp.epsilon = 1")
        before = rows(alone, "SELECT spent FROM dp.budget")
        assert rows(alone, sql) == bought
        assert rows(alone, "SELECT spent FROM dp.budget") == before


def test_what_is_spent_is_read_from_the_other_process(
    folder: Path, back: Pipe, passed: list[bytes]
) -> None:
    asked = "SELECT count(*) FROM person WHERE age = 3 AND town = 'west'"
    spent, last = (
        "SELECT spent, remaining, rows_left, bytes_left FROM dp.budget",
        "SELECT * FROM dp.history ORDER BY charge_id DESC LIMIT 1",
    )
    with front(folder, back, passed) as away:
        away.execute("SET dp.epsilon = 0.5")
        rows(away, asked)
        found = rows(away, spent), rows(away, last)
    assert asked in found[1][0]
    with tallyveil.connect(folder / "policy.toml") as alone:
        assert (rows(alone, spent), rows(alone, last)) == found


def test_errors_of_the_other_process_say_what_they_say_here(away: tallyveil.Connection) -> None:
    away.execute("SET dp.epsilon = 40")
    with pytest.raises(BudgetExceeded) as refused:
        rows(away, "SELECT count(*) FROM person WHERE age = 7 AND town = 'west'")
    assert "person" in refused.value.message
    assert refused.value.hint
    away.execute("SET dp.epsilon = 0.1")
    away.execute("SET dp.mechanism = gaussian")
    with pytest.raises(FeatureNotSupported):
        rows(away, "SELECT count(*) FROM person WHERE age = 4 AND town = 'west'")


def test_the_past_is_asked_by_its_name(away: tallyveil.Connection) -> None:
    away.execute("SET dp.epsilon = 0.5")
    bought = rows(away, "SELECT count(*) FROM person WHERE age = 5 AND town = 'west'")
    away.execute("SET dp.as_of = 'now'")
    assert rows(away, "SELECT count(*) FROM person WHERE age = 5 AND town = 'west'") == bought
    assert rows(away, "SELECT count(*) FROM person WHERE age = 6 AND town = 'west'") == [(None,)]
