"""Generated SQL is planned alike whether DuckDB evaluates every part of it or only what it must."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tallyveil.errors import TallyveilError
from tallyveil.rewriter import Dialect
from tallyveil.rewriter.domain.parts import ComponentParts
from tests.corpora.house import House
from tests.corpora.lab import case


def planned(house: House, sql: str, dialect: Dialect) -> Any:
    """Row keys, groups and types of everything the statement asks; or its refusal."""
    cursor = house.gate.database.cursor()
    try:
        plan = house.gate.rewriter.plan(sql, dialect, cursor)
    except TallyveilError as error:
        return error.sqlstate, error.message, error.detail
    finally:
        cursor.close()
    workloads = {
        table: [(c.multiplier, c.row_keys) for c in workload.columns]
        for table, workload in plan.workloads.items()
    }
    noisy = [
        (t.keys, t.height, [(o.table, o.column, o.type) for o in t.outputs]) for t in plan.noisy
    ]
    rows = [[None if o.rows is None else o.rows.tolist() for o in t.outputs] for t in plan.noisy]
    return workloads, noisy, rows, plan.sql, plan.cautions


def run(house: House, seeds: range) -> None:
    for seed in seeds:
        asked = case(seed, 1 + seed % 5)
        ours = planned(house, asked.statement.sql, asked.dialect)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ComponentParts, "find", lambda *_: None)
            assert planned(house, asked.statement.sql, asked.dialect) == ours, asked.statement.sql


def test_plans(house: House) -> None:
    """Others each day."""
    first = 300_000 + 40 * int(time.time() // 86_400)
    run(house, range(first, first + 40))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(310_000, 320_000, 1_000))
def test_plans_long(house: House, start: int) -> None:
    run(house, range(start, start + 1_000))
