"""`tallyveil warm`, from what it would give to free answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tallyveil.cli import warming
from tests.cli.shell import shell, spent

WARM = ("person", "--strategy", "marginals:2", "--attributes", "sex,education,age")


def test_what_was_warmed_up_is_free(policy: Path) -> None:
    dry = json.loads(shell("warm", policy, *WARM, "--epsilon", "0.3", "--dry-run", "--json").stdout)
    assert (dry["cost"], dry["released"], dry["counts"]) == (0.3, False, 117 * 4 + 117 * 8 + 32)
    assert spent(policy) == 0
    done = json.loads(shell("warm", policy, *WARM, "--epsilon", "0.3", "--yes", "--json").stdout)
    assert done["released"]
    assert spent(policy) == 0.3
    query = "SELECT education, sex, count(*) AS n FROM person GROUP BY 1, 2"
    asked = shell("sql", policy, query, "--epsilon", "0.1", "--json")
    [notice] = json.loads(asked.stdout)["notices"]
    assert notice["message"].startswith("answered from history, free; ")
    stated = re.search(r"interval ±([0-9.]+) at", notice["message"])
    # All marginals together say a little more than the one that was looked at.
    assert stated
    assert 0.95 <= float(stated[1]) / dry["typical"][0]["half_width"] <= 1
    added = f"SELECT sex, sum(n) FROM ({query}) AS t GROUP BY sex"
    assert shell("sql", policy, added).exit_code == 0
    assert spent(policy) == 0.3
    again = shell("warm", policy, *WARM, "--epsilon", "0.3", "--yes")
    assert "This costs nothing." in again.stdout
    assert spent(policy) == 0.3


def test_a_tree_answers_its_intervals(policy: Path) -> None:
    found = shell("warm", policy, "person", "--strategy", "tree:age:10", "--epsilon", "2", "--yes")
    assert found.exit_code == 0, found.stderr
    query = "SELECT count(*) FROM person WHERE age BETWEEN 30 AND 39"
    asked = shell("sql", policy, query, "--epsilon", "0.5", "--json")
    assert "answered from history, free" in json.loads(asked.stdout)["notices"][0]["message"]
    everybody = "SELECT count(*) FROM person WHERE age IS NOT NULL"
    [[count]] = json.loads(shell("sql", policy, everybody, "--json").stdout)["rows"]
    assert 1500 < count <= 2100
    assert spent(policy) == 2


def test_on_a_terminal_it_asks_first(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("warm", policy, "person", "--strategy", "tree:age", "--epsilon", "0.1")
    nobody = shell(*arguments)
    assert nobody.exit_code == 1
    assert "Add --yes to spend" in nobody.stderr
    monkeypatch.setattr(warming, "_on_a_terminal", lambda: True)
    declined = shell(*arguments, typed="n\n")
    assert "Nothing was charged." in declined.stdout
    assert spent(policy) == 0
    agreed = shell(*arguments, typed="y\n")
    assert "Released." in agreed.stdout
    assert spent(policy) == 0.1


def test_a_refusal_says_how_much_is_left(policy: Path) -> None:
    tree = ("warm", policy, "person", "--strategy", "tree:age", "--yes")
    assert shell(*tree, "--epsilon", "0.7").exit_code == 0
    found = shell(*tree, "--epsilon", "2.6")
    hint = re.search(r"HINT: Give --epsilon ([\d.]+) or less;", found.stderr)
    assert hint is not None
    assert float(hint[1]) == pytest.approx(2.3)
    assert shell(*tree, "--epsilon", hint[1]).exit_code == 0
    assert "HINT: Nothing remains" in shell(*tree, "--epsilon", "2.5").stderr


def test_only_noise_that_is_added_will_do(policy: Path) -> None:
    named = 'mechanisms = ["fair(n=20)"]\nbudget'
    policy.write_text(policy.read_text().replace("\nbudget", f"\n{named}", 1))
    found = shell("warm", policy, *WARM, "--epsilon", "1", "--yes")
    assert "HINT: Add laplace or gaussian to the table's mechanisms" in found.stderr


def test_inference_control_holds_for_it(policy: Path) -> None:
    text = policy.read_text()
    limit = "inference_control = { min_half_width = 40 }\nbudget"
    assert "\nbudget" in text
    policy.write_text(text.replace("\nbudget", f"\n{limit}", 1))
    for more in ("--dry-run", "--yes"):
        tree = ("person", "--strategy", "tree:county:4", "--epsilon", "2")
        found = shell("warm", policy, *tree, more)
        assert found.exit_code == 1
        assert "ERROR 42501: the inference control" in found.stderr
        assert "HINT: Release it at a lower cost, about 1/" in found.stderr
    assert spent(policy) == 0
