"""What the shell says about attributes that are rounded by a public rule."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
import typer.testing

from tallyveil.cli.app import app

POLICY = """
source.url = "shop.duckdb"
[tables.sale]
budget = { epsilon = 3.0 }
[tables.sale.attributes]
price = { range = [0, 500], step = 0.01, nullable = true }
whole = { range = [0, 500], column = "price" }
other = { range = [0, 500], column = "price", other = true }
ends  = { range = [0, 500], column = "weight", clamp = true, nullable = true }
count = { range = [0, 500], column = "pieces" }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as shop:
        shop.execute("CREATE TABLE sale (price DECIMAL(9, 2), weight DOUBLE, pieces DECIMAL(9, 0))")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path / "policy.toml"


def test_check_warns_of_whole_numbers_over_decimals_from_the_types_alone(policy: Path) -> None:
    said = typer.testing.CliRunner().invoke(app, ["check", str(policy)]).stdout
    warnings = [line for line in said.splitlines() if line.startswith("warning: ")]
    assert [line.split()[1] for line in warnings] == ["whole", "other", "ends"]
    assert "price is DECIMAL(9,2) in the source: a number with decimals is left out" in warnings[0]
    assert "a number with decimals is counted as NULL. To round it, declare a step" in warnings[1]
    assert "weight is DOUBLE" in warnings[2]
    assert "range 0.00 to 500.00 in steps of 0.01, 50,001 cells, DECIMAL(18,2) (rounded" in said


def test_check_warns_of_instants_that_are_declared_without_a_zone(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as shop:
        shop.execute("CREATE TABLE sale (sold TIMESTAMPTZ)")
    ends = "[2026-01-01 00:00:00, 2026-01-01 23:00:00]"
    text = f"""
source.url = "shop.duckdb"
[tables.sale]
budget = {{ epsilon = 3.0 }}
attributes.sold = {{ range = {ends}, step = "1 hour" }}
"""
    path = tmp_path / "policy.toml"
    path.write_text(text)
    said = typer.testing.CliRunner().invoke(app, ["check", str(path)]).stdout
    (warning,) = [line for line in said.splitlines() if line.startswith("warning: ")]
    wanted = "range = [2026-01-01 00:00:00Z, 2026-01-01 23:00:00Z]"
    assert "it is read in UTC" in warning
    assert wanted in warning
    path.write_text(text.replace(f"range = {ends}", wanted))
    said = typer.testing.CliRunner().invoke(app, ["check", str(path)]).stdout
    assert "warning" not in said
    assert "range 2026-01-01 00:00:00+00:00 to 2026-01-01 23:00:00+00:00 in steps of 1 hour" in said
    assert "24 cells, TIMESTAMP WITH TIME ZONE (cut to the step before)" in said


def test_a_copy_of_a_range_in_steps_is_refused_free(policy: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "copy.parquet")
    price = "attributes.price = { range = [0, 500], step = 0.5, clamp = true, nullable = true }"
    head = POLICY.partition("[tables.sale.attributes]")[0]
    policy.write_text(f'{head}neighbours = "replace"\n{price}\n')
    asked = ["sanitise", str(policy), "sale", "--columns", "price", "--epsilon", "1", "--out", out]
    found = typer.testing.CliRunner().invoke(app, asked)
    assert found.exit_code == 1
    assert "cannot be copied: it is rounded to steps" in found.output
