"""What is resumed from a summary is what is known by learning every release anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.accountant import Charge, Release
from tallyveil.knowledge.direct_answers import direct_answers, looks
from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column
from tests.knowledge.columns import any_column, release
from tests.pairs import one_in

MECHANISMS = ("laplace", "laplace", "gaussian")


class Known(Release):
    """The release ``of`` again, which must not be decoded while it is ``closed``."""

    def __init__(self, of: Release) -> None:
        super().__init__(of.charge_id, of.table, of.mechanism, of.decoded())
        self.noisy, self.closed = of.noisy, True

    def decoded(self) -> Charge:
        if self.closed:
            pytest.fail("a release that is known was decoded")
        return super().decoded()


def learnt(state: State, releases: Sequence[Release]) -> State:
    for one in releases:
        state.learn(one)
    return state


def said(state: State, asked: Sequence[Column]) -> list[Any]:
    """Of some columns, by all that a state can be asked."""
    found: list[Any] = [state.releases, state.recorded]
    seen = state.recorded
    every = range(seen)
    found += [[state.noise_numbers(n).tolist(), [state.answer(n)]] for n in every]
    for columns in [[one] for one in asked] + [list(asked[:2])]:
        beside = [one.column for one in state.exact]
        near = [*state.relevance.nearest(columns, seen, beside)]
        numbers = [n for _, level in near for n in level]
        found += [near, state.holding(columns, seen), state.holding(columns, seen // 2)]
        same = state.holding(columns, seen)
        found += [state.relevant(same, columns, seen, work, None)[0] for work in (500, 5_000)]
        for spans in (
            state.relevance.every(columns, seen),
            state.relevance.spans(numbers[:3], columns),
        ):
            assert spans is not None
            found.append(state.proves_undetermined(columns, spans))
    found += [[repr(own) for own in direct_answers(state, one, state.recorded)] for one in asked]
    found += [looks(state, one, seen) for one in asked]
    found += [repr(state.drawn_rows(n)) for n in every]
    found += [state.all_noises([*every]).variances.tolist()]
    return found


@pytest.mark.parametrize("seed", one_in(3, range(12)))
def test_a_resumed_state_is_equal_to_replaying(seed: int) -> None:
    random = np.random.default_rng(seed)
    forms = [any_column(random) for _ in range(8)]  # some are asked again and again
    releases = []
    for number in range(60):
        columns = [forms[random.integers(8)] for _ in range(1 + number % 2)]
        name = MECHANISMS[random.integers(3)]
        scale = float(random.integers(1, 4))
        together = number % 5 == 0 and columns[0].height > 1
        releases.append(
            release(7 * number, *columns, mechanism=name, scale=scale, together=together)
        )
    first, second = sorted(random.integers(0, 60, 2).tolist())
    exact, asked = Column(), [*forms, *(any_column(random) for _ in range(4))]

    def begun() -> State:
        state = State(1)
        if seed % 2:
            state.declare(exact, (7,))
        return state

    replayed = learnt(begun(), releases)
    before = learnt(begun(), releases[:first])
    resumed = begun()
    for end in (second, len(releases)):  # a summary is written by who resumed from one, too
        arrays, holding = before.written()
        numbers, halves = holding.written()
        written = {**arrays, "numbers": numbers, "halves": halves}
        resumed = begun()
        known = resumed.resume(written)
        kept = [*map(Known, releases[:known])]
        before = learnt(learnt(resumed, kept), releases[known:end])
        for one in kept:
            one.closed = False
    assert [one.charge_id for one in resumed._releases] == [7 * n for n in range(60)]
    mine, its = said(resumed, asked), said(replayed, asked)
    assert repr(mine) == repr(its)


POLICY = """
ledger = "ledger.sqlite"
[source]
url = "rows.parquet"
[tables.person]
from = "rows"
budget = { epsilon = 1000.0 }
[tables.person.attributes]
a = { range = [0, 9] }
b = { range = [0, 4] }
[defaults]
epsilon = 0.5
"""
ASKED = [
    "SELECT count(*) FROM person WHERE a < 7",
    "SELECT a, count(*) FROM person WHERE b < 3 GROUP BY a ORDER BY a",
    "SELECT b, count(*) FROM person GROUP BY b ORDER BY b",
    "SELECT sum(a) FROM person WHERE b = 2",
]
FOLLOWS = [
    *ASKED,
    "SELECT count(*) FROM person WHERE a BETWEEN 2 AND 5 AND b < 3",
    "SELECT count(*) FROM person WHERE b IN (1, 3)",
    "SELECT count(*) FROM person WHERE a >= 7",
]


def test_a_gate_that_opens_with_a_summary_answers_as_one_that_learns_anew(tmp_path: Path) -> None:
    with duckdb.connect() as source:
        rows = "SELECT i % 10 AS a, i % 5 AS b FROM range(1000) t(i)"
        source.execute(f"COPY ({rows}) TO '{tmp_path}/rows.parquet'")
    policy, beside = tmp_path / "policy.toml", tmp_path / "ledger.sqlite-summary"
    policy.write_text(POLICY)
    with tallyveil.connect(policy) as connection:
        for sql in ASKED[:2]:
            connection.execute(sql).fetchall()
        connection._gate.accountant.summarise(0)
        for sql in ASKED[2:]:
            connection.execute(sql).fetchall()
        known = [answers(connection, sql) for sql in FOLLOWS]
    assert beside.exists()
    for _ in range(2):
        with tallyveil.connect(policy) as connection:
            assert [answers(connection, sql) for sql in FOLLOWS] == known
        beside.unlink(missing_ok=True)


def answers(connection: tallyveil.Connection, sql: str) -> Any:
    connection.execute("SET dp.source = 'history'")
    try:
        return connection.execute(sql).fetchall()
    except tallyveil.Error as error:
        return str(error)
    finally:
        connection.execute("RESET dp.source")
