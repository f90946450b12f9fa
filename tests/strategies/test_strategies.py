"""Strategies against brute force: which counts there are, and how few make up a range."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tallyveil
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, StatementTooComplex
from tallyveil.policy import Table
from tallyveil.strategies import Strategy, parse_strategy


def table(**attributes: Any) -> Table:
    declared = {"from": "t", "budget": {"epsilon": 1.0}, "attributes": attributes}
    return tallyveil.parse_policy({"tables": {"t": declared}}).tables["t"]


def intervals(strategy: Strategy) -> list[list[frozenset[int]]]:
    """The cells of every count of every column of one factor, all coefficients being 1."""
    found = []
    for column in strategy.workload.columns:
        (factor,) = column.factors
        assert (factor.coefficients == 1).all()
        own = [factor.cells[factor.rows == row] for row in range(factor.height)]
        found.append([frozenset(cells.tolist()) for cells in own])
    return found


@pytest.mark.parametrize("fanout", [2, 3, 5, 16])
@pytest.mark.parametrize("values", [1, 2, 3, 9, 10, 17, 48, 116])
def test_a_tree_has_distinct_intervals_and_a_range_takes_the_fewest(
    values: int, fanout: int
) -> None:
    ages = table(age={"range": [1, values], "other": True})
    strategy = parse_strategy(f"tree:age:{fanout}", ages)
    levels = intervals(strategy)
    every = list(itertools.chain(*levels))
    assert len(set(every)) == len(every) == strategy.counts
    for level in levels:
        assert sum(map(len, level)) == len(frozenset().union(*level))
    assert frozenset([values]) in levels[0]
    assert max(every, key=len) == frozenset(range(values))
    starts = [(min(cells), len(cells)) for cells in every if values not in cells]
    for typical in strategy.typical[1:-1]:
        length = int(typical.question.split()[3])
        start = (values - length) // 2
        least = {start: 0}
        for at in range(start, start + length):
            for first, long in starts:
                if first == at and at in least and at + long <= start + length:
                    least[at + long] = min(least.get(at + long, values), least[at] + 1)
        assert sum(typical.parts.values()) == least[start + length]
    assert sum(strategy.typical[-1].parts.values()) == 2


def test_identity_and_marginals_count_every_combination() -> None:
    people = table(a={"range": [1, 3]}, b={"values": ["x", "y"]}, c={"range": [1, 5]})
    whole = parse_strategy("identity", people)
    assert whole.counts == 30
    assert [sum(t.parts.values()) for t in whole.typical] == [1, 10, 15, 6, 30]
    pairs = parse_strategy("marginals:2", people)
    assert [c.height for c in pairs.workload.columns] == [6, 15, 10]
    assert [dict(t.parts) for t in pairs.typical] == [{0: 1}, {0: 2}, {0: 3}, {2: 2}, {0: 6}]
    some = parse_strategy("identity", people, ["c", "a"])
    assert some.workload.columns[0].axes == ("a", "c")
    product = some.workload.columns[0].multiplied_out(1000)
    assert product is not None
    assert np.array_equal(product.cells, np.arange(15))


@pytest.mark.parametrize(
    ("text", "names", "error"),
    [
        ("cube", None, InvalidParameterValue),
        ("marginals:0", None, InvalidParameterValue),
        ("marginals:4", None, InvalidParameterValue),
        ("marginals:-1", None, InvalidParameterValue),
        ("identity", ["nobody"], InvalidParameterValue),
        ("identity", ["a", "a"], InvalidParameterValue),
        ("tree:a:1", None, InvalidParameterValue),
        ("tree:a", ["a"], InvalidParameterValue),
        ("tree:b", None, FeatureNotSupported),
        ("identity", None, StatementTooComplex),
    ],
)
def test_what_is_no_strategy(text: str, names: list[str] | None, error: type[Exception]) -> None:
    people = table(a={"range": [1, 400]}, b={"values": ["x"]}, c={"range": [1, 400]})
    with pytest.raises(error):
        parse_strategy(text, people, names)
