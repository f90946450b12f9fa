"""Joins with several public tables, each evaluated over its own attributes, against the raw rows:
keys that are unique or not, missing or unknown, and tables joined to each other.
"""

from __future__ import annotations

import random

import pytest

from tallyveil.errors import StatementError
from tallyveil.rewriter.domain import evaluate
from tests.rewriter.surface import World
from tests.rewriter.world import normal

JOINS = {
    "r": ["JOIN region r ON p.state = r.code", "LEFT JOIN region r ON r.code = p.state",
          "LEFT JOIN region r ON r.code = p.state AND r.pop > 10", ", region r",
          "JOIN region r ON r.code = p.state AND p.sex = 'F'", "JOIN region r ON r.pop > 25",
          "LEFT JOIN region r ON r.code = p.state AND p.age > 3"],
    "b": ["JOIN band b ON p.age BETWEEN b.low AND b.high", "CROSS JOIN band b",
          "LEFT JOIN band b ON b.low = p.age", "JOIN band b ON p.age = b.low AND p.married"],
    "s": ["JOIN state_name s ON s.state = p.state", "LEFT JOIN state_name s USING (state)",
          "LEFT JOIN state_name s ON s.state = r.code", "JOIN state_name s ON s.state = r.code",
          "JOIN state_name s ON s.state = r.code AND b.label <> 'old'"],
}  # fmt: skip
CONDITIONS = [
    "p.sex = 'F'", "r.pop > 15", "r.code = p.state", "b.label <> 'old'", "s.name IS NULL",
    "p.age > b.low", "p.age % 2 = 0", "r.region < b.label", "(p.married OR r.pop < 20)",
    "EXISTS (SELECT 1 FROM band x WHERE x.low = p.age OR x.high < r.pop)", "1 = 1",
]  # fmt: skip
KEYS = [
    "r.region",
    "b.label",
    "s.name",
    "p.sex",
    "p.age % 3",
    "r.pop > p.age",
    "coalesce(b.low, r.pop)",
]
OUTPUTS = [
    "count(*)", "count(r.pop)", "sum(p.age)", "sum(r.pop)", "sum(p.age * r.pop)", "avg(b.high)",
    "count(*) FILTER (WHERE p.sex = 'F' AND b.label = 'child')", "count(s.name) - 2 * sum(p.age)",
    "sum(CASE WHEN r.region = 'deep' THEN p.age ELSE 0 END)", "sum(b.low - r.pop)", "count(p.sex)",
]  # fmt: skip


def drawn(source: random.Random) -> str:
    """A statement over some of the tables; not always one that is correct."""
    names = [name for name in JOINS if source.random() < 0.75]
    joins = sorted((source.choice(JOINS[name]) for name in names), key=lambda j: j[0] != ",")

    def some(choices: list[str], most: int) -> list[str]:
        missing = {"r.", "b.", "s."} - {f"{name}." for name in names}
        own = [one for one in choices if not any(part in one for part in missing)]
        return source.sample(own, min(len(own), source.randint(0, most)))

    keys, conditions = some(KEYS, 2), some(CONDITIONS, 3)
    items = [*keys, *(some(OUTPUTS, 3) or ["count(*)"])]
    sql = f"SELECT {', '.join(items)} FROM person p {' '.join(joins)}"
    if conditions:
        sql += " WHERE " + " AND ".join(conditions)
    if keys:
        sql += f" GROUP BY {', '.join(keys)} HAVING count(*) > 0"
    return sql


@pytest.mark.parametrize("seed", range(4))
def test_joins_are_answered_as_the_raw_rows_are(
    surface: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # each aggregate by itself, as where they have many cells together
        monkeypatch.setattr(evaluate, "_FEW_CELLS", 0)
    source, answered = random.Random(seed), 0
    for _ in range(12):
        sql = drawn(source)
        try:
            ours = surface.exact(sql)
        except StatementError:
            with pytest.raises(Exception, match="Error"):  # DuckDB refuses it as well
                surface.direct(sql)
            continue
        theirs = surface.direct(sql)
        # A sum of nothing is 0 here, and NULL in SQL.
        ours, theirs = ([tuple(v or 0 for v in row) for row in rows] for rows in (ours, theirs))
        assert normal(ours) == normal(theirs), sql
        answered += 1
    assert answered >= 8


def test_groups_with_the_same_cells_are_the_same_for_each_aggregate(
    surface: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two regions have the same state, and the sum ties both tables together."""
    monkeypatch.setattr(evaluate, "_FEW_CELLS", 0)
    sql = """SELECT r.region, b.label, count(*), sum(b.low - r.pop) FROM person p
        JOIN region r ON r.code = p.state JOIN band b ON b.low = p.age GROUP BY 1, 2"""
    assert normal(surface.exact(sql)) == normal(surface.direct(sql))
