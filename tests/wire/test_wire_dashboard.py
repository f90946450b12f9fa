"""A dashboard over the wire: refreshed twenty times at the cost of once."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

REFRESHES = 20

# Each tile in several wordings: people and tools do not ask the same thing twice in the same way.
TILES: tuple[tuple[str, ...], ...] = (
    ("SELECT count(*) FROM person", "SELECT sum(n) FROM (SELECT count(*) AS n FROM person) AS t"),
    (
        "SELECT state, count(*) FROM person GROUP BY state ORDER BY state",
        "SELECT p.state, count(1) FROM person AS p GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT age / 10 AS decade, count(*) FROM person GROUP BY 1 ORDER BY 1",
        "SELECT age / 10, count(*) FROM person WHERE sex = 'F' OR sex = 'M' OR sex IS NULL"
        " GROUP BY age / 10 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM person WHERE state = 'AL' AND married",
        "SELECT count(*) FILTER (WHERE married AND state IN ('AL')) FROM person",
    ),
    (
        "SELECT sex, count(*) FROM person WHERE age >= 65 GROUP BY sex ORDER BY sex",
        "SELECT sex, count(*) FROM person WHERE NOT age < 65 GROUP BY sex ORDER BY sex",
    ),
)


@pytest.mark.parametrize("setting", ["dp.half_width=60", "dp.epsilon=0.05"])
def test_a_dashboard_is_paid_for_once(
    serve: Callable[..., Any], tmp_path: Path, setting: str
) -> None:
    house = serve(budget={"epsilon": 10.0})
    _refresh(house, setting, 0)
    cost = house.spent()
    assert cost > 0
    first = _refresh(house, setting, 0)
    ledger = _digest(tmp_path)  # with how tiles follow from each other, which is kept once
    for number in range(REFRESHES):
        assert _refresh(house, setting, number) == first
    assert house.spent() == cost
    assert _digest(tmp_path) == ledger


def _refresh(house: Any, setting: str, number: int) -> list[list[tuple[Any, ...]]]:
    """Every tile, in a connection of its own, as a pool gives them out."""
    found = []
    for tile in TILES:
        options = f"-c {setting}"
        with psycopg.connect(house.dsn, autocommit=True, options=options) as connection:
            found.append(connection.execute(tile[number % len(tile)].encode()).fetchall())
    return found


def _digest(folder: Path) -> str:
    """Of every row of every table of the ledger."""
    [path] = folder.glob("*.sqlite")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as ledger:
        return hashlib.blake2b("\n".join(ledger.iterdump()).encode()).hexdigest()
