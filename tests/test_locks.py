"""Locks are taken in the order of their ranks."""

from __future__ import annotations

import pytest

from tallyveil.locks import CheckedLock, Rank, ranked_lock
from tallyveil.proxy.turns import Turns


def test_ascending_ranks_are_taken_and_given_back() -> None:
    accountant, knowledge, leaf = (CheckedLock(rank) for rank in Rank)
    for _ in range(2):
        with accountant, knowledge, leaf:
            pass
        with knowledge:
            pass
        with accountant, leaf:
            pass


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Rank.KNOWLEDGE, Rank.ACCOUNTANT),
        (Rank.LEAF, Rank.KNOWLEDGE),
        (Rank.LEAF, Rank.LEAF),
        (Rank.ACCOUNTANT, Rank.ACCOUNTANT),
    ],
)
def test_a_lock_taken_out_of_order_is_an_error(first: Rank, second: Rank) -> None:
    inner = CheckedLock(second)
    with (
        CheckedLock(first),
        pytest.raises(RuntimeError, match=f"{second.name}.*{first.name}"),
        inner,
    ):
        pass
    with inner:
        pass


def test_the_tests_check_the_order() -> None:
    from tallyveil.locks import ranked_lock

    assert isinstance(ranked_lock(Rank.LEAF), CheckedLock)


def test_a_turn_under_a_lock_is_an_error() -> None:
    turn = Turns(1).begin("ada")
    assert turn.waits() is False
    with ranked_lock(Rank.LEAF), pytest.raises(RuntimeError, match="LEAF"):
        turn.waits()
    turn.end()
