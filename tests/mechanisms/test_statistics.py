"""Distinct counts and quantiles: what they cost by brute force, and how they are drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
import pytest

from tallyveil.boundary import TrueAnswer, issue_receipt
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, ReceiptError
from tallyveil.mechanisms import STATISTICS, Adjacency, Measure, Neighbours, rank_error
from tallyveil.mechanisms.losses.cell_loss import CellLoss
from tallyveil.mechanisms.losses.pair_loss import PairLoss
from tallyveil.mechanisms.noise.quantile_draw import distances, draw_mode, draw_quantile
from tallyveil.workload.histogram import Histogram
from tests import matrices
from tests.goodness import surprise
from tests.pairs import alternately, pairs_first

# Cells of group × kept × value, of which WHERE keeps those with 0. A row is a value in a group.
SHAPE = (2, 2, 3)
OUTSIDE = None
SCALE = 2.5
HALF, FIFTH = Fraction(1, 2), Fraction(1, 5)

ROWS = [*itertools.product(range(2), range(3))]


Asked: TypeAlias = Fraction | Literal["mode"]
"""A rank, or the mode."""


def histogram(groups: int, q: Asked | None = None) -> Histogram:
    """By the first axis, or of all; its column has the values in another order."""
    cells = [*itertools.product(*map(range, SHAPE))]
    rows = ROWS if groups == 2 else [(0, value) for value in range(3)]
    dense = [
        [int(kept == 0 and (g if groups == 2 else 0, value) == row) for g, kept, value in cells]
        for row in reversed(rows)
    ]
    column = matrices.column(dense, ["group", "kept", "value"], SHAPE)
    order = np.arange(len(rows), dtype=np.int64)[::-1].copy()
    of = np.array([g for g, _ in rows], dtype=np.int64)
    if q == "mode":
        return Histogram(column, order, of, groups, kind="mode")
    return Histogram(column, order, of, groups, q)


def law(counts: Sequence[int], q: Asked, scale: float) -> list[float]:
    """P(row) of the exponential mechanism, straight from its definition."""
    n, weights = sum(counts), []
    for row, own in enumerate(counts):
        below = sum(counts[:row])
        if q == "mode":
            u = Fraction(own - max(counts))
        else:
            u = -max(Fraction(0), below - q * n, q * n - below - own)
        weights.append(math.exp(float(u) / (2 * scale)))
    return [weight / math.fsum(weights) for weight in weights]


@cache
def divergence(
    one: tuple[int, ...], other: tuple[int, ...], name: str, q: Asked | None, measure: Measure
) -> float:
    """What the answer about one group reveals of which counts it has."""
    if q is None:
        move = sum(map(bool, one)) - sum(map(bool, other))
        return abs(move) / SCALE if measure == "epsilon" else move**2 / (2 * SCALE**2)
    p, r = np.array(law(one, q, SCALE)), np.array(law(other, q, SCALE))
    if measure == "epsilon":
        return float(np.abs(np.log(p / r)).max())
    return max(
        math.log(float((p**a * r ** (1 - a)).sum())) / (a - 1) / a
        for a in (1.0001, 1.5, 2.0, 4.0, 16.0, 64.0)
    )


def moved(counts: tuple[int, ...], places: Sequence[int | None]) -> tuple[int, ...]:
    found = list(counts)
    for place in places:
        if place is not None:
            found[place] += 1
    return tuple(found)


def truth(
    before: Sequence[int | None],
    after: Sequence[int | None],
    asked: Histogram,
    name: str,
    measure: Measure,
    q: Asked | None,
) -> float:
    """The most that a unit with records in these rows, or in those, can lose, over all counts of
    the others."""
    groups, most = asked.height, 0.0
    for others in itertools.product(range(3), repeat=3 * groups):
        one, other = moved(others, before), moved(others, after)
        if groups == 2 and (one[:3] == other[:3]) and others[:3] != (0, 0, 0):
            continue  # the first group is not moved, whatever is in it
        lost = sum(
            divergence(one[3 * g : 3 * g + 3], other[3 * g : 3 * g + 3], name, q, measure)
            for g in range(groups)
        )
        most = max(most, lost)
    return most


def charged(loss: CellLoss | PairLoss, one: int | None, other: int | None, groups: int) -> float:
    """What is charged where a record moves from a row to another, in the measure."""

    def cell(row: int | None) -> tuple[int, int, int]:
        """(group, kept, value)"""
        if row is None:
            return 0, 1, 0
        return (row // 3, 0, row % 3) if groups == 2 else (0, 0, row)

    names = ("group", "kept", "value")
    if isinstance(loss, CellLoss):
        found = 0
        for tensor in loss.tensors:
            at = tuple(cell(one if other is None else other)[names.index(a)] for a in tensor.axes)
            found += int(tensor.whole.values[at])
        return found / 1e12
    assert loss.by_class is not None
    classes, matrix = loss.by_class.classes, loss.by_class.matrix
    at = []
    for row in (one, other):
        axes = zip(classes.axes, classes.kinds, strict=True)
        place = [kinds[cell(row)[names.index(name)]] for name, kinds in axes]
        at.append(int(classes.labels[tuple(place)]))
    return int(matrix[at[0], at[1]]) / 1e12


CASES = [
    ("distinct_laplace", None, "epsilon"),
    ("distinct_gaussian", None, "rho"),
    *(("quantile", q, measure) for q in (HALF, FIFTH) for measure in ("epsilon", "rho")),
    *(("mode", "mode", measure) for measure in ("epsilon", "rho")),
]


def units(groups: int, neighbours: str, rows: int) -> Iterator[tuple[tuple[int | None, ...], ...]]:
    """The rows of a unit's records before and after."""
    every: list[int | None] = [*range(3 * groups), OUTSIDE]
    own = [*itertools.combinations_with_replacement(every, rows)]
    if neighbours == "add_remove":
        yield from (((OUTSIDE,) * rows, after) for after in own)
    elif rows == 1:
        yield from itertools.product(own, own)
    else:
        yield (0, 1), (groups * 3 - 2, groups * 3 - 1)
        yield from ((before, after) for before, after in itertools.product(own[::2], own[::3]))


