"""Which recorded columns a question looks at, and the matrix they make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tallyveil.knowledge.recorded.column_store import ColumnKind, Hull
from tallyveil.knowledge.recorded.matrix import COLUMN, related
from tallyveil.knowledge.recorded.prepared import PreparedColumn
from tallyveil.knowledge.recorded.relevance import Relevance
from tallyveil.knowledge.recorded.spans import Spans
from tallyveil.workload.workload import Column, Factor
from tests.matrices import factor
from tests.pairs import one_in


def column(**factors: Sequence[Sequence[int]]) -> Column:
    return Column(tuple(factor(rows, [axis]) for axis, rows in factors.items()))


def nearest(
    questions: Sequence[Column], columns: Sequence[Column], variances: Sequence[float], seen: int
) -> list[list[int]]:
    found = Relevance()
    for number, (one, variance) in enumerate(zip(columns, variances, strict=True)):
        found.add(number, one, variance)
    return [numbers for _, numbers in found.nearest(questions, seen)]


def written_out(one: Column, shape: dict[str, int]) -> np.ndarray:
    total = np.ones((1, 1), dtype=np.int64)
    by_axis = {f.axes[0]: f for f in one.factors}
    for axis, size in shape.items():
        dense = np.ones((1, size), dtype=np.int64)
        if axis in by_axis:
            f = by_axis[axis]
            dense = np.zeros((f.height, size), dtype=np.int64)
            dense[f.rows, f.cells] = f.coefficients
        total = np.kron(total, dense)
    return total


IDENTITY_OF_100 = np.eye(100, dtype=np.int64).tolist()
IDENTITY = np.eye(6, dtype=np.int64).tolist()
TREE = [[1] * 6, [1] * 3 + [0] * 3, [0] * 3 + [1] * 3, *IDENTITY]


def test_the_rows_are_those_of_the_columns_but_for_cells_that_are_alike() -> None:
    shape = {"a": 6, "b": 3}
    question = column(a=[[1, 1, 1, 0, 0, 0]])
    history = [column(a=TREE), column(a=[[0, 2, 2, 0, 0, 0]], b=[[1, 1, 0], [0, 0, 5]]), column()]
    found = related(
        [PreparedColumn.of(1, question)],
        range(3),
        lambda n: PreparedColumn.of(1, history[n]),
        100_000,
    )
    assert found is not None
    ours = np.vstack([found.history.toarray(), found.question.toarray()])
    theirs = np.vstack(
        [written_out(c, shape) for c in [*(history[n] for n in found.used), question]]
    )
    # A column of theirs for each of ours, and no others.
    assert sorted(map(tuple, ours.T)) == sorted({tuple(cell) for cell in theirs.T})


def test_cells_that_are_alike_are_one_however_large_their_coefficients() -> None:
    """Of the 16 that are told apart by axes some are alike in all rows."""
    large = 1 << 26
    rows = [[large, large >> 1, 0, 0], [0, large >> 1, large, 0]]
    prepared = [
        PreparedColumn.of(1, one) for one in (column(a=rows), column(a=rows[:1], b=rows[1:]))
    ]
    found = related(prepared[:1], (0, 1), prepared.__getitem__, 100_000)
    assert found is not None
    shape = {"a": 4, "b": 4}
    theirs = [written_out(one.column, shape) for one in (*prepared, prepared[0])]
    ours = np.vstack([found.history.toarray(), found.question.toarray()])
    assert sorted(map(tuple, ours.T)) == sorted({tuple(cell) for cell in np.vstack(theirs).T})


def test_columns_that_share_factors_and_some_of_whose_rows_are_asked_are_written_out_alike() -> (
    None
):
    shape = {"a": 6, "b": 3}
    every, some = column(a=TREE, b=[[1, 1, 0], [0, 0, 5]]), np.array([0, 3, 4, 17])
    history = [
        Column(every.factors, selected=some),
        column(b=[[0, 1, 1]]),
        Column(every.factors[:1]),
        every,
        Column(every.factors[::-1], selected=some),
        Column(every.factors[1:]),
    ]
    prepared = [PreparedColumn.of(1, one) for one in history]
    found = related([prepared[0]], range(6), prepared.__getitem__, 100_000)
    assert found is not None
    assert found.used == (0, 1, 2, 3, 4, 5)
    # All 18 cells are told apart, the first axis the fastest here and the last in the oracle.
    order = np.arange(18).reshape(6, 3).T.ravel()
    expected = [
        written_out(Column(tuple(sorted(one.factors, key=lambda f: f.axes))), shape)[
            _rows_by_axes(one)
        ]
        for one in history
    ]
    assert (found.history.toarray() == np.vstack(expected)[:, order]).all()
    assert (found.question.toarray() == expected[0][:, order]).all()
    # The questions have 22 and 54 entries, and a column is as much work as its entries and 50 more.
    # After the first there is 1 too little for the 54 of the next, and enough for the 12 then.
    asked, work = [prepared[0], prepared[3]], 22 + 54 + 72 + 53
    fewer = related(asked, [0, 3, 1, 4], prepared.__getitem__, work)
    assert fewer is not None
    assert fewer.used == (0, 1)


def _rows_by_axes(one: Column) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The rows of a column, as those of the same factors by the names of their axes."""
    if one.axes != ("b", "a"):
        return one.numbers
    second, first = one.factor_rows(one.numbers)
    return first * one.factors[0].height + second


