"""`tallyveil sanitise`, from the command line to free queries on the copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import shell, spent


@pytest.fixture
def policy(policy: Path) -> Path:
    policy.write_text(policy.read_text().replace('"add_remove"', '"replace"'))
    return policy


def test_from_the_table_to_free_queries(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "people copy.parquet"
    arguments = ("sanitise", policy, "person", "--epsilon", "2.4", "--columns", "sex,age,state")
    dry = shell(*arguments, "--out", out, "--dry-run")
    assert dry.exit_code == 0
    assert "Nothing was charged" in dry.stdout
    assert spent(policy) == 0
    found = shell(*arguments, "--out", out)
    assert found.exit_code == 0, found.stderr
    assert spent(policy) == 2.4
    table, lines = found.stdout.split("To serve them, add to the policy:\n")
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()[2:5]]
    assert [row[0] for row in rows] == ["state", "age", "sex"]
    for _, mechanism, epsilon, expected, least, _ in rows:
        assert (mechanism, epsilon) == ("randomised response", "0.8")
        assert float(expected) == float(least)
    with policy.open("a") as file:
        file.write(lines)
    query = "SELECT count(*) AS n FROM people_copy WHERE age < 200 OR age IS NULL"
    asked = shell("sql", policy, query, "--json")
    assert json.loads(asked.stdout)["rows"] == [[2000]]
    assert json.loads(asked.stdout)["notices"] == []
    both = "SELECT d.column_name, count(*) FROM dp.debiased AS d JOIN dp.sanitised AS s "
    both += "ON s.column_name = d.column_name GROUP BY 1 ORDER BY 1"
    counted = json.loads(shell("sql", policy, both, "--json").stdout)
    assert counted["rows"] == [["age", 117], ["sex", 4], ["state", 52]]
    assert spent(policy) == 2.4


def test_json_says_the_same(policy: Path, tmp_path: Path) -> None:
    found = shell(
        "sanitise", policy, "person", "--epsilon", "2", "--columns", "age,sex,state", "--laplace",
        "age", "--together", "sex+state", "--split", "age=1.5", "--out", tmp_path / "c.parquet",
        "--json",
    )  # fmt: skip
    document = json.loads(found.stdout)
    assert document["records"] == 2000
    assert document["epsilon"] == 2
    joint, age = document["parts"]
    assert (joint["columns"], joint["epsilon"]) == ("state+sex", 0.5)
    assert (age["mechanism"], age["epsilon"]) == ("laplace", 1.5)
    assert age["expected_error"] > age["least_error"] > 0
    assert document["policy"] == '[public.c]\nurl = "c.parquet"'


def test_a_delta_is_charged_as_the_epsilon_it_is_worth(policy: Path, tmp_path: Path) -> None:
    arguments = ("sanitise", policy, "person", "--epsilon", "1", "--delta", "0.1", "--columns")
    found = shell(*arguments, "sex", "--out", tmp_path / "c.parquet", "--json")
    document = json.loads(found.stdout)
    assert document["epsilon"] == pytest.approx(1.105361, abs=1e-6)
    assert (document["delta"], document["epsilon_at_delta"]) == (0.1, 1)
    assert spent(policy) == pytest.approx(1.105361, abs=1e-6)
    dry = shell(*arguments, "sex", "--out", tmp_path / "d.parquet", "--dry-run")
    # −ln 0.9 = 0.10536052: nothing that is said of a cost is less than it.
    assert "(1, 0.1)-private, since it is 1.105361-private" in dry.stdout
    assert "would cost epsilon 1.105361 of" in dry.stdout


def test_whether_somebody_is_in_the_table_is_not_given_away(policy: Path, tmp_path: Path) -> None:
    policy.write_text(policy.read_text().replace('"replace"', '"add_remove"'))
    found = shell("sanitise", policy, "person", "--epsilon", "1", "--out", tmp_path / "c.parquet")
    assert found.exit_code == 1
    assert found.stderr.startswith("ERROR 0A000: person cannot be copied")
    assert not (tmp_path / "c.parquet").exists()
