"""What looking at history takes, of a statement of many columns."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tallyveil.inference import DiscreteLaplaceLaw, Noises
from tallyveil.knowledge.answers.estimate import NoiseWeights
from tallyveil.knowledge.estimator import Estimator
from tallyveil.knowledge.recorded.relevance import Relevance
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column, Factor
from tests.knowledge.columns import release

DAYS, HOURS, PARTS = 100, 50, 3


def _column(first: int, part: int | None = None) -> Column:
    """A row for each day from the first on, of one part of the records or of all."""
    days = np.arange(first, DAYS, dtype=np.int64)
    one = np.ones(len(days), dtype=np.int64)
    by_day = Factor(("day",), (DAYS,), len(days), days - first, days, one)
    if part is None:
        return Column((by_day,))
    own = np.array([part], dtype=np.int64)
    return Column((by_day, Factor(("part",), (PARTS,), 1, own * 0, own, own * 0 + 1)))


@pytest.fixture
def state() -> State:
    """The days of each part were asked dozens of times."""
    result = State(1)
    for number in range(90):
        result.learn(release(number, _column(number // PARTS, number % PARTS)))
    return result


def test_the_columns_of_one_statement_share_the_work_of_a_look(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty columns of a hundred rows were looked at one by one, which took seconds."""
    rows = []
    solved = System.solved

    def counted(system: System) -> object:
        rows.append(system.question.shape[0])
        return solved(system)

    monkeypatch.setattr(System, "solved", counted)
    columns = [_column(number) for number in range(60)]
    found = Estimator(state).at(columns, range(60), state.recorded, 60)
    assert [n for joint in found for n in joint.columns] == [*range(60)]
    for joint in found:
        assert [*map(len, joint.rows)] == [columns[n].height for n in joint.columns]
    assert sum(rows) <= 4_000
    assert len(rows) <= 8


def test_columns_looked_at_in_several_parts_are_known_as_well_as_some_of_them(state: State) -> None:
    columns, seen = [_column(number) for number in range(60)], state.recorded
    (few,) = Estimator(state).at(columns, range(5), seen, 5)
    many = Estimator(state).at(columns, range(60), seen, 60)
    for one, other in zip(few.rows, many[0].rows, strict=False):
        for a, b in zip(one, other, strict=True):
            assert a is not None
            assert b is not None
            assert b.error.variance <= a.error.variance * 1.25


def test_a_row_without_coefficients_is_not_looked_for_in_fewer_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a sum over a group whose values are all 0: no recorded column says anything of it."""
    state, days = State(1), np.arange(50, dtype=np.int64)
    asked = Factor(("day",), (DAYS,), len(days) + 1, days, days, days * 0 + 1)
    first = Column((asked.take(days),))
    for number, one in enumerate([first, _column(60, 0)]):  # the second has no part in it
        state.learn(release(number, one))
    systems = []
    solved = System.solved

    def counted(system: System) -> object:
        systems.append(system)
        return solved(system)

    monkeypatch.setattr(System, "solved", counted)
    (found,) = Estimator(state).at([Column((asked,))], [0], state.recorded, 1)
    assert [row is None for row in found.rows[0]] == [False] * len(days) + [True]
    assert len(systems) == 1


def test_many_columns_are_looked_at_before_anything_is_recorded() -> None:
    columns = [_column(number) for number in range(40)]
    found = Estimator(State(1)).at(columns, range(40), 0, 40)
    assert not any(rows.known_rows for joint in found for rows in joint.rows)
    assert len(found) == 2


def test_a_quick_bound_of_an_interval_is_no_narrower() -> None:
    """What is told of the estimates beyond those whose laws are worked out."""
    values, noises = np.array([0.5, 0.25, -1.0]), Noises.of(DiscreteLaplaceLaw, [3.0, 20.0, 7.5])
    level = Fraction(19, 20)
    rough, exact = (
        NoiseWeights(values, noises, rough).half_width(level) for rough in (True, False)
    )
    assert exact <= rough <= 2 * exact


def _ranged(**ranges: tuple[int, int]) -> Column:
    """A count over ranges, each from its low value to before its high one."""
    factors = []
    for axis, (low, high) in ranges.items():
        cells = np.arange(low, high, dtype=np.int64)
        factors.append(Factor((axis,), (HOURS,), 1, cells * 0, cells, cells * 0 + 1))
    return Column(tuple(factors))


@pytest.fixture
def narrowed(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The columns about few attributes that are looked at, as they are taken."""
    taken: list[list[int]] = []
    narrow = Relevance.narrow

    def noted(*arguments: Any) -> Iterator[list[int]]:
        for numbers in narrow(*arguments):
            taken.append(numbers)
            yield numbers

    monkeypatch.setattr(Relevance, "narrow", noted)
    return taken


