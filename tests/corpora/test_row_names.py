"""Each row has one name, whichever statement asks it, and a name is of one row and its multiples.

Rows are told apart here by their coefficients written out: over the attributes that they depend on,
divided by their greatest common divisor, the first of them positive.
"""

from __future__ import annotations

import time
from typing import TypeAlias

import numpy as np
import pytest

from tallyveil.errors import TallyveilError
from tallyveil.workload.workload import Column
from tests.corpora.house import House
from tests.corpora.lab import case

_ENTRIES = 200_000  # of columns that are written out

_Row: TypeAlias = tuple[tuple[str, ...], tuple[int, ...], bytes]

WRITTEN = (
    "select count(*) from person where age = 2",
    "select sum(age) from person where age = 2",
    "select age, sum(age) from person group by age",
    "select -age as minus, sum(-3 * age), sum(age / 4.0) from person group by 1",
    "select age, sex, avg(age) from person group by rollup (age, sex)",
    "select sum(case when age = 2 then 7 when age = 4 then 14 end) from person",
    "select sum(case when age in (2, 4) then age * -0.5 end) from person",
    "select sum(wage) from person where state is null",
    "select state, sum(wage) from person group by state",
    "select state, sum(r.pop) from person p join region r on p.state = r.code group by state",
    "select r.code, count(*) from person p join region r on p.state = r.code group by r.code",
    "select sum(r.pop) from person p join region r on p.state = r.code where p.state = 'AL'",
    "select count(*) from person where sex = 'F' or sex is null",
    "select count(*) from person where not (sex <> 'F' and sex is not null)",
    "select sum(0 * age), sum(age) - sum(2 * age) from person",
    "select sum(age * (case sex when 'F' then 1 else -1 end)) from person group by state",
    "select sum(case sex when 'F' then -age else age end) from person where state = 'AL'",
)


def rows_of(column: Column) -> list[_Row | None]:
    """Written out; None for a row of zeros."""
    factor = column.multiplied_out(_ENTRIES)
    if factor is None or factor.height * factor.size > _ENTRIES:
        return []
    return [_written(row.reshape(factor.shape), factor.axes) for row in factor.dense()]


def _written(row: np.ndarray, axes: tuple[str, ...]) -> _Row | None:
    if not row.any():
        return None
    for axis in reversed(range(row.ndim)):
        if (row == row.take([0], axis)).all():
            row, axes = row.take(0, axis), axes[:axis] + axes[axis + 1 :]
    order = sorted(range(row.ndim), key=axes.__getitem__)
    row = row.transpose(order)
    flat = row.ravel() // int(np.gcd.reduce(row, axis=None))
    sign = 1 if flat[np.flatnonzero(flat)[0]] > 0 else -1
    return tuple(axes[n] for n in order), row.shape, (sign * flat).tobytes()


class Names:
    """By table, of all rows that were looked at."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._rows: dict[tuple[str, bytes], _Row | None] = {}
        self._keys: dict[tuple[str, _Row | None], bytes] = {}
        self.seen = 0

    def look(self, sql: str, dialect: str) -> None:
        cursor = self._house.gate.database.cursor()
        try:
            plan = self._house.gate.rewriter.plan(sql, dialect, cursor)
        except TallyveilError:
            return
        finally:
            cursor.close()
        for table, workload in plan.workloads.items():
            summed = [one.column for one in plan.summed.get(table, ())]
            for column in (*workload.columns, *summed):
                for key, row in zip(column.row_keys, rows_of(column), strict=False):
                    assert self._rows.setdefault((table, key), row) == row, sql
                    assert self._keys.setdefault((table, row), key) == key, sql
                    self.seen += 1


def run(house: House, seeds: range) -> None:
    names = Names(house)
    for sql in WRITTEN:
        names.look(sql, "duckdb")
    assert names.seen > 100
    for seed in seeds:
        asked = case(seed, 1 + seed % 5)
        names.look(asked.statement.sql, asked.dialect)
    assert len(names._keys) > 2 * len(seeds)


def test_each_row_has_one_name(house: House) -> None:
    """Other rows each day."""
    first = 500_000 + 20 * int(time.time() // 86_400)
    run(house, range(first, first + 20))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(510_000, 514_000, 1_000))
def test_each_row_has_one_name_long(house: House, start: int) -> None:
    run(house, range(start, start + 1_000))