def test_what_answers_most_precisely_comes_first() -> None:
    question = column()
    columns = [column(a=IDENTITY), column(a=TREE), column(b=[[1, 1, 1]]), column(a=IDENTITY)]
    assert nearest([question], columns, [1, 1, 7, 0.1], 4) == [[3, 1, 0, 2]]
    assert nearest([question], columns, [1, 1, 7, 0.1], 2) == [[1, 0]]


def test_columns_are_near_by_the_cells_they_share() -> None:
    def ages(*cells: int) -> Column:
        return column(age=[[int(n in cells) for n in range(9)]])

    others = [ages(3, 4), ages(4, 5), ages(7), ages(5), ages(6, 7)]
    assert nearest([ages(3)], others, [1] * 5, 5) == [[0], [1], [3]]
    assert nearest([ages(3), ages(7)], others, [1] * 5, 5) == [[4, 2, 0], [3, 1]]
    assert nearest([ages(3)], [ages(7), Column()], [1] * 2, 2) == [[1], [0]]
    assert nearest([ages(3)], [], [], 0) == []


def test_a_column_that_tells_too_much_apart_is_left_out() -> None:
    many = np.eye(150, dtype=np.int64).tolist()
    question = column(a=[[1] * 150])
    columns = [column(c=many), column(b=many), column(a=many)]
    prepared = [PreparedColumn.of(1, one) for one in columns]
    found = related([PreparedColumn.of(1, question)], [2, 1, 0], prepared.__getitem__, 100_000)
    assert found is not None
    assert sorted(found.used) == [1, 2]  # all three would make 150³ cells


def test_a_column_that_tells_too_much_apart_by_itself_is_left_out_and_takes_no_room() -> None:
    rows, cells = np.nonzero(np.less.outer(np.arange(500), np.arange(500)).reshape(1, -1))
    ones = np.ones_like(cells)
    large = Column.joint(("a", "b"), (500, 500), 1, rows, cells, ones)
    prepared = [PreparedColumn.of(1, large), PreparedColumn.of(1, column(a=[[1] * 500]))]
    assert prepared[0].weight - large.nbytes < 100_000
    found = related([prepared[1]], (0, 1), prepared.__getitem__, 100_000)
    assert found is not None
    assert found.used == (1,)
    assert related([prepared[0]], (1,), prepared.__getitem__, 100_000) is None


def test_a_column_of_very_many_entries_is_left_out_and_takes_no_time() -> None:
    half = np.arange(1_600) < 800
    rows, cells = np.nonzero(np.equal.outer(half, half).reshape(1, -1))
    large = Column.joint(("a", "b"), (1_600, 1_600), 1, rows, cells, np.ones_like(cells))
    prepared = [PreparedColumn.of(1, large), PreparedColumn.of(1, column(a=[[1] * 1_600]))]
    assert not prepared[0].signs
    found = related([prepared[1]], (0, 1), prepared.__getitem__, 100_000)
    assert found is not None
    assert found.used == (1,)
    assert related([prepared[0]], (1,), prepared.__getitem__, 100_000) is None


def any_range(axis: str, draw: np.random.Generator) -> Factor:
    values, (low, high) = np.arange(100), np.sort(draw.choice(101, 2, replace=False))
    return factor([(values >= low) & (values < high)], [axis])


def boxes(number: int, draw: np.random.Generator) -> list[Column]:
    """Counts of two ranges: each tells values apart, and so makes entries of all others."""
    return [Column((any_range("a", draw), any_range("b", draw))) for _ in range(number)]


