"""A small world to ask about: one domain, rows drawn from it, and exact answers of plans.

`World.answer` does what the gate does, with Wx computed here from the raw rows, without noise, in
the place of the noisy answers. What it returns is to equal what a database answers on the raw
table itself.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np

from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter import Column, Dialect, Plan, PublicDatabase, Rewriter
from tests.rewriter.noiseless import noiseless

__all__ = ["DOMAIN", "Records", "World", "normal", "rows_of"]

_BORN = tuple(dt.date(2019, 12, 20) + dt.timedelta(days=d) for d in range(40))

DOMAIN = Domain(
    "person",
    (
        Attribute(
            "state", "values", "VARCHAR", ("AL", "AK", "wy", "x_y%", " pad", "", None), null_cell=6
        ),
        Attribute("age", "range", "INTEGER", tuple(range(-3, 30))),
        Attribute("sex", "values", "VARCHAR", ("F", "M", None), null_cell=2),
        Attribute("married", "values", "BOOLEAN", (False, True, None), null_cell=2),
        Attribute("born", "range", "DATE", (*_BORN, None), null_cell=40),
        Attribute(
            "score", "values", "DOUBLE", (-2.5, -1.5, 0.0, 0.5, 1.5, 2.25, None), null_cell=6
        ),
        Attribute("big", "values", "BIGINT", (-(2**40), 0, 7, 2**40)),
        Attribute(
            "income",
            "bins",
            "INTEGER",
            (0, 100, 250, None),
            edges=(0, 100, 250, 1000),
            null_cell=3,
            other_cell=3,
        ),
    ),
)


def cell_of(attribute: Attribute, value: Any) -> int:
    """The cell a raw value lies in, by definition rather than by the cube's own code."""
    if attribute.kind != "bins":
        return attribute.cells.index(value)
    edges = attribute.edges or ()
    if value is None or not edges[0] <= value < edges[-1]:
        assert attribute.null_cell is not None
        return attribute.null_cell
    return sum(edge <= value for edge in edges) - 1


def rows_of(
    random_source: random.Random, count: int, domain: Domain = DOMAIN
) -> list[tuple[Any, ...]]:
    """Raw rows that the domain has a place for, a few cells of each attribute used often."""
    pools = []
    for attribute in domain.attributes:
        if attribute.kind == "bins":
            first, *_, last = attribute.edges or ()
            values: Sequence[Any] = [
                *range(int(first), int(last), 17),
                *(attribute.edges or ())[:-1],
                None,
            ]
        else:
            values = attribute.cells
        pools.append(values)
    return [tuple(random_source.choice(pool) for pool in pools) for _ in range(count)]


class Records:
    """Raw rows, and what is counted of them record by record."""

    def __init__(self, domain: Domain, rows: Sequence[tuple[Any, ...]]) -> None:
        self._domain = domain
        self._histograms: dict[tuple[tuple[int, ...], ...], Counter[Any]] = {}
        self._cells = [
            tuple(cell_of(a, v) for a, v in zip(domain.attributes, row, strict=True))
            for row in rows
        ]

    def truth(self, column: Column) -> list[Fraction]:
        """Wx of one column, summed record by record of the raw table."""
        axes = tuple(tuple(map(self._domain.names.index, f.axes)) for f in column.factors)
        x = self._histogram(axes)
        entries: list[dict[tuple[int, ...], list[tuple[int, int]]]] = []
        for f in column.factors:
            at: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
            for row, cell, coefficient in zip(
                f.rows.tolist(), f.cells.tolist(), f.coefficients.tolist(), strict=True
            ):
                at[tuple(int(i) for i in np.unravel_index(cell, f.shape))].append(
                    (row, coefficient)
                )
            entries.append(at)
        total = [Fraction(0)] * column.product_height
        for place, count in x.items():
            found = [(0, count)]
            for f, at, own in zip(column.factors, entries, place, strict=True):
                found = [(r * f.height + s, n * c) for r, n in found for s, c in at.get(own, ())]
            for row, n in found:
                total[row] += n
        return [column.multiplier * total[row] for row in column.numbers.tolist()]

    def _histogram(self, axes: tuple[tuple[int, ...], ...]) -> Counter[Any]:
        """How many records have which cells on the axes of each factor."""
        if axes not in self._histograms:
            self._histograms[axes] = Counter(
                tuple(tuple(cells[axis] for axis in own) for own in axes) for cells in self._cells
            )
        return self._histograms[axes]


class World:
    """The rewriter over one domain, and the raw rows that only the test sees."""

    def __init__(self, rows: Sequence[tuple[Any, ...]], domain: Domain = DOMAIN) -> None:
        self.domain = domain
        self.database = PublicDatabase([domain], time_limit=60.0)  # beside other tests' work
        self.cursor = self.database.cursor()
        self.rewriter = Rewriter({domain.table: domain}, frozenset({"dp.budget", "dp.attributes"}))
        self.set_rows(rows)

    def set_rows(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self.rows = list(rows)
        self._records = Records(self.domain, rows)

    def create(self, raw: duckdb.DuckDBPyConnection) -> None:
        """The raw table in a DuckDB of the test's own."""
        columns = ", ".join(f'"{a.name}" {a.sql_type}' for a in self.domain.attributes)
        raw.execute(f"CREATE OR REPLACE TABLE {self.domain.table} ({columns})")
        if self.rows:
            marks = ", ".join("?" for _ in self.domain.attributes)
            every = ", ".join([f"({marks})"] * len(self.rows))
            values = [value for row in self.rows for value in row]
            raw.execute(f"INSERT INTO {self.domain.table} VALUES {every}", values)

    def plan(self, sql: str, dialect: Dialect = "postgres", **options: Any) -> Plan:
        return self.rewriter.plan(sql, dialect, self.cursor, **options)

    def answer(
        self, sql: str, dialect: Dialect = "postgres", **options: Any
    ) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """The columns and rows of the exact answer."""
        plan = self.plan(sql, dialect, **options)
        tables = {table.name: noiseless(plan, table, self._truth) for table in plan.noisy}
        with self.cursor.tables(tables):
            columns, rows = self.cursor.rows(plan.sql)
            if any(kind == "TIMESTAMP WITH TIME ZONE" for _, kind in columns):
                rows = []
                self.cursor.values(plan.sql, [kind for _, kind in columns], rows.extend)
            return columns, rows

    def _truth(self, _: str, column: Column) -> list[Fraction]:
        return self.truth(column)

    def truth(self, column: Column) -> list[Fraction]:
        return self._records.truth(column)

    def close(self) -> None:
        self.cursor.close()
        self.database.close()


def normal(rows: Sequence[tuple[Any, ...]]) -> Mapping[Any, int]:
    """Rows as a multiset of comparable values: numbers by value, times as days where they are."""
    return Counter(tuple(_value(v) for v in row) for row in rows)


def _value(value: Any) -> Any:
    match value:
        case bool() | None | str():
            return value
        case dt.datetime():
            return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        case dt.date():
            return dt.datetime(value.year, value.month, value.day)
        case int() | Decimal() | float():
            # A sum of quotients is counted on a grid of 2^-40 of the largest (see `linearise`).
            number = float(f"{float(value):.12g}")
            return round(number, 7) + 0.0 if abs(number) < 1e6 else number
    return str(value)
