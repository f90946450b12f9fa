"""Combinations of which there are few, and what is left to the slow tests."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest

from tests.pairs import alternately, one_in, pairs, pairs_first


@pytest.mark.parametrize("sizes", [(2, 2, 2), (12, 2, 2), (3, 3, 2, 2), (7, 5), (1, 4, 3), (4,)])
def test_any_two_values_of_two_factors_meet(sizes: tuple[int, ...]) -> None:
    factors = [[f"{n}{value}" for value in range(size)] for n, size in enumerate(sizes)]
    chosen = pairs(*factors)
    for one, other in combinations(range(len(sizes)), 2):
        met = {(row[one], row[other]) for row in chosen}
        assert len(met) == sizes[one] * sizes[other]
    largest = sorted(sizes)[-2:]
    assert len(chosen) <= largest[0] * largest[-1] * 1.5


def in_the_suite(cases: list[Any]) -> list[tuple[Any, ...]]:
    return [case.values for case in cases if not case.marks]


def test_what_the_suite_leaves_out_is_slow() -> None:
    every = [*product("ab", "cd", "ef")]
    for cases in (pairs_first("ab", "cd", "ef"), alternately("ab", "cd", "ef"), one_in(2, every)):
        assert [case.values for case in cases] == every
        assert {mark.name for case in cases for mark in case.marks} == {"slow"}
    assert in_the_suite(pairs_first("ab", "cd", "ef")) == pairs("ab", "cd", "ef")
    assert in_the_suite(one_in(3, range(7), first=1)) == [(1,), (4,)]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 4), (3, 3, 2)])
def test_of_three_factors_any_two_values_meet_alternately(sizes: tuple[int, ...]) -> None:
    chosen = in_the_suite(alternately(*map(range, sizes)))
    for one, other in combinations(range(3), 2):
        met = {(row[one], row[other]) for row in chosen}
        assert len(met) == sizes[one] * sizes[other]
