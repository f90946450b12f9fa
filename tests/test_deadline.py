"""One object says until when a statement may be worked on."""

from __future__ import annotations

import math
import threading

import pytest

from tallyveil import deadline
from tallyveil.deadline import Deadline
from tallyveil.errors import QueryCanceled, StatementTooComplex


def test_who_works_for_no_statement_is_never_stopped() -> None:
    deadline.check()
    assert deadline.current() is None
    assert deadline.remaining() == math.inf


def test_a_cancel_from_another_thread_is_seen_by_the_next_check() -> None:
    with Deadline(60).entered() as one:
        deadline.check()
        other = threading.Thread(target=one.cancel)
        other.start()
        other.join()
        with pytest.raises(QueryCanceled, match="user request"):
            deadline.check()
        with deadline.unlimited():
            deadline.check()
    deadline.check()


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 4_001])
def test_portions_hold_all_values_in_order(count: int) -> None:
    portions = list(deadline.portions(range(count)))
    assert [value for portion in portions for value in portion] == list(range(count))
    assert all(0 < len(portion) <= 1_000 for portion in portions)


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 4_001])
def test_distinct_values_are_those_of_all_portions(count: int) -> None:
    values = [number % 1_100 for number in range(count)]
    assert deadline.distinct(values) == set(values)


def test_other_threads_have_deadlines_of_their_own() -> None:
    seen: list[Deadline | None] = []
    with Deadline(60).entered():
        other = threading.Thread(target=lambda: seen.append(deadline.current()))
        other.start()
        other.join()
    assert seen == [None]


@pytest.mark.parametrize(
    ("limit", "timeout", "error"),
    [(0, math.inf, StatementTooComplex), (0, 0, StatementTooComplex), (9, 0, QueryCanceled)],
)
def test_the_nearer_of_the_gates_and_the_sessions_limit_ends_it(
    limit: float, timeout: float, error: type[Exception]
) -> None:
    with pytest.raises(error, match="time"):
        Deadline(limit, timeout).check()
    assert Deadline(limit, timeout).remaining() <= 0


@pytest.mark.parametrize("phase", deadline.Phase)
def test_the_hint_of_the_limit_names_the_statement_and_the_load(phase: deadline.Phase) -> None:
    late = Deadline(0)
    late.phase = phase
    with pytest.raises(StatementTooComplex) as caught:
        late.check()
    assert str(caught.value.hint).startswith(phase.value[1])
    assert "The limit is elapsed time" in str(caught.value.hint)
