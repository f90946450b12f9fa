"""`tallyveil plan` and `tallyveil warm`: a dashboard's statements, bought together."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import shell, spent

NESTED = (
    "SELECT count(*) AS n FROM person",
    "SELECT count(*) AS n FROM person WHERE age < 18",
    "SELECT count(*) AS n FROM person WHERE age < 65",
)


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "board.sql"
    path.write_text(";\n".join(NESTED))
    return path


def documents(*arguments: object) -> list[dict[str, Any]]:
    found = shell(*arguments, "--json")
    assert found.exit_code == 0, found.stdout + found.stderr
    read = json.loads(found.stdout)
    return read if isinstance(read, list) else [read]


def deviations(policy: Path) -> list[float]:
    """Of the answers to the nested counts, if they are asked now."""
    sql = ";".join(NESTED).replace("count(*) AS n", "dp_stddev(count(*))")
    found = shell("sql", policy, sql, "--json").stdout
    return [float(json.loads(line)["rows"][0][0]) for line in found.splitlines()]


def test_nested_counts_cost_less_together_and_are_free_then(policy: Path, board: Path) -> None:
    """Three disjoint parts of scale b: the total has three times their variance, as much as alone
    at b = 20 if b = 20/√3. So they cost √3 · 0.05 instead of 3 · 0.05."""
    [planned] = documents("plan", policy, "--for", board)
    assert planned["one_by_one"] == pytest.approx(0.15)
    assert planned["together"] == pytest.approx(0.05 * math.sqrt(3), rel=2e-3)
    assert spent(policy) == 0
    [found] = documents("warm", policy, "--for", board)
    assert (found["statements"], found["rows"], found["free"]) == (3, 3, 3)
    assert found["paid"] == planned["together"]
    assert spent(policy) == pytest.approx(found["paid"])
    alone = math.sqrt(2 * 20**2)
    assert max(deviations(policy)) <= alone
    assert spent(policy) == pytest.approx(found["paid"])
    [again] = documents("warm", policy, "--for", board)
    assert (again["paid"], again["free"]) == (0, 3)


def test_the_plan_has_the_errors_that_are_bought(policy: Path, board: Path) -> None:
    [planned] = documents("plan", policy, "--for", board)
    row = next(one for one in planned["errors"] if one["cost"] == planned["together"])
    documents("warm", policy, "--for", board)
    each = deviations(policy)
    assert row["worst"] == pytest.approx(max(each), rel=1e-4)
    assert row["total"] == pytest.approx(math.hypot(*each), rel=1e-4)
    assert row["total"] < row["total_as_asked"]


def test_statements_that_gain_nothing_together_are_bought_as_asked(
    policy: Path, tmp_path: Path
) -> None:
    path = tmp_path / "one.sql"
    path.write_text("SET dp.epsilon = 0.1; SELECT sex, count(*) FROM person GROUP BY sex")
    [found] = documents("warm", policy, "--for", path)
    assert (found["paid"], found["one_by_one"], found["free"]) == (0.1, 0.1, 1)


def test_grouping_sets_are_bought_by_strategies_and_free_then(policy: Path, tmp_path: Path) -> None:
    path = tmp_path / "cube.sql"
    path.write_text(
        "SELECT sex, state, count(*) FROM person GROUP BY CUBE (sex, state);"
        "SELECT sex, age, count(*) FROM person GROUP BY ROLLUP (sex, age)"
    )
    [planned] = documents("plan", policy, "--for", path)
    [found] = documents("warm", policy, "--for", path)
    assert found["paid"] <= planned["one_by_one"]
    assert found["free"] == 2
    assert spent(policy) == pytest.approx(found["paid"])


def test_a_cost_may_be_given(policy: Path, board: Path) -> None:
    [found] = documents("warm", policy, "--for", board, "--epsilon", "0.03")
    assert found["paid"] == pytest.approx(0.03)
    assert found["free"] == 0
    asked = shell("sql", policy, NESTED[0], "--source", "history")
    assert "answered from history" in asked.stderr
    assert spent(policy) == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("SELECT 1", (), "asks nothing about a protected table"),
        ("SELECT count(*) FROM nobody", (), 'relation "nobody" does not exist'),
        ("BEGIN; SELECT count(*) FROM person", (), "BEGIN is no statement of a dashboard"),
        (NESTED[0], ("--rho", "0.1"), 'the budget of table "person" is of epsilon'),
        (NESTED[0], ("--epsilon", "none"), "--epsilon none is no cost"),
        (NESTED[0], ("--epsilon", "99"), "99"),
        (f"SET dp.source = fresh; {NESTED[0]}", (), "answers anything later"),
        (
            "SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person)",
            (),
            "compare with answers is not bought with others",
        ),
        (
            f"{NESTED[0]}; SET dp.mechanism = laplace; {NESTED[1]}",
            (),
            "must have the same settings: mechanism differs",
        ),
    ],
)
def test_what_cannot_be_bought_is_refused_and_costs_nothing(
    policy: Path, tmp_path: Path, text: str, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "wrong.sql"
    path.write_text(text)
    found = shell("warm", policy, "--for", path, *options)
    assert found.exit_code == 1
    assert message in found.stderr
    assert spent(policy) == 0


def test_a_picture_is_drawn(policy: Path, board: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "board.svg"
    assert shell("plan", policy, "--for", board, "--output", drawn).exit_code == 0
    assert drawn.read_text().lstrip().startswith("<?xml")
    wrong = shell("plan", policy, "--for", board, "--output", tmp_path / "board.txt")
    assert wrong.exit_code == 1
    assert ".svg, .png, .pdf" in wrong.stderr
    missing = shell("plan", policy, "--for", tmp_path / "none.sql")
    assert "cannot be read" in missing.stderr
