"""How long a source takes to load, beside the engine's own GROUP BY of the same columns.

Each case loads one table and then runs the engine's query on the same file, in turns, and reports
the ratio of the medians. ROWS sets the number of rows, 2,000,000 unless given, and CASES which
cases.

- narrow: 50 states × 2 sexes × 116 ages as text and integers, which are cells as they are
- mixed: also 300 days, and incomes as doubles in 7 bins
- wide: 12 columns, with nearly as many cells in use as rows
- unit: as narrow, with 2 rows of a person on average, of which 3 count; beside a window query
"""

from __future__ import annotations

import datetime as dt
import os
import resource
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from bench.measure import clocked, report, target
from tallyveil.cube import load_cubes
from tallyveil.policy import Policy, parse_policy

ROWS = int(os.environ.get("ROWS", 2_000_000))
RUNS = int(os.environ.get("RUNS", 3))

_TABLE = f"""
    SELECT 'S' || lpad((hash(i) % 50)::VARCHAR, 2, '0') AS state,
           CASE hash(i + 1000000007) % 20 WHEN 0 THEN NULL WHEN 1 THEN 'M' ELSE 'F' END AS sex,
           (hash(i + 2000000011) % 116)::INTEGER AS age,
           DATE '2026-01-01' + (hash(i + 3000000019) % 300)::INTEGER AS visited,
           (hash(i + 4000000007) % 12000000)::DOUBLE / 100 AS income,
           (hash(i + 5000000029) % {ROWS // 2})::BIGINT AS pid,
           {", ".join(f"(hash(i + {n}000000000039) % 4)::INTEGER AS w{n}" for n in range(12))}
    FROM range({ROWS}) t(i)
"""

_EDGES = [0, 15_000, 30_000, 45_000, 60_000, 75_000, 90_000, 120_000]
_NARROW: dict[str, Any] = {
    "state": {"values": [f"S{n:02}" for n in range(50)]},
    "sex": {"values": ["F", "M"], "nullable": True},
    "age": {"range": [0, 115]},
}
_MIXED: dict[str, Any] = {
    **_NARROW,
    "visited": {"range": [dt.date(2026, 1, 1), dt.date(2026, 10, 27)]},
    "income": {"bins": _EDGES},
}
_WIDE: dict[str, Any] = {f"w{n}": {"range": [0, 3]} for n in range(12)}

_BIN = " ".join(f"WHEN income < {e} THEN {n}" for n, e in enumerate(_EDGES[1:]))
_WINDOW = """
    SELECT state, sex, age, count(*) FROM (
        SELECT state, sex, age FROM {0} QUALIFY row_number() OVER
            (PARTITION BY pid ORDER BY hash(state, sex, age, income)) <= 3
    ) GROUP BY ALL
"""
_OWN = {
    "narrow": "SELECT state, sex, age, count(*) FROM {0} GROUP BY ALL",
    "mixed": "SELECT state, sex, age, visited, "
    f"CASE WHEN income < 0 THEN -1 {_BIN} END, count(*) FROM {{0}} GROUP BY ALL",
    "wide": f"SELECT {', '.join(_WIDE)}, count(*) FROM {{0}} GROUP BY ALL",
    "unit": _WINDOW,
}
_ATTRIBUTES = {"narrow": _NARROW, "mixed": _MIXED, "wide": _WIDE, "unit": _NARROW}
_MOST = {"narrow": 1.3, "mixed": 1.3, "wide": 1.5, "unit": 1.3}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = dict(_files(Path(folder)))
        for case in os.environ.get("CASES", " ".join(_OWN)).split():
            for name, (path, connected, relation) in files.items():
                _case(case, name, path, connected, relation)
    report(case="memory", peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def _files(
    folder: Path,
) -> Iterator[tuple[str, tuple[Path, Callable[[], duckdb.DuckDBPyConnection], str]]]:
    with duckdb.connect(str(folder / "rows.duckdb")) as database:
        database.execute(f"CREATE TABLE rows AS {_TABLE}")
        for name in ("parquet", "csv"):
            database.execute(f"COPY rows TO '{folder / f'rows.{name}'}'")
    for name in ("parquet", "csv"):
        path = folder / f"rows.{name}"
        yield name, (path, duckdb.connect, f"read_{name}('{path}')")
    path = folder / "rows.duckdb"
    yield "duckdb", (path, lambda: duckdb.connect(str(path), read_only=True), "rows")


def _case(
    case: str,
    name: str,
    path: Path,
    connected: Callable[[], duckdb.DuckDBPyConnection],
    relation: str,
) -> None:
    policy, own = _policy(path, case), _OWN[case].format(relation)
    times: dict[str, list[float]] = {"loaded": [], "own": []}
    for _ in range(RUNS):
        clocked(times["loaded"], lambda: load_cubes(policy, key=b"key"))
        clocked(times["own"], lambda: _run(connected, own))
    loaded, engine = (statistics.median(times[each]) for each in ("loaded", "own"))
    report(case=case, source=name, rows=ROWS, loaded_ms=round(loaded), engine_ms=round(engine))
    target(f"{case} from {name} ÷ the engine's own", loaded / engine, most=_MOST[case])


def _run(connected: Callable[[], duckdb.DuckDBPyConnection], sql: str) -> None:
    # A connection of its own, as loading has, in which nothing is cached.
    with connected() as connection:
        connection.execute(sql).fetchnumpy()


def _policy(path: Path, case: str) -> Policy:
    table: dict[str, Any] = {
        "from": "rows",
        "budget": {"epsilon": 1},
        "attributes": _ATTRIBUTES[case],
    }
    if case == "unit":
        table["privacy_unit"] = {"column": "pid", "max_rows": 3}
    return parse_policy({"source": {"url": str(path)}, "tables": {"person": table}})


if __name__ == "__main__":
    main()
