r"""Questions about the catalogs, beside a real PostgreSQL that is asked the same in turn.

``over_ms`` is what the server adds, as the median; `\d` is psql's, in ms of one of twenty.

    make bench NAME=catalog
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import psycopg

from bench.house import made, served
from bench.measure import clocked, percentiles, report, target
from bench.postgres import postgresql, program

ROUNDS: Final = 300
MANY: Final = 21

STATEMENTS: Final = {
    "one row": "SELECT relname, relkind FROM pg_class WHERE relname = 'pg_class'",
    "joined": "SELECT n.nspname, c.relname, a.attname FROM pg_class c JOIN pg_namespace n "
    "ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid "
    "WHERE c.relname = 'pg_class' AND a.attnum > 0 ORDER BY a.attnum",
    "information_schema": "SELECT table_name FROM information_schema.tables LIMIT 10",
}


def compare(name: str, own: str, ours: str) -> None:
    """Both by turns, on a connection each."""
    times: dict[str, list[float]] = {own: [], ours: []}
    with psycopg.connect(own, autocommit=True) as a, psycopg.connect(ours, autocommit=True) as b:
        for _ in range(ROUNDS):
            for address, connection in ((own, a), (ours, b)):
                clocked(times[address], connection.execute, STATEMENTS[name])
    over = statistics.median(times[ours]) - statistics.median(times[own])
    report(bench="catalog", case=name, over_ms=round(over, 3), **percentiles(times[ours]))
    target(f"ms over PostgreSQL's own, {name}", over, most=1)


def describe(address: str, table: str) -> float:
    r"""Milliseconds of one \d, without what psql takes to start."""

    def run(count: int) -> float:
        start = time.perf_counter()
        commands = [part for _ in range(count) for part in ("-c", rf"\d {table}")]
        subprocess.run([program("psql"), "-X", address, *commands], check=True, capture_output=True)
        return time.perf_counter() - start

    return statistics.median(run(MANY) - run(1) for _ in range(min(5, ROUNDS))) / (MANY - 1) * 1e3


def measure(port: int, our_port: int) -> None:
    """PostgreSQL on one port, ours on the other."""
    own = f"postgresql://bench@127.0.0.1:{port}/postgres"
    ours = f"postgresql://bench@127.0.0.1:{our_port}/tallyveil"
    for name in STATEMENTS:
        compare(name, own, ours)
    taken = describe(ours, "person")
    theirs = describe(own, "pg_am")
    report(bench="catalog", case=r"\d person", ms=round(taken, 2), postgresql_ms=round(theirs, 2))
    target(r"ms of \d person", taken, most=50)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tv") as name:
        folder = Path(name)
        with (
            postgresql(folder) as (port, _),
            served(made(folder, 1000)) as (our_port, _),
        ):
            measure(port, our_port)


if __name__ == "__main__":
    main()
