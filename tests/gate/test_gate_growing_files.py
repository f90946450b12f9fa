"""A table that grows by files: those that have no row of the new days are not read again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tallyveil.cube.sources import opened
from tallyveil.policy import load_policy
from tests.gate.growing_visits import FIRST, Visits, day

FILES, DAYS = 4, 5

Rows = dict[int, list[tuple[str, int]]]
"""By file the days, as SQL, and kinds of its rows."""


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    (tmp_path / "visits").mkdir()
    made = Visits(tmp_path)
    made.declare(data='append = "day", late = 0', days=DAYS)
    policy = tmp_path / "policy.toml"
    policy.write_text(policy.read_text().replace("visits.parquet", "visits/*.parquet"))
    return made


def write(
    visits: Visits, number: int, rows: list[tuple[str, int]], kind: str = "DATE", more: str = ""
) -> None:
    values = ", ".join(f"(CAST({own} AS {kind}), {one})" for own, one in rows)
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT *{more} FROM (VALUES {values}) t(Day, kind))"
            f" TO '{visits.folder}/visits/{number}.parquet' (ROW_GROUP_SIZE 2048)"
        )


def counted(visits: Visits, last: int) -> Counter[tuple[int, int]]:
    """By the engine, through the last of the days."""
    sql = (
        f"SELECT TRY_CAST(day AS TIMESTAMP)::DATE - DATE '{FIRST}' AS n, kind, count(*) FROM"
        f" read_parquet('{visits.folder}/visits/*.parquet', union_by_name = true)"
        f" WHERE n BETWEEN 0 AND {last} GROUP BY ALL"
    )
    with duckdb.connect() as connection:
        return Counter({(n, kind): count for n, kind, count in connection.execute(sql).fetchall()})


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        ("DATE", ["NULL", "DATE 'infinity'", "DATE '-infinity'", "DATE '2000-01-01 (BC)'"]),
        ("TIMESTAMP", ["NULL", "TIMESTAMP 'infinity'", f"TIMESTAMP '{day(2)} 23:59:59.999'"]),
        ("TIMESTAMPTZ", ["NULL", f"TIMESTAMPTZ '{day(2)} 23:59:59+00'"]),
        ("VARCHAR", ["NULL", "'no day'", f"'{day(9)}'"]),
    ],
)
def test_days_are_counted_wherever_their_rows_are(
    visits: Visits, kind: str, odd: list[str]
) -> None:
    """Files gain rows of days to come, in no order; one has another column for a while."""
    random = np.random.default_rng(1)
    rows: Rows = {n: [(own, 0) for own in odd[n : n + 1] or ["NULL"]] for n in range(FILES)}
    for number in range(DAYS - 1):
        for file in random.choice(FILES, 2, replace=False).tolist():
            days = [number, *random.integers(number, DAYS, 3).tolist()]
            rows[file] += [(f"DATE '{day(n)}'", int(random.integers(3))) for n in days]
        for file, own in rows.items():
            more = ", 1 AS more" if number == 3 and file == 1 else ""
            write(visits, file, own, kind, more)
        visits.publish(number)
        assert visits.counts() == counted(visits, number)


def test_files_without_the_days_are_not_read(visits: Visits) -> None:
    for number in range(FILES):
        write(visits, number, [(f"DATE '{day(number)}'", 0), ("NULL", 0)])
    with opened(load_policy(visits.folder / "policy.toml")) as source:
        with source.rows("visits", ["day"], "", alike=False) as found:
            own = found.days and found.days("day", day(2), day(3))
            assert [n for n in "01234" if f"/{n}.parquet" in str(own)] == ["2", "3"]
        with source.rows("SELECT * FROM visits", ["day"], "", alike=False) as found:
            assert found.days is None