def test_of_very_many_columns_only_about_as_many_are_laid_out_as_fit() -> None:
    *every, asked = boxes(601, np.random.default_rng(1))
    looked_at: set[int] = set()

    def history(number: int) -> PreparedColumn:
        looked_at.add(number)
        return PreparedColumn.of(1, every[number])

    question = PreparedColumn.of(1, asked)
    found = related([question], range(600), history, 30_000)
    assert found is not None
    assert len(found.used) > 16
    assert len(looked_at) <= 4 * len(found.used)
    fewer = related([question], range(32), history, 30_000)
    assert fewer is not None
    assert fewer.used == tuple(range(32))


@pytest.mark.parametrize("seed", range(3))
def test_how_many_columns_fit_is_bounded_before_any_is_laid_out(seed: int) -> None:
    draw = np.random.default_rng(seed)
    weights = factor([range(1, 101)], ["b"])
    *every, asked = boxes(301, draw)
    every += [Column((any_range("a", draw), weights)) for _ in range(150)]
    every += [Column((factor(IDENTITY_OF_100, ["a"]), any_range("c", draw))) for _ in range(150)]
    every = [every[n] for n in draw.permutation(600)]
    relevance = Relevance()
    for number, one in enumerate(every):
        relevance.add(number, one, 1.0)
    prepared = [PreparedColumn.of(1, one) for one in every]
    for work in (3_000, 30_000, 300_000):
        spans = relevance.spans(range(600), [asked])
        most = spans.room(Spans.of_columns([asked], spans.cuts), work, COLUMN)
        found = related([PreparedColumn.of(1, asked)], range(600), prepared.__getitem__, work)
        assert found is not None
        assert len(found.used) <= most
        assert most < 600


@pytest.mark.parametrize("seed", one_in(2, range(2)))
def test_the_nearest_of_very_many_are_the_first_of_all_in_order(seed: int) -> None:
    """Of several kinds and variances, some of which have to be added up for the question."""
    draw, relevance = np.random.default_rng(seed), Relevance()
    conditions = [any_range(axis, draw) for axis in "abc" for _ in range(40)]
    groups = factor(IDENTITY, ["d"])
    for number in range(3_000):
        some = {f.axes: f for f in draw.choice(np.array(conditions, dtype=object), 2)}
        one = Column((*some.values(), groups)) if draw.random() < 0.1 else Column((*some.values(),))
        relevance.add(number, one, float(draw.choice([1.0, 2.0, 30.0])))
    for question in boxes(4, draw):
        for seen in (100, 1_500, 3_000):
            [every, *_] = relevance.nearest([question], seen)
            for most in (1, 40, 600):
                [(distance, first), *_] = relevance.nearest([question], seen, most=most)
                assert distance == 0
                assert first == every[1][:most]


@pytest.mark.parametrize("seen", one_in(2, [0, 1, 700, 1_200]))
def test_what_is_pending_is_numbered_after_what_was_seen(seen: int) -> None:
    """Whatever other threads have had recorded since."""
    draw, grown, alone = np.random.default_rng(seen), Relevance(), Relevance()
    recorded = boxes(1_200, draw)
    for number, one in enumerate(recorded):
        grown.add(number, one, 1.0)
        if number < seen:
            alone.add(number, one, 1.0)
    copied, pending = grown.copy(seen), boxes(5, draw)
    for number, one in enumerate(pending, seen):
        copied.add(number, one, 2.0)
        alone.add(number, one, 2.0)
    for question in boxes(3, draw):
        for most in (None, 1, 40):
            found = [
                list(some.nearest([question], seen + 5, most=most)) for some in (copied, alone)
            ]
            assert found[0] == found[1]
    [[_, every], *_] = grown.nearest(recorded[:1], 1_200)
    assert 0 in every


def test_of_very_many_columns_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which may be the best: the latest of those of least variance."""
    draw, relevance = np.random.default_rng(1), Relevance()
    some = boxes(500, draw)
    for number in range(30_000):
        relevance.add(number, some[number % 500], float(draw.choice([1.0, 2.0, 30.0])))
    looked_at: list[int] = []
    meets = ColumnKind.meets

    def noted(self: ColumnKind, reached: Hull) -> np.ndarray:
        looked_at.append(len(self.numbers))
        return meets(self, reached)

    monkeypatch.setattr(ColumnKind, "meets", noted)
    for seen in (29_999, 30_000):  # the second time by what is kept of the first
        [(_, first)] = relevance.nearest(boxes(1, draw), seen, most=64)
        assert len(first) == 64
    assert not looked_at
    [(_, first)] = relevance.nearest(boxes(1, draw), 30_000, most=600)
    assert len(first) == 600
    assert sum(looked_at) < 10_000
