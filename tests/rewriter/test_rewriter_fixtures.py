"""SQL pairs: what each construct becomes, and how each refusal reads.

``fixtures/plans.sql``: a title, a statement, and its plan (see `plans.describe`).
``fixtures/refusals.sql``: a statement, a caret under the place the error points at, and the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rewriter_plans import describe
from rewriter_world import World

from tallyveil.errors import StatementError
from tallyveil.rewriter import Dialect

_FIXTURES = Path(__file__).with_name("fixtures")


def _plans() -> Iterator[tuple[str, str, str]]:
    for block in (_FIXTURES / "plans.sql").read_text().strip().split("\n\n"):
        title, statement, expected = block.split("\n", 2)
        yield title.removeprefix("-- "), statement, expected


def _refusals() -> Iterator[tuple[Dialect, str, str]]:
    dialect: Dialect = "postgres"
    for block in (_FIXTURES / "refusals.sql").read_text().strip().split("\n\n"):
        if block.startswith("-- dialect"):
            dialect = "duckdb" if block.endswith("duckdb") else "postgres"
            continue
        statement, expected = block.split("\n", 1)
        yield dialect, statement, expected


@pytest.mark.parametrize(
    ("statement", "expected"), [pytest.param(s, e, id=t) for t, s, e in _plans()]
)
def test_plan(world: World, statement: str, expected: str) -> None:
    assert describe(world.plan(statement)) == expected


@pytest.mark.parametrize(("dialect", "statement", "expected"), list(_refusals()))
def test_refusal(world: World, dialect: Dialect, statement: str, expected: str) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(statement, dialect)
    assert _written(caught.value) == expected


def _written(error: StatementError) -> str:
    lines = [f"{error.sqlstate} {error.message}"]
    if error.position is not None:
        lines.insert(0, " " * (error.position - 1) + "^")
    if error.detail:
        lines.append(f"DETAIL {error.detail}")
    if error.hint:
        lines.append(f"HINT {error.hint}")
    return "\n".join(lines)
