"""SQL pairs: what each construct becomes, and how each refusal reads.

``fixtures/plans.sql`` and, with public tables and views, ``fixtures/relations.sql``: a title, a
statement, and its plan (see `plans.describe`).
``fixtures/refusals.sql``: statements, each with a caret under the place the error points at, and
their error.

``--write-fixtures`` puts what there is now in the place of what is expected, to be read before a
commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallyveil.errors import StatementError
from tallyveil.rewriter import Dialect
from tests.rewriter.plans import describe
from tests.rewriter.surface import World as Surface
from tests.rewriter.world import World

_FIXTURES = Path(__file__).with_name("fixtures")
_ERROR = re.compile("[0-9A-Z]{5} ")


def _plans(name: str) -> Iterator[object]:
    for block in (_FIXTURES / name).read_text().strip().split("\n\n"):
        title, statement, *plan = block.split("\n", 2)
        yield pytest.param(statement, "".join(plan), id=title.removeprefix("-- "))


def _refusals() -> Iterator[tuple[Dialect, str, str]]:
    dialect: Dialect = "postgres"
    for block in (_FIXTURES / "refusals.sql").read_text().strip().split("\n\n"):
        if block.startswith("-- dialect"):
            dialect = "duckdb" if block.endswith("duckdb") else "postgres"
            continue
        lines = block.splitlines()
        first = next(n for n, line in enumerate(lines) if _ERROR.match(line))
        for number, line in enumerate(lines[:first]):
            if line.strip() != "^":
                caret = [one for one in lines[number + 1 : first][:1] if one.strip() == "^"]
                yield dialect, line, "\n".join([*caret, *lines[first:]])


@pytest.mark.parametrize(("statement", "expected"), list(_plans("plans.sql")))
def test_plan(world: World, request: pytest.FixtureRequest, statement: str, expected: str) -> None:
    found = describe(world.plan(statement))
    if request.config.getoption("--write-fixtures"):
        _write("plans.sql", statement, expected, found)
    else:
        assert found == expected


@pytest.mark.parametrize(("statement", "expected"), list(_plans("relations.sql")))
def test_plan_with_relations(
    surface: Surface,
    request: pytest.FixtureRequest,
    statement: str,
    expected: str,
) -> None:
    found = describe(surface.plan(statement, "postgres"))
    if request.config.getoption("--write-fixtures"):
        _write("relations.sql", statement, expected, found)
    else:
        assert found == expected


def _write(name: str, statement: str, expected: str, found: str) -> None:
    """The plan of one statement anew."""
    text = (_FIXTURES / name).read_text()
    before = f"{statement}\n{expected}" if expected else statement
    assert text.count(f"\n{before}\n") == 1
    (_FIXTURES / name).write_text(text.replace(f"\n{before}\n", f"\n{statement}\n{found}\n"))


@pytest.mark.parametrize("part", range(10))
def test_refusals(world: World, part: int) -> None:
    for dialect, statement, expected in list(_refusals())[part::10]:
        with pytest.raises(StatementError) as caught:
            world.plan(statement, dialect)
        assert _written(caught.value) == expected, statement


def _written(error: StatementError) -> str:
    lines = [f"{error.sqlstate} {error.message}"]
    if error.position is not None:
        lines.insert(0, " " * (error.position - 1) + "^")
    if error.detail:
        lines.append(f"DETAIL {error.detail}")
    if error.hint:
        lines.append(f"HINT {error.hint}")
    return "\n".join(lines)
