"""Errors of averages, deviations and shares through the gate: as asked, and as parts and moments.

One statement asks 100 groups of about 400 records each; the errors are root mean squares over the
groups, those of averages times the number of records.

    make bench NAME=moments
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import tallyveil
from bench.measure import clocked, report

GROUPS, RECORDS = 100, 400
RECORD = "i % 100 AS g, CAST(hash(i) % 100 AS INTEGER) AS v, hash(i * 7) % 10 < 3 AS f"
AVERAGES = "SELECT g, avg(v), sum(v), count(*) FROM {table} GROUP BY g ORDER BY g"
DEVIATIONS = "SELECT g, stddev_pop(v) FROM {table} GROUP BY g ORDER BY g"
SHARES = "SELECT g, count(*) FILTER (WHERE f) * 1.0 / count(*) FROM {table} GROUP BY g ORDER BY g"
BUDGETS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 1000.0},
    "rho": {"rho": 1000.0, "delta": 1e-9},
}


def main() -> None:
    for measure, budget in BUDGETS.items():
        for mechanism in ("laplace" if measure == "epsilon" else "gaussian", "auto"):
            with duckdb.connect() as source, tempfile.TemporaryDirectory() as base:
                source.execute(
                    f"CREATE TABLE records AS SELECT {RECORD} FROM range({GROUPS * RECORDS}) x(i)"
                )
                attributes = {
                    "g": {"range": [0, GROUPS - 1]},
                    "v": {"range": [0, 99]},
                    "f": {"values": [False, True]},
                }
                table = {"from": "records", "budget": budget, "attributes": attributes}
                keys = {"tables": {"t": table}, "defaults": {measure: 1}}
                policy = tallyveil.parse_policy(keys, base=Path(base))
                with tallyveil.connect(policy, source=source) as connection:
                    connection.execute(f"SET dp.mechanism = {mechanism}")
                    connection.execute("SET dp.source = fresh")
                    _measure(connection, source, measure, mechanism)


def _measure(connection: tallyveil.Connection, source: Any, measure: str, mechanism: str) -> None:
    times: list[float] = []
    errors = {}
    for name, sql in (("average", AVERAGES), ("deviation", DEVIATIONS), ("share", SHARES)):
        found = clocked(times, lambda sql=sql: connection.execute(sql.format(table="t")).fetchall())
        truth = source.execute(sql.format(table="records")).fetchall()
        off = np.array(found, dtype=float)[:, 1:] - np.array(truth, dtype=float)[:, 1:]
        errors[name] = np.sqrt((off**2).mean(axis=0)).tolist()
    average, total, count = errors["average"]
    report(
        measure=measure,
        mechanism=mechanism,
        average_times_n=round(average * RECORDS, 1),
        sum=round(total, 1),
        count=round(count, 2),
        deviation=round(errors["deviation"][0], 4),
        share=round(errors["share"][0], 4),
        milliseconds=[round(one) for one in times],
    )


if __name__ == "__main__":
    main()