def test_where_nothing_follows_from_all_columns_no_fewer_are_looked_at(
    narrowed: list[list[int]],
) -> None:
    state = State(1)
    for number in range(100):
        state.learn(release(number, _ranged(**{f"part{number % 9}": (1 + number // 9, 50)})))
    (found,) = Estimator(state).at([_ranged(hour=(3, 9))], [0], state.recorded, 1)
    assert found.undetermined
    assert [[*rows] for rows in found.rows] == [[None]]
    assert not narrowed


def test_where_nothing_follows_from_most_columns_the_others_are_looked_at(
    narrowed: list[list[int]],
) -> None:
    """They come after very many more precise ones, which determine nothing."""
    state = State(1)
    for number in range(1_200):
        state.learn(release(number, _ranged(hour=(0, 50), part=(1 + number % 40, 50))))
    hours = [_ranged(hour=(0, 20)), _ranged(hour=(20, 50))]
    state.learn(release(1_200, *hours, scale=5e5))
    (found,) = Estimator(state).at([_ranged(hour=(0, 50))], [0], state.recorded, 1)
    ((row,),) = found.rows
    assert row is not None
    assert row.estimate is not None
    assert row.estimate.basis.whole == (1_201, 1_200)
    assert narrowed == [[1_201, 1_200]]  # and no more, once all rows are known


def test_few_of_many_choices_of_columns_are_looked_at(narrowed: list[list[int]]) -> None:
    state = State(1)
    for number in range(1_200):
        other = {f"part{number % 12}": (1 + number % 40, 50)}
        state.learn(release(number, _ranged(hour=(0, 50), **other)))
    (found,) = Estimator(state).at([_ranged(hour=(0, 50))], [0], state.recorded, 1)
    assert [[*rows] for rows in found.rows] == [[None]]
    assert 0 < len(narrowed) <= 4


def test_no_choice_of_columns_is_solved_again(
    narrowed: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more columns than there is the work for, the same are taken."""
    solved: list[tuple[int, ...]] = []
    solve = System.solved

    def noted(system: System) -> Any:
        solved.append(system.used)
        return solve(system)

    monkeypatch.setattr(System, "solved", noted)
    state = State(1)
    for number in range(1_200):
        low = number % 40
        ranges = {"hour": (low, low + 5 + number % 7), "part": (number % 3, 50 - number % 5)}
        state.learn(release(number, _ranged(**ranges)))
    state.learn(release(1_200, _ranged(second=(0, 30))))
    cells = np.flatnonzero(np.random.default_rng(0).random(HOURS**2) < 0.05)
    rows = np.arange(len(cells)) * 4 // len(cells)
    asked = Factor(("hour", "part"), (HOURS, HOURS), 4, rows, cells, rows * 0 + 1)
    (found,) = Estimator(state).at([Column((asked,))], [0], state.recorded, 1)
    assert [[*rows] for rows in found.rows] == [[None] * 4]
    assert len(narrowed) == 1
    assert len(solved) == 1
