"""Values that are a column of a public table: matched by value, and part of the declarations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer.testing

import tallyveil
from tallyveil.cli.app import app
from tallyveil.errors import LedgerError, PolicyError, SourceError, UndefinedColumn

REGIONS = "SELECT * FROM (VALUES (7, 'x'), (3, 'y'), (NULL, 'z'), (7, 'w')) AS v (code, name)"
PEOPLE = "SELECT unnest(['7', '07', '3', ' 7.0', '5', 'x', NULL]) AS region"
POLICY = """
[source]
url = "house.duckdb"
[tables.person]
from = "people"
budget = { epsilon = 1e6 }
attributes.region = { values_from = "region.code", other = true }
[public.region]
from = "regions"
[defaults]
epsilon = 1e4
"""


def house(folder: Path, regions: str = REGIONS, policy: str = POLICY) -> Path:
    (folder / "house.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(folder / "house.duckdb")) as connection:
        connection.execute(f"CREATE TABLE regions AS {regions}")
        connection.execute(f"CREATE TABLE people AS {PEOPLE}")
    (folder / "policy.toml").write_text(policy)
    return folder / "policy.toml"


def counted(policy: Path) -> Any:
    with tallyveil.connect(policy) as connection:
        return connection.execute("SELECT region, count(*) FROM person GROUP BY 1").fetchall()


def test_records_are_matched_by_value(tmp_path: Path) -> None:
    """A NULL and a second 7 of the public table are no more values."""
    assert counted(house(tmp_path)) == [(3, 1), (7, 3), (None, 3)]


def test_another_order_is_the_same_policy_and_another_value_is_not(tmp_path: Path) -> None:
    counted(house(tmp_path))
    counted(house(tmp_path, f"{REGIONS} ORDER BY name"))
    with pytest.raises(LedgerError):
        counted(house(tmp_path, f"{REGIONS} UNION ALL SELECT 8, 'v'"))
    with pytest.raises(LedgerError):
        counted(house(tmp_path, f"{REGIONS} WHERE code = 3"))


def test_every_command_knows_the_values(tmp_path: Path) -> None:
    policy, shell = house(tmp_path), typer.testing.CliRunner()
    counted(policy)
    for command in (["check"], ["check", "--source"], ["budget"], ["history"]):
        found = shell.invoke(app, [command[0], str(policy), *command[1:], "--json"])
        assert found.exit_code == 0, found.output
        if command == ["check"]:
            assert "region: 2 values, INTEGER" in json.loads(found.stdout)["summary"][2]


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ("SELECT 1.5 AS code", "declare bins"),
        ("SELECT NULL::INTEGER AS code", "it is empty"),
        ("SELECT 1 AS other", "region has no column code"),
    ],
)
def test_what_cannot_be_values_is_named(tmp_path: Path, regions: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        counted(house(tmp_path, regions))


def test_only_public_tables_give_values(tmp_path: Path) -> None:
    """Values from a protected table would publish its records."""
    wrong = POLICY.replace("region.code", "person.region")
    with pytest.raises(PolicyError) as caught:
        counted(house(tmp_path, policy=wrong))
    assert "there is no [public.person]" in str(caught.value.mistakes)


def test_texts_have_their_label(tmp_path: Path) -> None:
    policy = POLICY.replace("region.code", "region.name").replace("other = true", 'other = "x"')
    with pytest.raises(SourceError, match="another label"):
        counted(house(tmp_path, policy=policy))
    assert counted(house(tmp_path, policy=policy.replace('"x"', '"-"')))[-2:] == [
        ("z", 0),
        ("-", 6),
    ]
    with (
        tallyveil.connect(tmp_path / "policy.toml") as connection,
        pytest.raises(UndefinedColumn),
    ):
        connection.execute("SELECT count(*) FROM person WHERE name = 'x'")