@pytest.mark.parametrize(
    ("case", "neighbours", "groups", "rows"),
    pairs_first(CASES, ["add_remove", "replace"], [1, 2], [1, 2]),
)
def test_no_unit_loses_more_than_is_charged(
    case: tuple[str, Asked | None, Measure], neighbours: Neighbours, groups: int, rows: int
) -> None:
    """A unit of r records is charged what its records are on average, each r times or r² times:
    this is what a ledger adds up over releases. Who loses most pays no more than that, but for
    quantiles, whose law in small groups moves less."""
    name, q, measure = case
    asked = histogram(groups, q)
    relation = Adjacency(neighbours, rows)
    loss = STATISTICS[name].loss(asked, SCALE, relation, measure)
    tight = 0.0
    for before, after in units(groups, neighbours, rows):
        lost = truth(before, after, asked, name, measure, q)
        pairs = zip(before, after, strict=True)
        paid = sum(charged(loss, *pair, groups) for pair in pairs) / rows
        assert lost <= paid + 1e-9, (before, after)
        tight = max(tight, lost / (loss.bound / 1e12))
    assert tight <= 1 + 1e-9
    if q is None:
        assert tight > 0.999
    elif measure == "epsilon":
        assert tight > 0.3  # such small groups spread the quantile over all rows


def test_a_record_outside_the_histogram_pays_nothing() -> None:
    for q in (None, HALF):
        asked = histogram(2, q)
        name = "quantile" if q else "distinct_laplace"
        loss = STATISTICS[name].loss(asked, 1.0, Adjacency("replace"), "epsilon")
        assert charged(loss, OUTSIDE, OUTSIDE, 2) == 0
        assert charged(loss, OUTSIDE, 4, 2) > 0


