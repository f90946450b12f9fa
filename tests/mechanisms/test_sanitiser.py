"""A sanitised copy costs what it says, and opens only what was paid for."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from tallyveil.boundary import TrueAnswer, issue_receipt
from tallyveil.errors import InvalidParameterValue, ReceiptError
from tallyveil.mechanisms import Adjacency, Sanitiser, mechanism_names
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.records import RandomisedResponse
from tallyveil.mechanisms.records.record_response import DRAWS, odds_below
from tallyveil.mechanisms.records.sanitiser import spent
from tallyveil.mechanisms.units import UNIT
from tallyveil.workload.workload import Column, Factor, Workload

REPLACE = Adjacency("replace", 1, complete=True)
SIZES = {"a": 3, "b": 2, "c": 4}


def identity(*axes: str) -> Column:
    return Column((Factor.identity(axes, tuple(SIZES[axis] for axis in axes)),))


WORKLOAD = Workload("t", (identity("a"), identity("b", "c")))
EPSILONS = [Fraction(1, 3), Fraction(2, 3)]


def test_a_copy_costs_its_epsilon_to_the_unit() -> None:
    for epsilons in ([Fraction(1, 3), Fraction(2, 3)], [Fraction(1, 7), Fraction(1, 10)]):
        scales = Sanitiser().scales_for(WORKLOAD, epsilons, REPLACE)
        assert all(spent(b) <= e for b, e in zip(scales, epsilons, strict=True))
        cost = Sanitiser().loss(WORKLOAD, scales, REPLACE, "epsilon").bound
        assert sum(epsilons) * UNIT - 2 < cost <= sum(epsilons) * UNIT


def test_a_pair_pays_for_the_parts_it_differs_in() -> None:
    scales = Sanitiser().scales_for(WORKLOAD, EPSILONS, REPLACE)
    for part, paid in zip(WORKLOAD.columns, scales, strict=True):
        alone = Workload("t", (part,))
        assert Sanitiser().loss(alone, (paid,), REPLACE, "epsilon").bound == -(
            -spent(paid) * UNIT // 1
        )


@pytest.mark.parametrize(
    "relation",
    [
        Adjacency("add_remove", 1, complete=True),
        Adjacency("replace", 1, complete=False),
        Adjacency("replace", 2, complete=True),
    ],
)
def test_it_is_not_private_where_the_number_of_records_is_not_public(relation: Adjacency) -> None:
    with pytest.raises(InvalidParameterValue, match="number of records"):
        Sanitiser().scales_for(WORKLOAD, EPSILONS, relation)


def test_only_whole_parts_are_charged_for() -> None:
    one_row = identity("a").take(np.array([0], dtype=np.int64))
    with pytest.raises(InvalidParameterValue, match="whole parts"):
        Sanitiser().loss(Workload("t", (one_row,)), (1.0,), REPLACE, "epsilon")
    for scales in ((0.0, 1.0), (float("nan"), 1.0), (float("inf"), 1.0), (1.0,)):
        with pytest.raises(InvalidParameterValue):
            Sanitiser().loss(WORKLOAD, scales, REPLACE, "epsilon")


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_a_product_of_identities_is_an_identity(measure: Measure) -> None:
    """It costs what the spelled-out one does; and so does one of too many cells to spell out."""
    parts = [identity(axis).factors[0] for axis in SIZES]
    series = Workload("t", (Column(tuple(parts)),))
    joint = Workload("t", (identity(*SIZES),))
    scale = float(2 / Fraction(3, 4))
    costs = [Sanitiser().loss(w, (scale,), REPLACE, measure).bound for w in (series, joint)]
    assert costs[0] == costs[1] == -(-(spent(scale) ** power(measure)) * UNIT // power(measure))
    long = [Factor.identity((f"t{n}",), (60,)) for n in range(9)]
    found = Sanitiser().loss(Workload("t", (Column(tuple(long)),)), (scale,), REPLACE, measure)
    assert costs[0] <= found.bound <= costs[0] + 1
    without_one = (parts[0].take(np.array([0, 1], dtype=np.int64)), *parts[1:])
    with pytest.raises(InvalidParameterValue, match="whole parts"):
        Sanitiser().loss(Workload("t", (Column(without_one),)), (scale,), REPLACE, measure)


def test_records_of_another_workload_have_another_key() -> None:
    parts = [identity(axis).factors[0] for axis in ("a", "b")]
    product = Column(tuple(parts))
    chosen = Column(tuple(parts), selected=np.arange(6, dtype=np.int64))
    workloads = [
        Workload("t", columns)
        for columns in [
            (product,), (chosen,), (Column(tuple(parts), Fraction(2)),), (identity("a", "b"),),
            (identity("a"), identity("b")), (identity("b"), identity("a")), (identity("a"),),
        ]
    ]  # fmt: skip
    keys = [w.records_key for w in [*workloads, Workload("u", (product,))]]
    assert len({*keys, *(w.key for w in workloads)}) == len(keys) + len({w.key for w in workloads})
    assert Workload("t", (Column(tuple(parts)),)).records_key == keys[0]


def test_queries_cannot_choose_it() -> None:
    assert Sanitiser.name not in mechanism_names()


def test_it_opens_only_what_was_paid_for() -> None:
    workload = Workload("t", (identity("a"),))
    scale = 4.0
    records = TrueAnswer(workload.records_key, [[0, 1, 2, 2]])
    dear, wide = RandomisedResponse(3, Fraction(1)), RandomisedResponse(4, Fraction(1, 2))
    receipt = issue_receipt(1, workload.records_key, [scale])
    for law in (dear, wide):
        with pytest.raises(ReceiptError, match="not paid for"):
            Sanitiser().release(records, receipt, workload, [law])
    for_counts = issue_receipt(1, workload.key, [scale])
    law = RandomisedResponse(3, spent(scale))
    with pytest.raises(ReceiptError, match="another release"):
        Sanitiser().release(records, for_counts, workload, [law])
    (codes,) = Sanitiser().release(records, receipt, workload, [law])
    assert len(codes) == 4
    with pytest.raises(ReceiptError, match="unused"):
        Sanitiser().release(records, receipt, workload, [law])


def test_the_order_of_the_copy_says_nothing() -> None:
    """It is that of the perturbed values, so records in any order give the same law."""
    records = [list(range(3)) * 50, [*range(7, -1, -1)] * 18 + [0] * 6]
    receipt = issue_receipt(1, WORKLOAD.records_key, [0.5, 0.5])
    laws = [RandomisedResponse(column.height, Fraction(4)) for column in WORKLOAD.columns]
    codes = Sanitiser().release(TrueAnswer(WORKLOAD.records_key, records), receipt, WORKLOAD, laws)
    rows = list(zip(*(c.tolist() for c in codes), strict=True))
    assert rows == sorted(rows)


def test_neighbouring_tables_give_every_copy_alike() -> None:
    """All copies of all tables of two records of 3 × 2 cells, in rational arithmetic.

    METRIC Thm 5 for the sorted product: any copy is at most e^ε times as likely from a table
    with one record exchanged, ε the sum of the parts that differ.
    """
    first, second = RandomisedResponse(3, Fraction(1, 2)), RandomisedResponse(2, Fraction(1))
    cells = list(product(range(3), range(2)))

    def law(record: tuple[int, int], output: tuple[int, int]) -> Fraction:
        return prod(
            (
                Fraction(part.kept if x == y else part.change, DRAWS)
                for part, x, y in zip((first, second), record, output, strict=True)
            ),
            start=Fraction(1),
        )

    def copies(table: tuple[tuple[int, int], ...]) -> dict[tuple[tuple[int, int], ...], Fraction]:
        found: dict[tuple[tuple[int, int], ...], Fraction] = defaultdict(Fraction)
        for outputs in product(cells, repeat=2):
            chance = prod(
                (law(r, o) for r, o in zip(table, outputs, strict=True)), start=Fraction(1)
            )
            found[tuple(sorted(outputs))] += chance
        return found

    laws = {table: copies(table) for table in product(cells, repeat=2)}
    for table, other in product(laws, repeat=2):
        if table[1] != other[1]:
            continue
        bound = prod(
            (
                odds_below(part.epsilon)
                for part, x, y in zip((first, second), table[0], other[0], strict=True)
                if x != y
            ),
            start=Fraction(1),
        )
        for copy, chance in laws[table].items():
            assert chance <= bound * laws[other][copy]


def test_in_rho_each_part_costs_half_its_square() -> None:
    scales = Sanitiser().scales_for(WORKLOAD, EPSILONS, REPLACE)
    cost = Sanitiser().loss(WORKLOAD, scales, REPLACE, "rho").bound
    exact = sum(spent(b) ** 2 for b in scales) * UNIT / 2
    assert exact <= cost <= exact + 2
