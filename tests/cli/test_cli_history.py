"""`tallyveil history`: the charges, and what was spent after each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.shell import shell


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


def test_it_can_be_drawn(policy: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawing is an extra")
    shell("sql", policy, "SELECT count(*) FROM person")
    assert shell("history", policy, "--plot", tmp_path / "s.svg").exit_code == 0
    assert "<svg" in (tmp_path / "s.svg").read_text()


GM = ("mechanism", "show", "GM", "--n", "4", "--alpha", "0.9")


@pytest.mark.parametrize(
    "asked", [("history",), ("history", "--posterior", "SELECT count(*) FROM person"), GM]
)
def test_without_matplotlib_it_says_what_to_install(
    policy: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    about = (policy,) if asked[0] == "history" else ()
    found = shell(*asked, *about, "--plot", policy.parent / "s.svg")
    assert found.exit_code == 1
    assert "pip install 'tallyveil[plot]'" in found.stderr
