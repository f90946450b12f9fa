"""What a test may do and a release may not: read a cube's counts. And a PostgreSQL to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg
import pytest

from tallyveil.boundary import issue_receipt, open_answer
from tallyveil.cube import Cube
from tallyveil.policy import Policy, parse_policy
from tallyveil.workload.workload import Column, Workload
from tests.cube.test_sources import ROWS


def _identity(cube: Cube, axes: tuple[str, ...]) -> Workload:
    shape = tuple(cube.domain[axis].size for axis in axes)
    cells = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64)
    column = Column.joint(axes, shape, len(cells), cells, cells, np.ones_like(cells))
    return Workload(cube.domain.table, (column,))


@pytest.fixture(scope="session")
def counts() -> Callable[..., list[int]]:
    """counts(cube, *axes): the records of every cell of the axes (all, unless named)."""

    def count(cube: Cube, *axes: str) -> list[int]:
        workload = _identity(cube, axes or cube.domain.names)
        receipt = issue_receipt(1, workload.key, [1.0])
        (values,) = open_answer(cube.answer(workload), receipt)
        return list(values)

    return count


@pytest.fixture(scope="session")
def make_policy() -> Callable[..., Policy]:
    """make_policy(attributes, **keys of the table): a policy for table t."""

    def make(attributes: dict[str, Any], **keys: Any) -> Policy:
        table = {"budget": {"epsilon": 1}, "attributes": attributes, **keys}
        return parse_policy({"tables": {"t": table}})

    return make


@pytest.fixture
def server(postgres: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """A PostgreSQL with people in a schema that holds nothing else."""
    postgres.execute("CREATE SCHEMA data")
    postgres.execute("SET search_path = data")
    postgres.execute("CREATE TABLE people (sex text, age int)")
    with postgres.cursor() as cursor:
        cursor.executemany("INSERT INTO people VALUES (%s, %s)", ROWS)
    yield postgres
    postgres.execute("RESET ALL")
    postgres.execute("DROP SCHEMA data CASCADE")
