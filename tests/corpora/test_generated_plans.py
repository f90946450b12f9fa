"""Generated SQL is planned alike whether DuckDB evaluates every part of it or only what it must."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tallyveil.errors import TallyveilError
from tallyveil.rewriter import Dialect
from tallyveil.rewriter.domain.component_parts import ComponentParts
from tests.corpora.house import House
from tests.corpora.lab import case
from tests.rewriter.plans import meaning


def planned(house: House, sql: str, dialect: Dialect) -> Any:
    """What the plan means, whatever order the workload has; or the refusal."""
    cursor = house.gate.database.cursor()
    try:
        tables, _, rest = meaning(house.gate.rewriter.plan(sql, dialect, cursor))
        return tables, rest
    except TallyveilError as error:
        return f"{error.sqlstate} {error.message} {error.detail}"
    finally:
        cursor.close()


def run(house: House, seeds: range) -> None:
    for seed in seeds:
        asked = case(seed, 1 + seed % 5)
        sql, dialect = asked.statement.sql, asked.dialect
        ours = planned(house, sql, dialect)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ComponentParts, "find", lambda *_: None)
            assert planned(house, sql, dialect) == ours, sql


def test_plans(house: House) -> None:
    """Others each day."""
    first = 300_000 + 25 * int(time.time() // 86_400)
    run(house, range(first, first + 25))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(310_000, 320_000, 1_000))
def test_plans_long(house: House, start: int) -> None:
    run(house, range(start, start + 1_000))