@pytest.mark.parametrize(("name", "q", "measure"), CASES)
def test_what_bounds_pairs_of_too_many_groups_is_no_less(
    name: str, q: Asked | None, measure: Measure
) -> None:
    asked = histogram(2, q)
    loss = STATISTICS[name].loss(asked, SCALE, Adjacency("replace"), measure)
    assert isinstance(loss, PairLoss)
    bound = sum(tensor.two_highest for tensor in loss.from_zero)
    assert loss.bound <= bound <= 2 * loss.bound
    (tensor,) = loss.from_zero
    order = [("group", "kept", "value").index(axis) for axis in tensor.axes]
    each = {None: 0} | {
        place: int(tensor.whole.values[tuple((place // 3, 0, place % 3)[n] for n in order)])
        for place in range(6)
    }
    for one, other in itertools.combinations(each, 2):
        assert charged(loss, one, other, 2) <= (each[one] + each[other]) / 1e12


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", STATISTICS)
def test_the_scale_for_a_cost_costs_it(name: str, neighbours: Neighbours, measure: Measure) -> None:
    ranks: dict[str, Asked] = {"quantile": FIFTH, "mode": "mode"}
    asked = histogram(2, ranks.get(name))
    if name.startswith("units"):
        asked = Histogram.of_units(asked.column)
    statistic, relation = STATISTICS[name], Adjacency(neighbours, 3)
    if name.endswith("_gaussian") and measure == "epsilon":
        with pytest.raises(FeatureNotSupported):
            statistic.scale_for(asked, Fraction(1), relation, measure)
        return
    for cost in (Fraction(1, 7), Fraction(3)):
        scale = statistic.scale_for(asked, cost, relation, measure)
        paid = Fraction(statistic.loss(asked, scale, relation, measure).bound, 10**12)
        assert cost * Fraction(999_999_999, 1_000_000_000) <= paid <= cost
    with pytest.raises(InvalidParameterValue):
        statistic.scale_for(asked, Fraction(1, 10**14), relation, measure)


@pytest.mark.parametrize(
    ("counts", "q"),
    alternately(
        [(3, 0, 5, 2, 0, 7), (0, 0, 0), (1,), (40, 0, 1, 1)], [HALF, FIFTH, Fraction(99, 100)]
    ),
)
def test_quantiles_are_drawn_by_their_law(counts: tuple[int, ...], q: Fraction) -> None:
    """2,000 draws, false alarms 10⁻⁷ each."""
    drawn = [draw_quantile(counts, q, 1.7) for _ in range(2_000)]
    assert surprise(drawn, dict(enumerate(law(counts, q, 1.7)))) > 1e-7


@pytest.mark.parametrize("counts", [(3, 0, 5, 2, 5, 7), (0, 0, 0), (1,), (40, 0, 1, 39)])
def test_modes_are_drawn_by_their_law(counts: tuple[int, ...]) -> None:
    """5,000 draws, false alarms 10⁻⁷ each; and the bound of the error holds, by the law."""
    drawn = [draw_mode(counts, 1.7) for _ in range(5_000)]
    chances = law(counts, "mode", 1.7)
    assert surprise(drawn, dict(enumerate(chances))) > 1e-7
    column = matrices.column(np.eye(len(counts), dtype=int).tolist(), ["v"], [len(counts)])
    rows = np.arange(len(counts), dtype=np.int64)
    asked = Histogram(column, rows, rows * 0, 1, kind="mode")
    bound = rank_error(asked, 1.7, Fraction(95, 100))
    assert sum(p for p, n in zip(chances, counts, strict=True) if max(counts) - n > bound) <= 0.05


def test_distances_are_those_of_ranks() -> None:
    """All histograms of up to four rows of up to three records, at all ranks of twentieths."""
    every = (itertools.product(range(4), repeat=rows) for rows in range(1, 5))
    for counts, parts in itertools.product(itertools.chain(*every), range(1, 20)):
        q = Fraction(parts, 20)
        records = np.repeat(np.arange(len(counts)), counts)
        far = distances(counts, q)
        if len(records):
            exact = np.sort(records)[max(0, math.ceil(q * len(records)) - 1)]
            assert far.index(0) <= exact
            assert far[exact] == 0


def test_the_bound_of_the_rank_error_holds() -> None:
    """By the law itself, for counts that make it large."""
    for counts in [(0,) * 30 + (50,) + (0,) * 30, (1,) * 61, (9, *(0,) * 59, 9)]:
        asked = histogram(1, HALF)
        column = matrices.column(np.eye(61, dtype=int).tolist(), ["v"], [61])
        rows = np.arange(61, dtype=np.int64)
        asked = Histogram(column, rows, np.zeros(61, dtype=np.int64), 1, HALF)
        for scale in (0.5, 3.0, 20.0):
            bound = rank_error(asked, scale, Fraction(95, 100))
            far = [one / 2 for one in distances(counts, HALF)]
            beyond = sum(p for p, d in zip(law(counts, HALF, scale), far, strict=True) if d > bound)
            assert beyond <= 0.05


def test_a_receipt_opens_one_histogram_only() -> None:
    asked = histogram(2)
    answer = TrueAnswer(b"its key", [[0, 1, 2, 0, 0, 3]])
    statistic = STATISTICS["distinct_laplace"]
    with pytest.raises(ReceiptError):
        statistic.release(answer, issue_receipt(1, b"another", [0.01]), asked)
    found = statistic.release(answer, issue_receipt(1, b"its key", [2.0**-20]), asked)
    assert found == ((1, 2),)  # at almost no noise: rows are listed in the order of their values


def test_equal_groups_have_equal_keys() -> None:
    """A group is known by its own rows alone, and a quantile by their order too."""
    both, part = histogram(2), histogram(2).take(np.array([1]))
    assert part.keys == both.keys[1:]
    assert part.height == 1
    assert part.column.height == 3
    assert histogram(2, HALF).keys[0] != both.keys[0] != both.keys[1]
    flipped = Histogram(both.column, both.rows[::-1].copy(), both.groups, 2)
    assert set(flipped.keys) == set(both.keys)
    upside = Histogram(both.column, both.rows[::-1].copy(), both.groups, 2, HALF)
    assert not set(upside.keys) & set(histogram(2, HALF).keys)


def test_histograms_are_disjoint() -> None:
    overlapping = matrices.column([[1, 1, 0], [0, 1, 1]], ["v"], [3])
    rows = np.arange(2, dtype=np.int64)
    asked = Histogram(overlapping, rows, np.zeros(2, dtype=np.int64), 1)
    with pytest.raises(FeatureNotSupported):
        STATISTICS["distinct_laplace"].loss(asked, 1.0, Adjacency("add_remove"), "epsilon")
    for wrong in [(rows, rows, 1), (rows, rows * 0, 2), (rows * 0, rows * 0, 1)]:
        with pytest.raises(ValueError, match="each"):
            Histogram(overlapping, *wrong)
    with pytest.raises(ValueError, match="rank"):
        Histogram(overlapping, rows, rows * 0, 1, Fraction(1))
