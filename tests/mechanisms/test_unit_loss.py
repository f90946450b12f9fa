"""What counting units costs, by brute force: all units of a few rows in a few cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accountant.budgets.meter import meter_for
from tallyveil.mechanisms import STATISTICS, Adjacency, Measure, Neighbours
from tallyveil.mechanisms.losses.privacy_loss import Loss, privacy_loss
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Column
from tests import matrices
from tests.pairs import alternately

CELLS = 4
OUTSIDE = CELLS
SCALE = 2.5

# Rows over four cells, beside which a record may be outside the cube.
ASKED: dict[str, list[list[int]]] = {
    "all": [[1, 1, 1, 1]],
    "where": [[1, 0, 0, 0]],
    "wide where": [[1, 1, 0, 0]],
    "two groups": [[1, 0, 0, 0], [0, 1, 0, 0]],
    "groups": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    "some groups": [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    "overlapping": [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 1, 0]],
}
COUNTS: dict[str, list[list[int]]] = {
    "count": [[1, 1, 1, 1]],
    "by cell": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    "sum": [[3, 1, 0, 2]],
}

Unit = tuple[int, ...]


def histogram(rows: list[list[int]]) -> Histogram:
    if rows == ASKED["all"]:
        return Histogram.of_units(Column())
    return Histogram.of_units(matrices.column(rows, ["cell"], [CELLS]))


def pairs(neighbours: Neighbours, most: int) -> Iterator[tuple[Unit, Unit]]:
    """A unit's records before and after, as many as there may be."""
    nobody = (OUTSIDE,) * most
    every = [*itertools.combinations_with_replacement(range(CELLS + 1), most)]
    for one in every:
        if neighbours == "add_remove":
            yield nobody, one
        else:
            yield from ((one, other) for other in every)


def numbers(rows: list[list[int]], unit: Unit, *, once: bool) -> list[int]:
    """What the unit contributes to each row: its records, or itself."""
    found = [sum(([*row, 0])[cell] for cell in unit) for row in rows]
    return [int(n > 0) for n in found] if once else found


def lost(
    rows: list[list[int]], before: Unit, after: Unit, measure: Measure, *, once: bool
) -> Fraction:
    p = 1 if measure == "epsilon" else 2
    two = (numbers(rows, unit, once=once) for unit in (before, after))
    return sum((abs(x - y) ** p for x, y in zip(*two, strict=True)), 0) * rate(SCALE, measure)


def loss(rows: list[list[int]], relation: Adjacency, measure: Measure) -> Loss:
    name = "units_laplace" if measure == "epsilon" else "units_gaussian"
    return STATISTICS[name].loss(histogram(rows), SCALE, relation, measure)


def spent(losses: Sequence[Loss], relation: Adjacency, measure: Measure) -> Fraction:
    meter = meter_for(relation, measure)
    for one in losses:
        meter = meter.after(one)
    return Fraction(meter.spent, 10**12)


FACTORS = ("add_remove", "replace"), (1, 2, 3), ("epsilon", "rho")
TOLERANCE = Fraction(1, 10**9)


@pytest.mark.parametrize(("name", "neighbours", "most", "measure"), alternately(ASKED, *FACTORS))
def test_a_statement_alone_costs_what_some_unit_loses(
    name: str, neighbours: Neighbours, most: int, measure: Measure
) -> None:
    """One in all for one group; of g disjoint ones min(r, g), or min(2 r, g)."""
    relation, rows = Adjacency(neighbours, most), ASKED[name]
    charged = spent([loss(rows, relation, measure)], relation, measure)
    truth = max(lost(rows, *pair, measure, once=True) for pair in pairs(neighbours, most))
    assert truth <= charged
    moved = most if neighbours == "add_remove" else 2 * most
    if name != "overlapping":
        assert charged <= min(moved, len(rows)) * rate(SCALE, measure) + TOLERANCE
        assert charged <= truth + TOLERANCE


@pytest.mark.parametrize(("neighbours", "most", "measure"), alternately(*FACTORS))
def test_no_history_costs_less_than_a_unit_loses(
    neighbours: Neighbours, most: int, measure: Measure
) -> None:
    """Two statements about units and one of counts, in any combination, on one meter."""
    relation = Adjacency(neighbours, most)
    units = [*pairs(neighbours, most)]
    asked = {name: loss(rows, relation, measure) for name, rows in ASKED.items()}
    counted = {
        name: privacy_loss(
            [matrices.column(rows, ["cell"], [CELLS])], [rate(SCALE, measure)], relation, measure
        )
        for name, rows in COUNTS.items()
    }
    own = {
        n: [lost(rows, *pair, measure, once=True) for pair in units] for n, rows in ASKED.items()
    }
    plain = {
        n: [lost(rows, *pair, measure, once=False) for pair in units] for n, rows in COUNTS.items()
    }
    together = [*itertools.combinations_with_replacement(ASKED, 2)]
    for (first, second), count in itertools.product(together, COUNTS):
        charged = spent([asked[first], counted[count], asked[second]], relation, measure)
        each = zip(own[first], own[second], plain[count], strict=True)
        assert max(map(sum, each)) <= charged, (first, second, count)


@pytest.mark.parametrize(("name", "neighbours", "most", "measure"), alternately(ASKED, *FACTORS))
def test_what_units_lose_is_what_their_records_lose_on_average(
    name: str, neighbours: Neighbours, most: int, measure: Measure
) -> None:
    """On this a meter rests, which has no cell for a unit of several records."""
    relation, rows = Adjacency(neighbours, most), ASKED[name]
    found = loss(rows, relation, measure)
    tensors = found.tensors  # type: ignore[union-attr]
    assert len(tensors) == 1
    values = [*np.broadcast_to(tensors[0].whole.values, CELLS).tolist(), tensors[0].outside]
    flat = not tensors[0].axes

    def pays(j: int, k: int) -> int:
        if neighbours == "add_remove":
            return int(values[k])
        return int(values[0]) if flat else 0 if j == k else int(values[j] + values[k])

    for before, after in pairs(neighbours, most):
        average = Fraction(sum(map(pays, before, after)), most * 10**12)
        assert lost(rows, before, after, measure, once=True) <= average


def test_only_the_whole_table_is_charged_exactly() -> None:
    relation = Adjacency("add_remove", 3)
    for name, rows in ASKED.items():
        meter = meter_for(relation, "rho").after(loss(rows, relation, "rho"))
        assert meter.exact == (name == "all")
    replacing = Adjacency("replace", 3)
    for rows in ASKED.values():
        assert not meter_for(replacing, "rho").after(loss(rows, replacing, "rho")).exact
