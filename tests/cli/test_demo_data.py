"""The demo's people are the same every time, and the example policy fits them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from tallyveil.cli.demo_data import copy_example, write_people
from tallyveil.cube import load_cubes
from tallyveil.policy import load_policy

ROWS = 5_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo")
    copy_example(path)
    write_people(path / "people.parquet", ROWS)
    return path


def test_the_same_people_every_time(folder: Path) -> None:
    write_people(folder / "again.parquet", ROWS)
    people, again = (f"FROM '{folder}/{name}.parquet'" for name in ("people", "again"))
    differences = duckdb.sql(
        f"({people} EXCEPT ALL {again}) UNION ALL ({again} EXCEPT ALL {people})"
    )
    assert differences.fetchall() == []
    assert duckdb.sql(f"SELECT count(*) {people}").fetchall() == [(ROWS,)]


def test_the_people_are_untidy(folder: Path) -> None:
    people = f"FROM '{folder}/people.parquet'"
    for condition in ("sex IS NULL", "education = 'trade'", "income IS NULL", "income > 250000"):
        assert duckdb.sql(f"SELECT 1 {people} WHERE {condition} LIMIT 1").fetchall(), condition


def test_the_example_policy_counts_everybody(folder: Path) -> None:
    policy = load_policy(folder / "people.toml")
    person = policy.tables["person"]
    assert person.domain.complete
    assert person.budget.epsilon == 3
    assert policy.defaults.epsilon == Fraction(1, 20)
    assert policy.ledger == folder / "people.ledger.sqlite"
    cube = load_cubes(policy, key=b"key")["person"]
    assert repr(cube).startswith("Cube(person: state, county, age, sex, education, income; ")
