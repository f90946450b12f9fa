"""What reported estimates were made from, as several processes recorded it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accountant import ROW_BYTES, Basis, Derivation, Part, encode_column
from tallyveil.cache import Cache
from tallyveil.inference import DiscreteLaplaceLaw, Solved
from tallyveil.knowledge import Aim, Answers
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.knowledge.remade import Remade
from tallyveil.knowledge.reported import Reported
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.mechanisms import mechanism
from tallyveil.workload.workload import Column, Factor
from tests.knowledge.columns import release
from tests.matrices import factor

BY, KEY = Fraction(19, 20), b"12345678...."
SIZE, MANY = 300, 1_000


def test_the_latest_basis_by_each_criterion_is_the_best() -> None:
    """Each of two processes may have reported an estimate before it saw that the other had."""
    state, basis = State(1), Basis((0, 1))
    for criterion in (None, BY):
        state.derive(Derivation((b"12345678",), basis, criterion))
    assert state.bases(KEY) == {None: basis, BY: basis}
    state.derive(Derivation((b"12345678",), Basis((2,)), BY))
    assert state.bases(KEY) == {None: basis, BY: Basis((2,))}
    assert state.bases(b"87654321....") == {}


def test_the_confidence_at_which_an_interval_was_reported_is_one_of_them() -> None:
    """The least variance has not the narrowest interval at all confidences."""
    state, half = State(1), Fraction(1, 2)
    state.derive(Derivation((b"12345678",), Basis((0,)), None, half))
    state.derive(Derivation((b"12345678",), Basis((1,)), None, BY))
    assert state.bases(KEY) == {half: Basis((0,)), None: Basis((1,)), BY: Basis((1,))}


def test_so_many_are_kept() -> None:
    state = State(1)
    for number in range(1, 20):
        at = Fraction(number, 20)
        state.derive(Derivation((b"12345678",), Basis((number,)), None, at))
    assert len(state.bases(KEY)) == 8
    assert state.bases(KEY)[None] == state.bases(KEY)[BY] == Basis((19,))


def test_an_estimate_from_very_many_answers_takes_bounded_memory_to_make_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sum is made from all that its parts are from, each of which had a bounded system."""
    state, random, column = State(1), np.random.default_rng(1), Column(())

    def any_range(axis: str) -> Factor:
        values, (low, high) = np.arange(SIZE), np.sort(random.choice(SIZE + 1, 2, replace=False))
        return factor([(values >= low) & (values < high)], [axis])

    for number in range(MANY):
        state.learn(release(number, Column((any_range("a"), any_range("b")))))
    state.derive(Derivation((column.row_keys[0][:ROW_BYTES],), Basis(tuple(range(MANY))), BY))
    entries = []

    def counted(system: System) -> tuple[list[Estimate | None], Solved]:
        entries.append(system.history.nnz)
        return [None], Solved([None])

    monkeypatch.setattr(System, "solved", counted)
    aim = Aim(mechanism("laplace"), 20.0, None, BY)
    assert [*Reported(state).at_least(column, Answers.unknown(1), aim)] == [None]
    assert len(entries) == 1
    assert 200_000 < entries[0] <= 2_000_000


@pytest.mark.parametrize("room", [1 << 28, 1])
def test_what_is_made_again_needs_no_cache(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Otherwise an interval could be wider than it was, where much was reported."""
    state, ones = State(1), np.eye(6, dtype=np.int64)
    groups, total = Column((factor(ones, ["a"]),)), Column((factor([ones.sum(axis=0)], ["a"]),))
    for number, column in enumerate((groups, total, groups)):
        state.learn(release(number, column))
    remade, two = Remade(state), (Basis((0, 1)), Basis((1, 2)))
    monkeypatch.setattr(remade._found, "_cache", Cache(1_000, room, lambda _, block: block.size))
    pairs = [(row, basis) for row in range(6) for basis in two]
    found = [remade.estimates(groups, pairs) for _ in range(2)]
    for made in found:
        alone = [remade.make(groups, basis, 1_000)[row] for row, basis in pairs]
        assert [one and (one.value, one.variance) for one in made] == [
            one and (one.value, one.variance) for one in alone
        ]
        assert None not in made


def test_a_sum_is_made_again_from_its_parts() -> None:
    """From rows that are exact, have answers of their own, or follow from others."""
    state, column = State(1), Column(())
    rows = {
        name: Column((factor(matrix),))
        for name, matrix in {
            "exact": [[1, 0, 0, 0]],
            "own": [[0, 1, 0, 0]],
            "both": [[0, 0, 1, 0], [0, 0, 0, 1]],
            "rest": [[0, 0, 1, 1]],
        }.items()
    }
    state.declare(rows["exact"], (100,))
    state.learn(release(1, rows["own"]))
    state.learn(release(2, rows["both"], scale=10.0))
    bases = {"exact": Basis(), "own": Basis(own=(0,)), "rest": Basis((1,))}
    parts = tuple(Part(encode_column(rows[name]), basis) for name, basis in bases.items())
    [key] = column.row_keys
    aim = Aim(mechanism("laplace"), 20.0, None, BY)
    for summed, value in ((b"another row's", None), (key, 100 + 1 + 2 + 2)):
        state.derive(Derivation((key[:ROW_BYTES],), Basis(parts=parts, summed=summed), BY))
        [estimate] = Reported(state).at_least(column, Answers.unknown(1), aim).row_estimates
        assert (estimate and estimate.value) == value
    [times] = (
        Reported(state)
        .at_least(Column((factor([[-3] * 4]),)), Answers.unknown(1), aim)
        .row_estimates
    )
    assert estimate is not None
    assert times is not None
    assert (times.value, times.variance) == pytest.approx((-3 * 105, 9 * estimate.variance))
    one, two = DiscreteLaplaceLaw(5.0).variance, DiscreteLaplaceLaw(10.0).variance
    assert estimate.variance == pytest.approx(one + 2 * two)


def test_multiples_of_a_row_are_estimated_from_one_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    state, column = State(1), Column((factor([[1, 1, 0, 0]]),))
    state.learn(release(1, Column((factor([[1, 0, 0, 0], [0, 1, 0, 0]]),))))
    [key] = column.row_keys
    state.derive(Derivation((key[:ROW_BYTES],), Basis((0,)), BY))
    solves = []
    solved = System.solved

    def counted(system: System) -> tuple[list[Estimate | None], Solved]:
        solves.append(system)
        return solved(system)

    monkeypatch.setattr(System, "solved", counted)
    reported, aim = Reported(state), Aim(mechanism("laplace"), 20.0, None, BY)
    [one] = reported.at_least(column, Answers.unknown(1), aim).row_estimates
    assert one is not None
    for times in (2, -3, 1):
        multiple = Column((factor([[times, times, 0, 0]]),))
        [again] = reported.at_least(multiple, Answers.unknown(1), aim).row_estimates
        assert again is not None
        expected = times * one.value, times**2 * one.variance
        assert (again.value, again.variance) == pytest.approx(expected)
    assert len(solves) == 1
