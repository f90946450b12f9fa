"""Searching the most precise columns at first finds what looking at every column finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tallyveil.knowledge.recorded import ranking, relevance
from tallyveil.knowledge.recorded.relevance import Relevance
from tallyveil.knowledge.recorded.spans import Spans
from tallyveil.workload.workload import Column
from tests.knowledge.columns import any_column
from tests.pairs import one_in


@pytest.mark.parametrize("seed", one_in(3, range(20)))
def test_the_first_that_bear_on_a_question_are_the_first_of_all(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "_MOST", 24)
    monkeypatch.setattr(relevance, "_FEW", 8)
    random = np.random.default_rng(seed)
    found, added = Relevance(), 0
    exact = [any_column(random) for _ in range(seed % 3)]
    # What is kept of the first columns is kept up as others are added; then a part is looked at.
    for seen, work in itertools.product((60, 66, 90, 300, 100), (100, 1_000, 3_000)):
        for number in range(added, seen, 3):
            found.add(number, any_column(random), float(random.integers(1, 6)))
        added = max(added, seen)
        asked, most = [any_column(random) for _ in range(1 + seed % 2)], int(random.integers(1, 40))
        every = [*found.nearest(asked, seen, exact)]
        near = [*found.nearest(asked, seen, exact, most)]
        assert all(own == level[:most] for (_, own), (_, level) in zip(near, every, strict=False))
        assert len(near) == len(every) or len(near[-1][1]) == most
        same = random.choice(np.arange(0, seen, 3), 3, replace=False).tolist()
        order = [*dict.fromkeys([*same, *(n for _, level in every for n in level)])][: work // 50]
        taken, of_taken = found.relevant(same, asked, seen, exact, work, 50)
        spans = found.spans(order, asked)
        room = spans.room(Spans.of_columns(asked, spans.cuts), work, 50)
        assert taken == order[:room]
        for name in ("low", "high", "counted", "least"):
            assert (getattr(of_taken, name) == getattr(spans.take(slice(room)), name)).all()


@pytest.mark.parametrize("seed", one_in(2, range(8)))
def test_there_is_room_until_the_entries_between_all_cuts_are_too_many(seed: int) -> None:
    random = np.random.default_rng(seed)
    columns = [any_column(random) for _ in range(int(random.integers(20, 300)))]
    asked = [any_column(random) for _ in range(1 + seed % 2)]
    spans = Spans.of_columns([*asked, *columns])
    questions, recorded = spans.take(slice(len(asked))), spans.take(slice(len(asked), None))

    def entries(size: int) -> float:
        some, total = spans.take(slice(len(asked) + size)), 0.0
        cuts = {*spans.cuts.first.tolist(), *spans.cuts.last.tolist()}
        cuts |= {*some.low.ravel().tolist(), *some.high.ravel().tolist()}
        for place, least in enumerate(some.least.tolist()):
            for low, high, counted in zip(some.low, some.high, some.counted, strict=True):
                if counted[place]:
                    least *= sum(low[place] <= cut < high[place] for cut in cuts)
            total += least
        return total

    sizes = [size for size in (32, 64, 128, 256) if size <= len(columns)]
    for work in random.integers(100, 30_000, 20).tolist():
        full = (size for size in sizes if entries(size) + 50 * size > work)
        assert recorded.room(questions, work, 50) == next(full, len(columns) + 1)


def test_the_most_precise_come_first_whatever_their_units() -> None:
    found, cells = Relevance(), np.arange(4)
    for number, (times, variance) in enumerate([(1, 8.0), (1000, 2e6), (10, 1e3), (-5, 5.0)]):
        row = np.zeros_like(cells), cells, np.full(4, times)
        found.add(number, Column.joint(("a",), (4,), 1, *row), variance)
    asked = Column.joint(("a",), (4,), 1, np.array([0]), np.array([2]), np.array([1]))
    assert [*found.nearest([asked], 4)] == [(0, [3, 1, 0, 2])]


def test_counts_come_before_sums_for_a_count_and_sums_of_the_same_for_a_sum() -> None:
    """At one ε a sum's noise is as many times that of a count as its largest coefficient is."""

    def asked(*coefficients: int) -> Column:
        rows, cells = np.zeros((2, len(coefficients)), dtype=np.int64), np.arange(len(coefficients))
        return Column.joint(("a",), (4,), 1, rows[0], cells, np.array(coefficients))

    found = Relevance()
    groups = Column.joint(("a",), (4,), 4, np.arange(4), np.arange(4), np.arange(1, 5))
    for number, column in enumerate(
        [asked(1, 1, 1), groups, asked(1, 2, 3, 4), asked(2, 4, 6, 8), asked(3, 3)]
    ):
        found.add(number, column, column.largest**2)
    assert [*found.nearest([asked(1, 1, 1)], 5)] == [(0, [4, 1, 0, 3, 2])]
    assert [*found.nearest([asked(1, 2, 3, 4)], 5)] == [(0, [4, 3, 2, 1, 0])]
    assert [*found.nearest([asked(1, 1, 1), asked(1, 2)], 5)] == [(0, [4, 3, 2, 1, 0])]
