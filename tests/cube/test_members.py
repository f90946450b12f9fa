"""Which units are in which cells: against sets, and from a source."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest

from tallyveil.boundary import issue_receipt, open_answer
from tallyveil.cube import Cube, load_cubes
from tallyveil.cube.cube_loading import cells_in_use
from tallyveil.cube.members import Members
from tallyveil.workload.workload import Column, Workload
from tests import matrices

KEY = bytes(range(32))


@pytest.mark.parametrize("seed", range(40))
def test_units_are_counted_once_in_each_group(seed: int) -> None:
    """Also in groups that overlap, that nobody is in, and of units with numbers of any size."""
    rolled = random.Random(seed)
    cells, places = rolled.randrange(1, 8), rolled.randrange(1, 5)
    names = [rolled.randrange(2**62) for _ in range(6)]
    each = [[rolled.choice(names) for _ in range(rolled.randrange(6))] for _ in range(cells)]
    place = [rolled.randrange(places) for _ in range(cells)]
    dense = [[rolled.choice([0, 0, 1, 3]) for _ in range(places)] for _ in range(4)]
    members = Members.of_cells([np.array(own, dtype=np.int64) for own in each])
    found = members.count(matrices.factor(dense), np.array(place))
    assert found == [
        len({unit for own, p in zip(each, place, strict=True) if row[p] for unit in own})
        for row in dense
    ]
    assert len(members.lengths) == len({unit for own in each for unit in own})
    assert len(members.cells) == sum(len(set(own)) for own in each)


def counted(cube: Cube, column: Column) -> list[int]:
    workload = Workload(cube.domain.table, (column,))
    answer = cube.answer(workload, b"units", units=True)
    return list(open_answer(answer, issue_receipt(1, b"units", [1.0]))[0])


def test_what_is_kept_of_a_source(
    database: duckdb.DuckDBPyConnection, make_policy: Callable[..., Any]
) -> None:
    """Of at most two rows of each unit, and of those in a cell; about five bytes for each."""
    database.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i % 10 > 0 THEN i // 4 END AS unit, i % 4 AS a,"
        " CASE WHEN i % 3 = 0 THEN 'x' WHEN i % 3 = 1 THEN 'y' END AS b FROM range(4000) t(i)"
    )
    axes = {"a": {"range": [0, 2]}, "b": {"values": ["x", "y"]}}
    single, several = (
        load_cubes(make_policy(axes, privacy_unit=unit), database, key=KEY)["t"]
        for unit in ({"column": "unit", "max_rows": n} for n in (1, 2))
    )
    everything, by_b = Column(), matrices.column([[1, 0], [0, 1]], ["b"], [2])
    (total,) = counted(several, everything)
    assert 700 < total < 1000
    assert max(counted(several, by_b)) < total < sum(counted(several, by_b))
    with pytest.raises(ValueError, match="units"):
        counted(single, everything)
    (cells, held) = cells_in_use({"t": several})["t"]
    assert held < cells * 20 + 2000 * 5


def test_all_rows_of_a_unit_are_those_of_a_set(
    database: duckdb.DuckDBPyConnection, make_policy: Callable[..., Any]
) -> None:
    database.execute(
        "CREATE TABLE t AS SELECT hash(i) % 100 AS unit, hash(i + 1) % 3 AS a, 'x' AS b FROM"
        " range(300) t(i)"
    )
    axes = {"a": {"range": [0, 2]}, "b": {"values": ["x", "y"]}}
    policy = make_policy(axes, privacy_unit={"column": "unit", "max_rows": 99})
    cube = load_cubes(policy, database, key=KEY)["t"]
    found = counted(cube, matrices.column(np.eye(3, dtype=int), ["a"], [3]))
    rows = database.execute("SELECT a, count(DISTINCT unit) FROM t GROUP BY a ORDER BY a")
    assert [(a, n) for a, n in enumerate(found)] == rows.fetchall()
    nobody = matrices.column([[0, 1]], ["b"], [2])
    assert counted(cube, nobody) == [0]


def test_a_table_may_be_empty(
    database: duckdb.DuckDBPyConnection, make_policy: Callable[..., Any]
) -> None:
    """Or have no row with a unit and a cell."""
    database.execute("CREATE TABLE t (unit INTEGER, a INTEGER, b VARCHAR)")
    axes = {"a": {"range": [0, 2]}, "b": {"values": ["x", "y"]}}
    policy = make_policy(axes, privacy_unit={"column": "unit", "max_rows": 2})
    for rows in ("", "INSERT INTO t VALUES (NULL, 1, 'x'), (1, 7, 'x'), (2, 0, NULL)"):
        database.execute(rows)
        cube = load_cubes(policy, database, key=KEY)["t"]
        assert counted(cube, Column()) == [0]
        assert counted(cube, matrices.column([[1, 0], [0, 1]], ["b"], [2])) == [0, 0]
