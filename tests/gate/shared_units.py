"""Two tables of the same people: their policy, and what one unit may have in them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt

import tallyveil
from tallyveil.accountant.releases import Release
from tallyveil.boundary import issue_receipt, open_answer
from tallyveil.cube import Cube, load_cubes
from tallyveil.policy import Policy
from tallyveil.workload.workload import Workload

__all__ = [
    "KEY",
    "MOST",
    "Unit",
    "answers",
    "cubes_of",
    "losses",
    "policy_of",
    "statement",
    "tables",
    "units",
]

KEY = bytes(range(32))
MOST = 2
Person = tuple[str | None, int | None]
Visit = tuple[str | None, int]


class Unit(NamedTuple):
    """The rows of one unit, in the source."""

    persons: tuple[Person, ...]
    visits: tuple[Visit, ...]


def policy_of(
    base: Path,
    measure: str = "epsilon",
    neighbours: str = "add_remove",
    *,
    per_unit: bool = False,
    **more: Any,
) -> Policy:
    """``per_unit``: whether persons have counts of their visits as attributes."""
    budget = {"epsilon": 1e5} if measure == "epsilon" else {"rho": 1e5, "delta": 1e-9}
    person: dict[str, Any] = {
        "privacy_unit": {"column": "pid", "max_rows": 1},
        "neighbours": neighbours,
        "budget": budget,
        "attributes": {
            "sex": {"values": ["F", "M"]},
            "age": {"range": [0, 2], "clamp": True, "nullable": True},
            "band": {"bins": [0, 2, 4], "clamp": True, "nullable": True, "column": "age"},
        },
    }
    if per_unit:
        late = {"count": "visit", "where": "day > 1"}
        person["per_unit"] = {"visits": {"count": "visit"}, "late": late}
    visit = {
        "privacy_unit": {"column": "pid", "max_rows": MOST},
        "neighbours": neighbours,
        "keys": {"pid": "person.pid"},
        "attributes": {"kind": {"values": ["a", "b"]}, "day": {"range": [1, 3]}},
    }
    tables = {"visit": visit, "person": person}
    keys = {"tables": tables, "defaults": {measure: 1}}
    return tallyveil.parse_policy(keys | more, base=base)


def tables(database: duckdb.DuckDBPyConnection, people: Sequence[Unit]) -> None:
    """Fill the source. Units are numbered from 1; rows of nobody are there too."""
    database.execute("CREATE OR REPLACE TABLE person (pid INTEGER, sex VARCHAR, age INTEGER)")
    database.execute("CREATE OR REPLACE TABLE visit (pid BIGINT, kind VARCHAR, day INTEGER)")
    persons: list[Any] = [(None, "F", 1)]
    visits: list[Any] = [(None, "a", 1)]
    for pid, unit in enumerate(people, 1):
        persons += [(pid, *row) for row in unit.persons]
        visits += [(pid, *row) for row in unit.visits]
    database.executemany("INSERT INTO person VALUES (?, ?, ?)", persons)
    database.executemany("INSERT INTO visit VALUES (?, ?, ?)", visits)


def cubes_of(
    policy: Policy, database: duckdb.DuckDBPyConnection, people: Sequence[Unit]
) -> dict[str, Cube]:
    tables(database, people)
    return load_cubes(policy, database, key=KEY)


def units(rolled: random.Random, drawn: int) -> Iterator[Unit]:
    """Nobody; every unit with a person of some kind and visits that are all of one kind, among
    which a unit loses most; and some that were drawn, which may have both kinds of visits, more
    rows than are kept, and values without a cell."""
    persons = itertools.product(["F", "M"], [1, 2, None])
    visits = itertools.product(["a", "b"], [1, 2, 3])
    alone: list[tuple[Person, ...]] = [(), *((person,) for person in persons)]
    alike: list[tuple[Visit, ...]] = [(), *((visit,) * MOST for visit in visits)]
    for own, rows in itertools.product(alone, alike):
        yield Unit(own, rows)
    for _ in range(drawn):
        yield Unit(
            tuple(
                (rolled.choice(["F", "M", "X", None]), rolled.choice([0, 1, 2, 9, None]))
                for _ in range(rolled.randrange(3))
            ),
            tuple(
                (rolled.choice(["a", "b", "X", None]), rolled.randrange(5))
                for _ in range(rolled.randrange(5))
            ),
        )


def losses(
    release: Release, cubes: Sequence[dict[str, Cube]], measure: str
) -> npt.NDArray[np.float64]:
    """What the release loses of the difference between any two data sets, by its definition: Σ |Δ|
    / b for Laplace noise in ε, Σ Δ² / (2 σ²) for Gaussian noise in ρ."""
    charge, total = release.decoded(), np.zeros((len(cubes), len(cubes)))
    for scale, *sides in zip(
        charge.scales,
        *(answers(one[charge.table], charge.workload, charge.counts_units) for one in cubes),
        strict=True,
    ):
        values = np.array(sides, dtype=np.float64) / scale
        moved = np.abs(values[:, None] - values[None, :])
        total += (moved if measure == "epsilon" else moved**2 / 2).sum(axis=2)
    return total


def answers(cube: Cube, workload: Workload, units: bool = False) -> list[list[int]]:
    """Wx, in lattice units by column, or the numbers of units."""
    receipt = issue_receipt(1, workload.key, [1.0] * len(workload.columns))
    return [list(column) for column in open_answer(cube.answer(workload, units=units), receipt)]


_VISITS = ["kind = 'a'", "day > 1", "kind = 'b' OR day = 2", "true"]
_PERSONS = ["sex = 'F'", "age >= 1", "age IS NULL", "sex = 'M' AND age < 2"]
_BOTH = [f"{v} AND {p}" for v, p in itertools.product(_VISITS[:2], _PERSONS[:2])]
_JOINS = [
    "visit JOIN person ON visit.pid = person.pid",
    "person JOIN visit USING (pid)",
    "visit LEFT JOIN person ON visit.pid = person.pid",
    "visit LEFT JOIN person ON visit.pid = person.pid AND age > 0",
    "visit JOIN (SELECT * FROM person WHERE sex = 'M') AS p ON p.pid = visit.pid",
]


def statement(rolled: random.Random, *, per_unit: bool = False) -> str:
    """A statement over either table, their join, or both, which may name counts ``per_unit``."""
    kind = rolled.choice(["visit", "person", "join", "join", "comma", "both"])
    if kind == "both":
        return (
            f"SELECT (SELECT count(*) FROM visit WHERE {rolled.choice(_VISITS)}) AS v, (SELECT"
            f" count(*) FROM person WHERE {rolled.choice(_PERSONS)}) AS p"
        )
    persons = [*_PERSONS, *(["late > 0"] if per_unit else [])]
    where = {"visit": _VISITS, "person": persons}.get(kind, [*_VISITS, *persons, *_BOTH])
    counts = ["visits", "late, sex"] if per_unit else []
    keys = {"visit": ["kind", "day"], "person": ["sex", "age", *counts]}.get(
        kind, ["kind", "day", "sex", "age", "sex, kind", "sex, age", *counts]
    )
    sums = {"visit": ["sum(day)"], "person": ["count(age)"]}.get(kind, ["sum(day * age)"])
    source = rolled.choice(_JOINS) if kind == "join" else kind
    condition = f"({rolled.choice(where)})"
    if kind == "comma":
        source, condition = "visit, person", f"visit.pid = person.pid AND {condition}"
    value = rolled.choice(["count(*)", *sums])
    if rolled.random() < 0.4:
        return f"SELECT {value} AS n FROM {source} WHERE {condition}"
    key = rolled.choice(keys)
    return f"SELECT {key}, {value} AS n FROM {source} WHERE {condition} GROUP BY {key}"
