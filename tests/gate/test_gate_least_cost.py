"""A half-width is met at the least cost, together with what else the same statement charges.

Rows that are bought together improve each other by way of history. So the noise is wider by one
factor than each row alone would need: the widest interval is about as wide as was asked.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tests.gate.asking import ask, spent
from tests.pairs import alternately, one_in

Connect = Callable[..., tallyveil.Connection]
BUDGETS: dict[str, Any] = {
    "epsilon": {"epsilon": 1000.0},
    "rho": {"rho": 1000.0, "delta": 1e-6},
}
COSTS = {"epsilon": 0.1, "rho": 0.001}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Connect]:
    source = duckdb.connect()
    source.execute(
        "CREATE TABLE people AS SELECT i % 3 AS a, i % 7 % 4 AS b, i % 11 % 3 AS d"
        " FROM range(3000) t(i)"
    )
    held: list[tallyveil.Connection] = []
    numbers = itertools.count()

    def make(measure: str = "epsilon", ledger: str | None = None, **table: Any) -> Any:
        attributes = {
            name: {"range": [0, last]} for name, last in zip("abd", (2, 3, 2), strict=True)
        }
        own = {"from": "people", "budget": BUDGETS[measure], "attributes": attributes} | table
        policy = {
            "ledger": ledger or f"{next(numbers)}.sqlite",
            "tables": {"person": own},
            "defaults": {measure: COSTS[measure]},
        }
        held.append(tallyveil.connect(tallyveil.parse_policy(policy, base=tmp_path), source=source))
        return held[-1]

    yield make
    for one in held:
        one.close()
    source.close()


N = "count(*) AS n, dp_interval_low(n), dp_interval_high(n)"
CELLS = "SELECT count(*) FROM person GROUP BY a, b, d"
# What is asked before, the statement, whose rows with a key have a target, and the half-width.
CASES = {
    "groups beside a total": (
        [CELLS, "SET dp.half_width = 20", "SELECT count(*) FROM person"],
        f"SELECT {N}, a FROM person GROUP BY a",
        20,
    ),
    "pairs from a rollup": (
        ["SELECT count(*) FROM person GROUP BY ROLLUP (a, b, d)"],
        f"SELECT {N}, b FROM person GROUP BY ROLLUP (a, b)",
        30,
    ),
    "groups that overlap": (
        [],
        f"SELECT {N}, a FROM person GROUP BY GROUPING SETS ((a), (b), (d))",
        25,
    ),
    "marginals of cells": (
        [CELLS, "SELECT count(*) FROM person GROUP BY a, b"],
        f"SELECT {N}, a FROM person GROUP BY GROUPING SETS ((a), (b))",
        22,
    ),
}


@pytest.mark.parametrize(
    ("case", "measure", "neighbours"), alternately(CASES, BUDGETS, ["add_remove", "replace"])
)
def test_the_widest_interval_is_as_wide_as_asked(
    opened: Connect, case: str, measure: str, neighbours: str
) -> None:
    before, sql, target = CASES[case]
    connection = opened(measure, neighbours=neighbours)
    for one in before:
        connection.execute(one)
    connection.execute(f"SET dp.half_width = {target}")
    [forecast] = re.findall(r"^Cost: (\w+ [0-9.e-]+) ", connection.explain(sql), re.MULTILINE)
    cursor = connection.execute(sql)
    assert cursor.notices[0].message.startswith(f"cost {forecast}")
    rows = cursor.fetchall()
    widest = max((high - low) / 2 for _, low, high, key in rows if key is not None)
    assert target * 0.97 - 1 <= widest <= target


def test_it_costs_less_than_each_row_by_itself(opened: Connect) -> None:
    before, sql, target = CASES["groups beside a total"]
    connection = opened(ledger="kept.sqlite")
    for one in before:
        connection.execute(one)
    first = spent(connection)
    ask(connection, sql, half_width=target)
    assert spent(connection) - first < 0.124
    paid = spent(connection)
    again = opened(ledger="kept.sqlite")
    rows = ask(again, sql, half_width=target)
    assert max((high - low) / 2 for _, low, high, _ in rows) <= target
    assert spent(again) == paid


@pytest.mark.parametrize("measure", one_in(2, BUDGETS))
def test_the_target_is_met_by_more_rows_than_have_laws(tmp_path: Path, measure: str) -> None:
    """Of a statement's rows 64 get an interval by their law, others a bound, which is wider."""
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE people AS SELECT i % 20 AS a, i % 7 AS b, i % 12 AS d"
            " FROM range(3000) t(i)"
        )
        attributes = {
            name: {"range": [0, last]} for name, last in zip("abd", (19, 6, 11), strict=True)
        }
        keys = {
            "tables": {
                "person": {"from": "people", "budget": BUDGETS[measure], "attributes": attributes}
            },
            "defaults": {measure: COSTS[measure]},
        }
        policy = tallyveil.parse_policy(keys, base=tmp_path)
        with tallyveil.connect(policy, source=source) as connection:
            for by in ("a, b, d", "a, b", "b, d"):
                connection.execute(f"SELECT count(*) FROM person GROUP BY {by}")
            connection.execute("SET dp.half_width = 20")
            sql = "SELECT a, d, count(*) FROM person GROUP BY a, d"
            message = connection.execute(sql).notices[0].message
            [widest] = re.findall(r"±([0-9.]+) at 95 %", message)
            assert 19 <= float(widest) <= 20
            again = connection.execute(sql).notices[0].message
            assert again.startswith("answered from history, free")
