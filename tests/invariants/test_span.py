"""What follows from declared rows, against elimination in fractions over all cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from tallyveil.errors import StatementTooComplex
from tallyveil.invariants import Span
from tallyveil.invariants.modular import Modular
from tallyveil.workload.workload import Column, Factor
from tests import matrices
from tests.inference.exact import rank

SIZES = {"a": 3, "b": 4, "c": 2}


def factor(axes: Sequence[str], matrix: Sequence[Sequence[int]], sizes: dict[str, int]) -> Factor:
    return matrices.factor(matrix, axes, [sizes[axis] for axis in axes])


def identity(axis: str, sizes: dict[str, int]) -> Factor:
    return Factor.identity((axis,), (sizes[axis],))


def written(column: Column, sizes: dict[str, int]) -> list[list[int]]:
    """Each row over all cells of the domain, the last attribute the fastest."""
    found = []
    for own in zip(*column.factor_rows(column.numbers), strict=True) or [()]:
        row = []
        for cell in itertools.product(*(range(size) for size in sizes.values())):
            at, value = dict(zip(sizes, cell, strict=True)), 1
            for one, number in zip(column.factors, own, strict=True):
                place = 0
                for axis, size in zip(one.axes, one.shape, strict=True):
                    place = place * size + at[axis]
                hit = (one.rows == number) & (one.cells == place)
                value *= int(one.coefficients[hit].sum())
            row.append(value)
        found.append(row)
    return found or [[1] * math.prod(sizes.values())]


def random_column(random: np.random.Generator, sizes: dict[str, int]) -> Column:
    """A product of factors over one or two attributes each: partitions, nested sets, or any
    integers; sometimes constants beside them, and sometimes some of its rows only."""
    axes = [axis for axis in sizes if random.random() < 0.7]
    if len(axes) > 1 and random.random() < 0.3:
        groups = [axes[:2], *([axis] for axis in axes[2:])]
    else:
        groups = [[axis] for axis in axes]
    if random.random() < 0.2:
        groups.insert(int(random.integers(len(groups) + 1)), [])
    factors = []
    for group in groups:
        size = math.prod(sizes[axis] for axis in group)
        match random.integers(3):
            case 0:
                labels = random.integers(0, max(1, size - 1), size)
                matrix = [[int(v == n) for v in labels] for n in np.unique(labels)]
            case 1:
                end = int(random.integers(1, size + 1))
                matrix = [[int(i < e) for i in range(size)] for e in (end, max(1, end // 2))]
            case _:
                matrix = random.integers(-2, 3, (int(random.integers(1, 3)), size)).tolist()
        factors.append(factor(group, matrix, sizes))
    column = Column(tuple(factors))
    if column.height > 2 and random.random() < 0.2:
        column = column.take(np.array([0, column.height - 1]))
    return column


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 200))]
)
def test_what_follows_is_what_elimination_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    declared = [random_column(random, SIZES) for _ in range(random.integers(1, 4))]
    rows = [row for column in declared for row in written(column, SIZES)]
    span, counts = Span(declared, SIZES), random.integers(0, 9, 24)
    assert span.rank == rank(rows)
    known = [int(np.dot(row, counts)) for row in rows]
    for asked in [*declared, Column(), *(random_column(random, SIZES) for _ in range(8))]:
        for row, found in zip(written(asked, SIZES), span.combinations(asked), strict=True):
            if any(row):
                assert (found is not None) == (rank([*rows, row]) == span.rank)
            if found is not None:
                assert found.of(known) == np.dot(row, counts)
                total = [
                    sum(f * rows[p][cell] for p, f in zip(found.places, found.factors, strict=True))
                    for cell in range(24)
                ]
                assert total == row


def test_the_ranks_of_margins() -> None:
    sizes = {"building": 20, "hour": 14, "group": 24}
    one = {axis: identity(axis, sizes) for axis in sizes}
    margins = [
        Column((one["building"], one["hour"])),
        Column((one["building"], one["group"])),
    ]
    assert Span(margins, sizes).rank == 740
    sizes = {"a": 4, "b": 5, "c": 6}
    two_way = [
        Column((identity(x, sizes), identity(y, sizes)))
        for x, y in itertools.combinations("abc", 2)
    ]
    assert Span(two_way, sizes).rank == 60
    sizes = {"a": 3, "b": 4}
    both = Span([Column((identity("a", sizes),)), Column((identity("b", sizes),))], sizes)
    assert both.rank == 6
    assert both.holds_total


def test_a_small_prime_would_say_too_much() -> None:
    """[[1, 1, 0], [1, −2, 0], [0, 0, 1]] has rank 2 modulo 3, and 3 modulo any larger prime."""
    matrix = factor(["a"], [[1, 1, 0], [1, -2, 0], [0, 0, 1]], {"a": 3})
    assert Modular(matrix).rank == 3
    first = factor(["a"], [[1, 1, 0]], {"a": 3})
    asked = factor(["a"], [[1, -2, 0]], {"a": 3})
    assert Modular(first).combinations(asked) == [None]


def test_a_combination_has_fractions_and_is_verified_in_integers() -> None:
    sizes = {"a": 3}
    rows = Column((factor(["a"], [[3, 1, 0], [1, 3, 1], [0, 1, 3]], sizes),))
    (found,) = Span([rows], sizes).combinations(Column())
    assert found is not None
    assert found.of([3 * 5 + 7, 5 + 3 * 7 + 2, 7 + 3 * 2]) == 5 + 7 + 2
    with pytest.raises(ValueError, match="contradict"):
        found.of([1, 0, 0])


def test_counts_that_follow_from_others_are_merged() -> None:
    sizes = {"a": 3, "b": 4}
    by_a, by_b = identity("a", sizes), identity("b", sizes)
    span = Span([Column(), Column((by_a,)), Column((by_a, by_b)), Column((by_b,))], sizes)
    assert span.basis == (2,)
    assert span.rank == 12


def test_a_large_cube_is_not_written_out() -> None:
    sizes = {f"a{n}": 1000 for n in range(12)}
    margins = [Column((identity(f"a{n}", sizes),)) for n in range(12)]
    span = Span(margins, sizes)
    assert span.rank == 1 + 12 * 999
    pair = Column((identity("a0", sizes), identity("a1", sizes))).take(np.array([5, 1001]))
    assert span.combinations(pair) == [None, None]
    assert span.holds_total


def test_nested_groups_are_taken_by_their_atoms() -> None:
    """Ten regions, the hundred counties of three of them, and everybody: no elimination could do
    it in time for many more."""
    sizes = {"county": 3000}
    county = np.arange(3000)
    regions = factor(["county"], [(county // 300 == n).astype(int) for n in range(10)], sizes)
    some = factor(["county"], [(county // 10 == n).astype(int) for n in range(90)], sizes)
    span = Span([Column((regions,)), Column((some,)), Column()], sizes)
    assert span.rank == 90 + 7
    assert span.basis == (0, 1)
    inside = factor(["county"], [(county < 20).astype(int), (county < 15).astype(int)], sizes)
    found = span.combinations(Column((inside,)))
    assert found[0] is not None
    assert found[1] is None


def test_nested_groups_become_disjoint_ones() -> None:
    sizes = {"a": 3, "b": 4}
    by_a = Column((identity("a", sizes),))
    first = Column((identity("a", sizes), factor(["b"], [[1, 1, 0, 0]], sizes))).take(np.array([1]))
    counts = np.arange(12).reshape(3, 4)
    span = Span([Column(), by_a, first], sizes)
    values = [int(counts.sum()), *counts.sum(axis=1).tolist(), int(counts[1, :2].sum())]
    ((column, found),) = span.disjoint_columns(values)
    rows = np.array(written(column, sizes))
    assert (rows.sum(axis=0) == 1).all()
    assert found == (rows @ counts.ravel()).tolist()
    assert len(rows) == span.rank == 4
    margins = Span([by_a, Column((identity("b", sizes),))], sizes)
    assert [column.height for column, _ in margins.disjoint_columns(range(7))] == [3, 4]


def test_too_much_to_look_at_is_said() -> None:
    random = np.random.default_rng(0)
    sizes = {"a": 3000}
    rows = [factor(["a"], random.integers(0, 2, (1500, 3000)).tolist(), sizes)]
    with pytest.raises(StatementTooComplex, match="overlap"):
        Span([Column((rows[0],))], sizes)
