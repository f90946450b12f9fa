"""`tallyveil history`: the charges, and what was spent after each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tallyveil.cli.app import app
from tallyveil.cli.demo_data import copy_example, write_people


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    write_people(tmp_path / "people.parquet", 500)
    return copy_example(tmp_path)


def shell(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_odometer_composes_as_the_budget_does(policy: Path) -> None:
    women, men, all_of_them = (
        f"SELECT count(*) FROM person WHERE sex {predicate}"
        for predicate in ("= 'F'", "= 'M'", "IS NOT NULL")
    )
    for query, epsilon in ((women, "0.5"), (men, "0.25"), (all_of_them, "0.125")):
        assert shell("sql", policy, query, "--epsilon", epsilon).exit_code == 0
    rows = json.loads(shell("history", policy, "person", "--json").stdout)
    assert [(r["statement"], r["cost"], r["spent"]) for r in rows] == [
        (women, 0.5, 0.5),
        (men, 0.25, 0.5),
        (all_of_them, 0.125, 0.625),
    ]
    [balance] = json.loads(shell("budget", policy, "--json").stdout)
    assert rows[-1]["spent"] == balance["spent"]
    assert "WHERE sex = 'F'" in shell("history", policy).stdout


def test_looking_leaves_no_trace(policy: Path) -> None:
    found = shell("history", policy, "person")
    assert found.exit_code == 0
    assert "(0 rows)" in found.stdout
    assert not list(policy.parent.glob("*ledger*"))
    assert "no protected table" in shell("history", policy, "nobody").stderr


def test_it_can_be_drawn(policy: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawing is an extra")
    shell("sql", policy, "SELECT count(*) FROM person")
    assert shell("history", policy, "--plot", tmp_path / "s.svg").exit_code == 0
    assert "<svg" in (tmp_path / "s.svg").read_text()


def test_without_matplotlib_it_says_what_to_install(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    found = shell("history", policy, "--plot", tmp_path / "s.svg")
    assert found.exit_code == 1
    assert "pip install 'tallyveil[plot]'" in found.stderr
