"""A unit moves the counts by at most max_rows, whatever its rows and whoever else is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyveil.cube import load_cubes
from tallyveil.errors import SourceError

Load = Callable[[list[Any], Any], Any]
AXES: dict[str, Any] = {"a": {"range": [0, 2]}, "b": {"values": ["x", "y"], "nullable": True}}
rows = st.lists(
    st.tuples(
        st.sampled_from([None, "p", "P", "q", "r"]),
        st.integers(-1, 3),
        st.sampled_from(["x", "y", "z", None]),
    ),
    max_size=25,
)


@pytest.fixture
def load(database: duckdb.DuckDBPyConnection) -> Load:
    def load(records: list[Any], policy: Any) -> Any:
        columns = "unit VARCHAR COLLATE NOCASE, a INTEGER, b VARCHAR"
        database.execute(f"CREATE OR REPLACE TABLE t ({columns})")
        if records:
            rows = ", ".join(["(?, ?, ?)"] * len(records))
            database.execute(f"INSERT INTO t VALUES {rows}", [x for row in records for x in row])
        return load_cubes(policy, database)["t"]

    return load


def cell(record: tuple[Any, ...]) -> tuple[int, int] | None:
    _, a, b = record
    b_cell = {"x": 0, "y": 1, None: 2}.get(b)
    return (a, b_cell) if 0 <= a <= 2 and b_cell is not None else None


def oracle(records: list[Any], most: int) -> list[int]:
    """The first ``most`` cells of each unit, in the order of the cells."""
    by_unit: dict[str, list[tuple[int, int]]] = {}
    for record in records:
        found = cell(record)
        if record[0] is not None and found is not None:
            by_unit.setdefault(record[0], []).append(found)
    kept = Counter(c for cells in by_unit.values() for c in sorted(cells)[:most])
    return [kept[a, b] for a in range(3) for b in range(3)]


relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(records=rows, most=st.integers(1, 4))
def test_which_rows_are_counted(
    records: list[Any],
    most: int,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
    load: Load,
) -> None:
    policy = make_policy(AXES, privacy_unit={"column": "unit", "max_rows": most})
    assert counts(load(records, policy)) == oracle(records, most)


@relaxed
@given(records=rows, most=st.integers(1, 3), unit=st.sampled_from(["p", "P", "q"]))
def test_removing_a_unit_moves_at_most_max_rows(
    records: list[Any],
    most: int,
    unit: str,
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Any],
    load: Load,
) -> None:
    policy = make_policy(AXES, privacy_unit={"column": "unit", "max_rows": most})
    with_unit = counts(load(records, policy))
    without = counts(load([r for r in records if r[0] != unit], policy))
    assert all(x >= y for x, y in zip(with_unit, without, strict=True))
    assert sum(with_unit) - sum(without) <= most


def test_the_unit_needs_its_column(make_policy: Callable[..., Any], load: Load) -> None:
    policy = make_policy(AXES, privacy_unit={"column": "person", "max_rows": 1})
    with pytest.raises(SourceError, match=r"tables\.t\.privacy_unit\.column: .* no column person"):
        load([], policy)
