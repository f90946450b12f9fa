"""How long a table of PostgreSQL takes to load, beside its own GROUP BY of the coded columns.

ROWS sets the number of rows, 1,000,000 unless given; the medians of RUNS turns are compared.

- narrow: states and ages as they are; PostgreSQL counts equal rows
- mixed: also days
- moments: also a timestamp to the microsecond, by day, and a price in bins; rows come one by one
- unit: as narrow, with 3 rows of each person counted; beside PostgreSQL's window query

    make bench NAME=source_postgresql
"""

from __future__ import annotations

import datetime as dt
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from bench.measure import clocked, report, target
from bench.postgres import postgresql
from tallyveil.cube import load_cubes
from tallyveil.policy import parse_policy

ROWS = int(os.environ.get("ROWS", 1_000_000))
RUNS = int(os.environ.get("RUNS", 3))

_TABLE = f"""
    CREATE TABLE visit AS SELECT
        'S' || (random() * 49)::int AS state, (random() * 115)::int AS age,
        date '2026-01-01' + (random() * 299)::int AS day,
        timestamp '2026-01-01' + random() * interval '300 days' AS at,
        (random() * 500)::numeric(10, 2) AS price, (random() * {ROWS // 4})::bigint AS pid
    FROM generate_series(1, {ROWS})
"""
_DAYS = {"range": [dt.date(2026, 1, 1), dt.date(2026, 10, 27)]}
_NARROW: dict[str, Any] = {
    "state": {"values": [f"S{n}" for n in range(50)]},
    "age": {"range": [0, 115]},
}
_MOMENTS = {"at": _DAYS, "price": {"bins": [0, 50, 100, 200, 501]}}
_BIN = "CASE WHEN price < 50 THEN 0 WHEN price < 100 THEN 1 WHEN price < 200 THEN 2 ELSE 3 END"
_CASES: dict[str, tuple[dict[str, Any], str]] = {
    "narrow": (_NARROW, "SELECT state, age, count(*) FROM visit GROUP BY 1, 2"),
    "mixed": (
        {**_NARROW, "day": _DAYS},
        "SELECT state, age, day, count(*) FROM visit GROUP BY 1, 2, 3",
    ),
    "moments": (
        {**_NARROW, **_MOMENTS},
        f"SELECT state, age, at::date, {_BIN}, count(*) FROM visit GROUP BY 1, 2, 3, 4",
    ),
    "unit": (
        _NARROW,
        "SELECT state, age, count(*) FROM (SELECT state, age, row_number() OVER (PARTITION BY pid"
        " ORDER BY md5(visit::text)) AS place FROM visit) AS kept WHERE place <= 3 GROUP BY 1, 2",
    ),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, postgresql(Path(folder)) as (port, _):
        url = f"postgresql://bench@127.0.0.1:{port}/postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TABLE)
            connection.execute("VACUUM ANALYZE visit")
            for case in _CASES:
                _measure(case, url, connection)


def _measure(case: str, url: str, connection: psycopg.Connection[Any]) -> None:
    attributes, own = _CASES[case]
    table: dict[str, Any] = {"budget": {"epsilon": 1}, "attributes": attributes}
    if case == "unit":
        table["privacy_unit"] = {"column": "pid", "max_rows": 3}
    policy = parse_policy({"source": {"url": url}, "tables": {"visit": table}})
    loaded: list[float] = []
    engine: list[float] = []
    for _ in range(RUNS):
        clocked(engine, lambda: connection.execute(own.encode()).fetchall())
        clocked(loaded, lambda: load_cubes(policy, key=b"key"))
    ours, theirs = statistics.median(loaded), statistics.median(engine)
    report(case=case, rows=ROWS, loaded_ms=round(ours), engine_ms=round(theirs))
    target(f"{case} ÷ PostgreSQL's own", ours / theirs, most=1.3)


if __name__ == "__main__":
    main()
