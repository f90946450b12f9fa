"""`tallyveil history`: the charges, and what was spent after each."""

from __future__ import annotations

import json
from pathlib import Path

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
