"""Two small tables that agree on their invariants, and statements about them, from a seed."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import duckdb
import numpy as np

from tallyveil.arrays import FloatArray

__all__ = ["CELLS", "USERS", "VALUES", "Case", "people"]

Record: TypeAlias = tuple[Any, ...]

USERS: Final = ("ann", "bob")
VALUES: Final = {"a": ["u", "v", "w"], "b": ["p", "q"], "n": [0, 1, 2]}
CELLS: Final = list(itertools.product(*VALUES.values()))
INVARIANTS: Final = (
    "SELECT count(*) FROM person",
    "SELECT a, count(*) FROM person GROUP BY a",
    "SELECT b, count(*) FROM person GROUP BY b",
    "SELECT a, b, count(*) FROM person GROUP BY a, b",
    "SELECT count(*) FROM person WHERE a = 'u' AND b = 'p'",
    "SELECT a, sum(n) FROM person GROUP BY a",
    "SELECT 2 * count(*) - sum(n) FROM person WHERE b = 'q'",
)
WHERE: Final = ("TRUE", "TRUE", "a = 'u'", "a <> 'v' OR b = 'q'", "n > 0", "b = 'p' AND n < 2")
COUNTED: Final = ("count(*)", "count(*)", "sum(n)", "count(*) FILTER (WHERE b = 'p')")
MECHANISMS: Final = {
    "epsilon": ("auto", "laplace", "geometric", "projected", "imaged", "conditioned", "knorm"),
    "rho": ("auto", "laplace", "extended", "optimal", "correlated", "conditioned", "imaged"),
}


@dataclass
class Case:
    """``exact`` are the invariants on the cells, ``tables`` two that agree on them."""

    policy: dict[str, Any]
    statements: list[str]
    exact: FloatArray
    tables: list[list[Record]]
    rows: int = 1

    @classmethod
    def of(cls, seed: int) -> Case:
        rolled = random.Random(seed)
        chosen = rolled.sample(INVARIANTS, rolled.choice([1, 2, 2]))
        exact = np.hstack([linear(sql) for sql in chosen]).T
        whole = np.vstack([exact, np.ones(len(CELLS))])
        total = np.linalg.matrix_rank(whole) == np.linalg.matrix_rank(exact)
        measure = rolled.choice(["epsilon", "rho"])
        most = rolled.choice([1.0, 5.0])
        budget = {"epsilon": most} if measure == "epsilon" else {"rho": most, "delta": 1e-6}
        share = {"budget": {**budget, measure: 0.6 * most}}
        rows = rolled.choice([1, 1, 2])
        table: dict[str, Any] = {
            "from": rolled.choice(["people", "SELECT * FROM people"]),
            "neighbours": "replace" if total else rolled.choice(["replace", "add_remove"]),
            "budget": budget,
            "attributes": {"a": {"values": VALUES["a"]}, "b": {"values": VALUES["b"]}}
            | {"n": {"range": [0, 2]}},
            "invariants": [{"sql": sql} for sql in chosen],
        }
        if rows > 1:
            table["privacy_unit"] = {"column": "pid", "max_rows": rows}
        policy = {
            "tables": {"person": table},
            "defaults": {measure: rolled.choice([0.05, 0.3])},
            "analysts": dict.fromkeys(USERS, share),
        }
        statements = [one for _ in range(6) for one in asked(rolled, measure)]
        statements += ["SELECT * FROM dp.budget", "SELECT * FROM dp.invariants"]
        statements.append("SELECT analyst, mechanism, cost, rows, spent FROM dp.history")
        return cls(policy, statements, exact, pair(rolled, exact), rows)


@functools.cache
def linear(sql: str) -> FloatArray:
    """What an aggregate of ``sql`` is of each cell's record: a column for each group."""
    groups: dict[Record, FloatArray] = {}
    with people([]) as source:
        for number, cell in enumerate(CELLS):
            source.execute("DELETE FROM people")
            source.execute("INSERT INTO people VALUES (0, ?, ?, ?)", cell)
            for *key, value in source.execute(sql.replace("person", "people")).fetchall():
                own = groups.setdefault(tuple(key), np.zeros(len(CELLS)))
                own[number] = float(value or 0)
    return np.array(list(groups.values())).T


@contextmanager
def people(records: Sequence[Record]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as source:
        source.execute("CREATE TABLE people (pid INTEGER, a VARCHAR, b VARCHAR, n INTEGER)")
        if records:
            every = ", ".join(["(?, ?, ?, ?)"] * len(records))
            values = [value for number, record in enumerate(records) for value in (number, *record)]
            source.execute(f"INSERT INTO people VALUES {every}", values)
        yield source


def pair(rolled: random.Random, exact: FloatArray) -> list[list[Record]]:
    """Records, and others that agree with them on what is exact."""
    records = [rolled.choice(CELLS) for _ in range(20 * len(CELLS))]
    while True:
        others = list(records)
        for place in rolled.sample(range(len(records)), rolled.choice([1, 2, 4])):
            others[place] = rolled.choice(CELLS)
        moved = counts(others) - counts(records)
        if moved.any() and not (exact @ moved).any():
            return [records, others]


def counts(records: Sequence[Record]) -> FloatArray:
    found = np.zeros(len(CELLS))
    for record in records:
        found[CELLS.index(record)] += 1
    return found


def asked(rolled: random.Random, measure: str) -> Iterator[str]:
    """Settings, and a statement with its errors and intervals."""
    yield f"SET dp.mechanism = {rolled.choice(MECHANISMS[measure])}"
    yield f"SET dp.source = {rolled.choice(['auto', 'auto', 'fresh', 'history'])}"
    yield f"SET dp.nonnegative = {rolled.choice(['on', 'off'])}"
    yield rolled.choice([f"SET dp.{measure} = 0.2", "SET dp.half_width = 9", "RESET dp.coverage"])
    keys = rolled.sample(list(VALUES), rolled.randrange(4))
    counted = rolled.choice(COUNTED)
    told = [*keys, f"{counted} AS m", "dp_interval_low(m)", "dp_interval_high(m)", "dp_stddev(m)"]
    sql = f"SELECT {', '.join(told)} FROM person WHERE {rolled.choice(WHERE)}"
    if keys:
        numbers = ", ".join(str(number) for number in range(1, len(keys) + 1))
        grouped = rolled.choice([numbers, numbers, f"ROLLUP ({numbers})"])
        sql += f" GROUP BY {grouped} ORDER BY {numbers}"
    yield rolled.choice(["", "", "EXPLAIN "]) + sql
