"""A gate without noise, and the same rows in a database.

`Silent` is a mechanism of the tests that charges as the default one does and adds nothing: the
answers are Wx itself, computed by all of tallyveil from the parser to the ledger and back from
history.

Raw incomes lie anywhere in their bins; the oracle's table has the bins' lower edges, as which a
bin reads.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import tallyveil
from tallyveil.errors import TallyveilError
from tallyveil.gate import Gate
from tallyveil.mechanisms import STATISTICS, Statistic, registry
from tallyveil.mechanisms.noise.exact_draws import Integers
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tallyveil.rewriter import Dialect

__all__ = ["House", "Rows", "Silent", "create", "draw_rows", "fill", "policy", "said", "silent"]

Rows = dict[str, list[tuple[Any, ...]]]

_BORN = [dt.date(2020, 1, 20) + dt.timedelta(days=n) for n in range(22)]
_WAGES = [-7, 0, 3, 100]
_INCOMES = [-5, 0, 40, 99, 100, 249, 250, 999, 1000, None]
_TABLES = {
    "person": (
        "state VARCHAR, age INTEGER, sex VARCHAR, married BOOLEAN, born DATE, income INTEGER, "
        "wage INTEGER"
    ),
    "visit": "state VARCHAR, cost INTEGER, seen DATE",
}
_PUBLIC = {
    "region": (
        "code VARCHAR, region VARCHAR, pop INTEGER",
        [("AL", "south", 10), ("AL", "deep", 20), ("AK", "north", 30), ("ZZ", "none", 40),
         (None, "void", None)],
    ),
    "band": (
        "low INTEGER, high INTEGER, label VARCHAR",
        [(0, 4, "child"), (5, 14, "middle"), (12, 99, "old")],
    ),
    "state_name": ("state VARCHAR, name VARCHAR", [("AL", "Alabama"), ("AK", "Alaska")]),
}  # fmt: skip
VIEWS = {
    "adult": "SELECT *, age / 2 AS half FROM person WHERE age >= 4",
    "placed": "SELECT a.age, a.sex, r.region FROM adult a JOIN region r ON a.state = r.code",
    "either": "SELECT 'a' AS what, age FROM person WHERE married UNION ALL "
    "SELECT sex, wage FROM person WHERE sex = 'F'",
    "by_state": "SELECT state, count(*) AS n FROM adult GROUP BY state HAVING count(*) > 0",
}


class Silent(DiscreteLaplace):
    """Discrete Laplace noise in all but the drawing: 0 is drawn."""

    name = "silent"

    def draw(self, scale: float, count: int) -> Integers:
        return np.zeros(count, dtype=np.int64)


@contextmanager
def silent() -> Iterator[None]:
    """Make `Silent` known by its name."""
    registry.register(Silent())
    distinct = Statistic(f"distinct_{Silent.name}", Silent())
    STATISTICS[distinct.name] = distinct
    try:
        yield
    finally:
        del registry._families[Silent.name], STATISTICS[distinct.name]


def policy(base: Path) -> tallyveil.Policy:
    budget = {"epsilon": 10**6}
    return tallyveil.parse_policy(
        {
            "tables": {
                "person": {
                    "from": "people",
                    "budget": budget,
                    "attributes": {
                        "state": {"values": ["AL", "AK", "WY"], "nullable": True},
                        "age": {"range": [0, 19]},
                        "sex": {"values": ["F", "M"], "nullable": True},
                        "married": {"values": [True, False]},
                        "born": {"range": [_BORN[0], _BORN[-1]]},
                        "income": {"bins": [0, 100, 250, 1000], "other": True},
                        "wage": {"values": _WAGES, "nullable": True},
                    },
                },
                "visit": {
                    "from": "visits",
                    "budget": budget,
                    "attributes": {
                        "state": {"values": ["AL", "AK"]},
                        "cost": {"range": [0, 5]},
                        "seen": {"range": [_BORN[0], _BORN[9]], "nullable": True},
                    },
                },
            },
            "public": {name: {"from": name} for name in _PUBLIC},
            "views": {name: {"sql": sql} for name, sql in VIEWS.items()},
        },
        base=base,
    )


def draw_rows(seed: int, count: int) -> Rows:
    """Rows that the policy has a cell for."""
    source = random.Random(seed)
    person = [
        ["AL", "AK", "WY", None], range(20), ["F", "M", None], [True, False], _BORN, _INCOMES,
        [*_WAGES, None],
    ]  # fmt: skip
    visit = [["AL", "AK"], range(6), [*_BORN[:10], None]]
    return {
        "person": [tuple(source.choice(pool) for pool in person) for _ in range(count)],
        "visit": [tuple(source.choice(pool) for pool in visit) for _ in range(count // 2)],
    }


def create(rows: Rows, *, edges: bool, division: str) -> Iterator[tuple[str, list[Any]]]:
    """SQL, and rows to insert with it, for the tables that statements read, or the gate's source.

    With ``edges`` incomes are the lower edges of their bins, and the tables have the names that
    analysts use.
    """
    for table, columns in _TABLES.items():
        name = table if edges else {"person": "people", "visit": "visits"}[table]
        found = rows[table]
        if edges and table == "person":
            found = [(*row[:5], _edge(row[5]), *row[6:]) for row in found]
        yield from _table(name, columns, found)
    for name, (columns, public) in _PUBLIC.items():
        yield from _table(name, columns, public)
    if edges:
        for name, sql in VIEWS.items():
            yield f"CREATE VIEW {name} AS {sql.replace(' / ', f' {division} ')}", []


def _table(name: str, columns: str, rows: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    yield f"CREATE TABLE {name} ({columns})", []
    if rows:
        yield f"INSERT INTO {name} VALUES ({', '.join('?' for _ in columns.split(','))})", rows


def fill(connection: duckdb.DuckDBPyConnection, tables: Iterable[tuple[str, list[Any]]]) -> None:
    """Execute what `create` gives, all rows of a table at once."""
    for sql, rows in tables:
        into, values, marks = sql.partition(" VALUES ")
        every = ", ".join([marks] * len(rows))
        connection.execute(f"{into}{values}{every}", [value for row in rows for value in row])


def _edge(income: int | None) -> int | None:
    if income is None or not 0 <= income < 1000:
        return None
    return max(edge for edge in (0, 100, 250) if edge <= income)


class House:
    """A gate whose answers have no noise; `silent` is to be in force."""

    def __init__(self, policy: tallyveil.Policy, source: duckdb.DuckDBPyConnection) -> None:
        self.gate = Gate(policy, source)
        self.sessions = {d: self.gate.session("alice", "db", d) for d in ("duckdb", "postgres")}
        for session in self.sessions.values():
            session.set("dp.mechanism", Silent.name)

    def answer(self, sql: str, dialect: Dialect) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The columns' names and the rows."""
        session = self.sessions[dialect]
        columns: list[str] = []
        rows: list[tuple[Any, ...]] = []
        for statement in session.parse(sql):
            result = session.execute(statement)
            columns = [column.name for column in result.columns or ()]
            rows = list(result.rows)
        return columns, rows

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()
        self.gate.close()


def said(error: TallyveilError) -> tuple[Any, ...]:
    position = getattr(error, "position", None)
    return (error.sqlstate, error.message, error.detail, error.hint, position)
