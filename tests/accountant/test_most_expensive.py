"""Where most has been spent, in words, against every cell and every pair of cells."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accountant.budgets.expensive import most_expensive
from tallyveil.accountant.budgets.meter import Meter, meter_for
from tallyveil.mechanisms import Adjacency, Measure, mechanism
from tallyveil.mechanisms.losses import cell_classes, cell_loss, loss_tensor
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.workload.workload import Column, Workload
from tests.pairs import alternately

LAPLACE = mechanism("laplace")
ADD_REMOVE = Adjacency("add_remove")
DAYS = tuple(dt.date(2020, 1, day) for day in range(1, 11))
PEOPLE = Domain(
    "person",
    (
        Attribute("state", "values", "VARCHAR", ("AL", "AK", "AZ", "AR", "CA", "x"), other_cell=5),
        Attribute("age", "range", "INTEGER", (*range(20), None), null_cell=20),
        Attribute("sex", "values", "VARCHAR", ("F", "M")),
        Attribute("income", "bins", "INTEGER", (0, 10, 30, None), (0, 10, 30, 60), null_cell=3),
        Attribute("day", "range", "DATE", DAYS),
        Attribute("married", "values", "BOOLEAN", (False, True)),
    ),
)


def counts(**values: Any) -> Column:
    """A count of the records with any of these values of each attribute."""
    axes = tuple(values)
    shape = tuple(PEOPLE[name].size for name in axes)
    chosen = [[PEOPLE[n].cells.index(v) for v in vs] for n, vs in values.items()]
    cells = np.ravel_multi_index(np.array(list(itertools.product(*chosen))).T, shape)
    cells = np.sort(np.atleast_1d(cells)).astype(np.int64)
    return Column.joint(
        axes, shape, 1, np.zeros(len(cells), dtype=np.int64), cells, np.ones_like(cells)
    )


def after(*columns: Column, relation: Adjacency = ADD_REMOVE) -> Meter:
    meter = meter_for(relation, "epsilon")
    for column in columns:
        meter = meter.after(
            LAPLACE.loss(Workload("person", (column,)), (1.0,), relation, "epsilon")
        )
    return meter


def of(*columns: Column, relation: Adjacency = ADD_REMOVE) -> str | None:
    return most_expensive(after(*columns, relation=relation), PEOPLE)


def test_nothing_spent_is_nowhere() -> None:
    assert of() is None


EXAMPLES: list[tuple[list[dict[str, Any]], str]] = [
    ([{"sex": "F"}], "sex = F"),
    ([{"sex": "F"}, {"age": [3]}], "age = 3, sex = F"),
    ([{"sex": "FM"}], "every record"),
    ([{"sex": "F"}, {"sex": "M"}], "every record"),
    ([{"sex": "FM"}, {"age": [3]}], "age = 3"),
    ([{"age": range(5, 15)}], "age = 5 to 14"),
    ([{"age": [1, 2, 3, 7, None]}], "age = 1 to 3 or 7 or NULL"),
    ([{"age": [1, 3, 5, 7, 8]}], "age = 1 or 4 others"),
    ([{"age": [1, 2, 5, 7, 9]}], "age = 1 to 2 or 3 others"),
    ([{"state": ["AL", "x"]}], "state = AL or x"),
    ([{"state": ["AL", "AK", "AZ", "CA"]}], "state = AL or 3 others"),
    ([{"income": [0, 10]}], "income = [0, 30)"),
    ([{"income": [0, 30, None]}], "income = [0, 10) or [30, 60) or NULL"),
    ([{"day": DAYS[2:4]}], "day = 2020-01-03 to 2020-01-04"),
    ([{"married": [True]}], "married = true"),
    # Not a product: one of the cells is named, by the attributes that matter.
    (
        [{"sex": "F", "married": [True]}, {"sex": "M", "married": [False]}],
        "sex = M, married = false",
    ),
    # Overlaps win.
    ([{"age": range(5, 15)}, {"age": range(10, 20)}], "age = 10 to 14"),
]


@pytest.mark.parametrize(("asked", "told"), EXAMPLES)
def test_examples(asked: list[dict[str, Any]], told: str) -> None:
    assert of(*(counts(**values) for values in asked)) == told


def test_pairs() -> None:
    closed, open_ = Adjacency("replace", 1, True), Adjacency("replace", 1, False)
    assert of(counts(sex="F"), relation=closed) == "sex = F against sex = M"
    assert of(counts(age=range(5)), counts(sex="F"), relation=closed) == (
        "age = 0 to 4, sex = F against age = 5 to 19 or NULL, sex = M"
    )
    # Of no attribute: only a record without a cell is told apart.
    assert of(counts(sex="FM"), relation=open_) == "every record against a record without a cell"
    assert of(counts(sex="FM"), relation=closed) is None


Cell = dict[str, int]


def told_cells(text: str, sizes: dict[str, int]) -> list[Cell]:
    """The cells a text over attributes with the values 0, 1, … means; [] for one outside."""
    if text == "a record without a cell":
        return []
    allowed = {name: list(range(size)) for name, size in sizes.items()}
    if text != "every record":
        for part in text.split(", "):
            name, values = part.split(" = ")
            allowed[name] = []
            for run in values.split(" or "):
                low, _, high = run.partition(" to ")
                allowed[name] += range(int(low), int(high or low) + 1)
    return [dict(zip(sizes, cell, strict=True)) for cell in itertools.product(*allowed.values())]


@pytest.mark.parametrize(
    ("measure", "neighbours"), alternately(["epsilon", "rho"], ["add_remove", "replace"])
)
@given(data=st.data())
def test_every_cell_told_is_worst_off(
    cubes: Any, neighbours: Any, measure: Measure, data: st.DataObject
) -> None:
    domain = cubes.account().domain
    sizes = {a.name: a.size for a in domain.attributes}
    relation = Adjacency(neighbours, data.draw(st.integers(1, 2)), data.draw(st.booleans()))
    history = data.draw(cubes.histories)
    meter = meter_for(relation, measure)
    losses: dict[tuple[int, ...], int] = {}
    for release in history:
        meter = meter.after(LAPLACE.loss(release.workload, release.scales, relation, measure))
        for key, loss in release.units(relation, measure).items():
            losses[key] = losses.get(key, 0) + loss
    worst = max(losses.values())
    text = most_expensive(meter, domain)
    if not worst:
        assert text is None
        return
    assert text is not None

    def numbers(side: str) -> list[int]:
        shape, outside = tuple(sizes.values()), math.prod(sizes.values())
        told = told_cells(side, sizes)
        return [int(np.ravel_multi_index(tuple(c.values()), shape)) for c in told] or [outside]

    for chosen in itertools.product(*map(numbers, text.split(" against "))):
        assert losses[tuple(sorted(chosen))] == worst


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@given(data=st.data())
def test_where_it_is_a_bound_it_still_names_cells(
    cubes: Any, neighbours: Any, data: st.DataObject
) -> None:
    domain = cubes.account().domain
    sizes = {a.name: a.size for a in domain.attributes}
    relation = Adjacency(neighbours)
    with pytest.MonkeyPatch.context() as patch:
        for module in (loss_tensor, cell_loss, cell_classes):
            patch.setattr(module, "CELL_LIMIT", 2)
        patch.setattr(cell_classes, "CLASS_LIMIT", 2)
        meter = meter_for(relation, "epsilon")
        for release in data.draw(cubes.histories):
            meter = meter.after(LAPLACE.loss(release.workload, release.scales, relation, "epsilon"))
        text = most_expensive(meter, domain)
    assert (text is None) == (meter.spent == 0)
    for side in (text or "every record").split(" against "):
        assert told_cells(side, sizes) or side == "a record without a cell"
