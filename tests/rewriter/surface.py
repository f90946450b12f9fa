"""A small world with public tables and views, the raw rows beside it, and exact answers of plans.

`World.exact` does what the gate does, with Wx computed here from the raw rows, without noise.
What it returns equals what DuckDB answers on the raw table, except for what is documented: a group
that is declared and empty has count and sum 0, where SQL has no such group, or NULL for the sum.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa

from tallyveil.policy import parse_policy
from tallyveil.policy.domain import Domain
from tallyveil.rewriter import Column, Dialect, Plan, PublicDatabase, Rewriter
from tests.rewriter.noiseless import noiseless
from tests.rewriter.world import Records

__all__ = ["DOMAIN", "PUBLIC", "VIEWS", "Rows", "World"]

Rows = list[tuple[Any, ...]]

_POLICY = {
    "tables": {
        "person": {
            "budget": {"epsilon": 1},
            "attributes": {
                "state": {"values": ["AL", "AK", "WY"], "nullable": True},
                "age": {"range": [0, 19]},
                "sex": {"values": ["F", "M"], "nullable": True},
                "married": {"values": [True, False]},
                "born": {"range": [dt.date(2020, 1, 20), dt.date(2020, 2, 10)]},
                "income": {"bins": [0, 100, 250, 1000], "other": True},
            },
        },
        "visit": {
            "budget": {"epsilon": 1},
            "attributes": {"state": {"values": ["AL", "AK"]}, "cost": {"range": [0, 5]}},
        },
    }
}
DOMAIN = parse_policy(_POLICY).tables["person"].domain
VISIT = parse_policy(_POLICY).tables["visit"].domain

PUBLIC = {
    "region": pa.table(
        {
            "code": ["AL", "AL", "AK", "ZZ", None],
            "region": ["south", "deep", "north", "none", "void"],
            "pop": pa.array([10, 20, 30, 40, None], pa.int64()),
        }
    ),
    "band": pa.table(
        {
            "low": pa.array([0, 5, 12], pa.int32()),
            "high": pa.array([4, 14, 99], pa.int32()),
            "label": ["child", "middle", "old"],
        }
    ),
    "state_name": pa.table({"state": ["AL", "AK"], "name": ["Alabama", "Alaska"]}),
}
VIEWS = {
    "adult": "SELECT *, age / 2 AS half FROM person WHERE age >= 4",
    "placed": "SELECT a.age, a.sex, r.region FROM adult a JOIN region r ON a.state = r.code",
    "by_state": "SELECT state, count(*) AS n FROM adult GROUP BY state",
}


def draw(source: random.Random, count: int, domain: Domain = DOMAIN) -> Rows:
    """Raw rows that the domain has a place for."""
    pools: list[Sequence[Any]] = []
    for attribute in domain.attributes:
        binned = [0, 40, 99, 100, 249, 250, 999, None]
        pools.append(binned if attribute.kind == "bins" else attribute.cells)
    return [tuple(source.choice(pool) for pool in pools) for _ in range(count)]


class World:
    """The rewriter over the domain, and a DuckDB with the raw rows that only the test sees."""

    def __init__(self, count: int = 300, seed: int = 20) -> None:
        self.database = PublicDatabase([DOMAIN, VISIT], PUBLIC)
        self.cursor = self.database.cursor()
        columns = {name: self.database.columns(name) for name in PUBLIC}
        self.rewriter = Rewriter(
            {"person": DOMAIN, "visit": VISIT}, frozenset({"dp.budget"}), columns, VIEWS
        )
        source = random.Random(seed)
        self.rows = {
            "person": draw(source, count),
            "visit": draw(source, count // 2, VISIT),
        }
        domains = (DOMAIN, VISIT)
        self.records = {d.table: Records(d, self.rows[d.table]) for d in domains}
        self.raw = duckdb.connect()
        for domain in domains:
            self._create(domain)
        for name, table in PUBLIC.items():
            self.raw.register("__given", table)
            self.raw.execute(f"CREATE TABLE {name} AS FROM __given")
            self.raw.unregister("__given")
        for name, sql in VIEWS.items():
            # A view means what PostgreSQL means by it.
            self.raw.execute(f"CREATE VIEW {name} AS {sql.replace(' / 2', ' // 2')}")

    def _create(self, domain: Domain) -> None:
        columns = ", ".join(f'"{a.name}" {a.sql_type}' for a in domain.attributes)
        self.raw.execute(f"CREATE TABLE {domain.table} ({columns})")
        marks = ", ".join("?" for _ in domain.attributes)
        self.raw.executemany(
            f"INSERT INTO {domain.table} VALUES ({marks})", self.rows[domain.table]
        )

    def plan(self, sql: str, dialect: Dialect = "duckdb", **options: Any) -> Plan:
        return self.rewriter.plan(sql, dialect, self.cursor, **options)

    def exact(self, sql: str, dialect: Dialect = "duckdb") -> Rows:
        """The statement's rows, with Wx in the place of the noisy answers."""
        return self.rows_of(self.plan(sql, dialect))

    def rows_of(self, plan: Plan) -> Rows:
        tables = {table.name: noiseless(plan, table, self.truth) for table in plan.noisy}
        with self.cursor.tables(tables):
            return self.cursor.rows(plan.sql)[1]

    def direct(self, sql: str) -> Rows:
        """The rows DuckDB answers on the raw tables."""
        return self.raw.execute(sql).fetchall()

    def truth(self, table: str, column: Column) -> list[Fraction]:
        """Wx of one column."""
        return self.records[table].truth(column)

    def close(self) -> None:
        self.raw.close()
        self.cursor.close()
        self.database.close()
