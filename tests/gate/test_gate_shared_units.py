"""Tables that share a unit: what is charged is never less than a unit loses in all of them."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.cube import Cube
from tests.gate.shared_units import Unit, cubes_of, losses, policy_of, statement, tables, units
from tests.pairs import alternately

STATEMENTS = 7
TABLES = ("visit", "person")


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "per_unit"])
def every(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bool, list[tuple[Unit, dict[str, Cube]]]]:
    """Whether there are counts per unit, and units, each with the cubes of a source that holds
    nobody else."""
    per_unit = bool(request.param)
    policy = policy_of(tmp_path_factory.mktemp("every"), per_unit=per_unit)
    found = list(units(random.Random(0), 12))[:: 3 if per_unit else 1]
    with duckdb.connect() as database:
        return per_unit, [(unit, cubes_of(policy, database, [unit])) for unit in found]


@pytest.mark.parametrize(
    ("neighbours", "measure"), alternately(["add_remove", "replace"], ["epsilon", "rho"])
)
@pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_no_unit_loses_more_than_is_charged(
    every: tuple[bool, list[tuple[Unit, dict[str, Cube]]]],
    database: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    neighbours: str,
    measure: str,
    seeds: int,
) -> None:
    """By brute force over all pairs of data sets that differ in one unit's rows in both tables. All
    others' rows are the same in both, and cancel. The shared budget is charged the sum of each
    table's largest loss, and no more: but for cells that no unit can have, since its counts per
    unit are those of its visits."""
    per_unit, found = every
    policy = policy_of(tmp_path, measure, neighbours, per_unit=per_unit)
    tables(database, [unit for unit, _ in found])
    cubes = [own for _, own in found]
    # The first has no unit. Under add_remove it is one of the two.
    others = slice(0, 1 if neighbours == "add_remove" else None)
    for seed in range(seeds):
        rolled = random.Random(f"{seed} {neighbours} {measure}")
        policy.ledger.unlink(missing_ok=True)
        with tallyveil.connect(policy, source=database) as connection:
            connection.execute("SET dp.source = fresh")
            for _ in range(STATEMENTS):
                connection.execute(f"SET dp.{measure} = {rolled.choice(['0.1', '0.75', '2'])}")
                connection.execute(statement(rolled, per_unit=per_unit)).fetchall()
            accountant = connection._gate.accountant
            releases = {table: accountant.learned(table, 0, 0)[0] for table in TABLES}
            (spent,) = {float(accountant.balance(table).spent) for table in TABLES}
            assert [row["spent"] for row in connection.budget()] == [spent, spent]
        apart = [
            sum((losses(one, cubes, measure)[others] for one in own), np.zeros(1))
            for own in releases.values()
        ]
        assert sum(map(len, releases.values())) > STATEMENTS / 2  # some may be known exactly
        assert (apart[0] + apart[1]).max() <= spent * (1 + 1e-12)
        if not per_unit:
            assert sum(own.max() for own in apart) == pytest.approx(spent, rel=1e-6)
