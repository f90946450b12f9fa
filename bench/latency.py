"""Latency over the wire, beside DuckDB's and PostgreSQL's time for the raw query, in one run.

A table of four attributes (50 × 100 × 2 × 10 values). Every fresh question differs from all
before it, so that nothing is cached: neither its plan nor its answer. The systems are asked in
turn; ``x_duckdb`` is the ratio to plain DuckDB's median for the same query on the raw rows. A
commit of its own says how much of a fresh answer is the disk's. ``cpu_`` is what all threads of the
server compute for one statement, which shows the slow statements and not the machine's bad moments;
NaN where the system does not tell. Of 300 statements the 99th percentile is the third slowest.

    make bench NAME=latency            1,000,000 rows
    ROWS=20000000 make bench NAME=latency
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import duckdb
import psycopg

from bench.house import computed, made, served
from bench.measure import clocked, percentiles, report, target
from bench.postgres import postgresql
from tallyveil import load_policy
from tallyveil.gate import Gate
from tallyveil.gate.deciding.outcome import Answered
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.rows import noisy_tables, projected
from tallyveil.rewriter import Plan

ROWS = int(os.environ.get("ROWS", "1000000"))
REPEATS = int(os.environ.get("REPEATS", "300"))
WARMING = 5


def counts() -> Iterator[str]:
    """Counts with two predicates, each different from all before."""
    pairs = list(itertools.product(range(1, 50), range(1, 99)))
    random.Random(0).shuffle(pairs)
    for a, b in pairs:
        yield f"SELECT count(*) FROM {{table}} WHERE a < {a} AND b >= {b}"


def groupings() -> Iterator[str]:
    """100 groups, each statement over other cells than those before."""
    for a, d in itertools.product(range(1, 50), range(1, 9)):
        yield f"SELECT b, count(*) FROM {{table}} WHERE a < {a} AND d < {d} GROUP BY b"


def shapes() -> Iterator[str]:
    """Statements no two of which differ in their constants alone."""
    items = ("count(*)", "count(*) AS n", "sum(a)", "sum(a) AS s", "count(*), sum(d)", "avg(d)")
    tests = (
        "a < 7",
        "b BETWEEN 3 AND 60",
        "c = 'F'",
        "d IN (1, 2)",
        "NOT a = 3",
        "b >= 5 OR c = 'M'",
    )
    groups = ("", " GROUP BY c", " GROUP BY d", " GROUP BY c ORDER BY c")
    made = list(itertools.product(items, itertools.permutations(tests, 2), groups))
    random.Random(0).shuffle(made)
    for item, (first, second), group in made:
        keys = group.split()[2] + ", " if group else ""
        yield f"SELECT {keys}{item} FROM {{table}} WHERE {first} AND ({second}){group}"


Ask: TypeAlias = Callable[[str], object]


class System(NamedTuple):
    """Its name for the table, what asks it, how often, and the process if it is ours."""

    table: str
    ask: Ask
    repeats: int = REPEATS
    pid: int | None = None


CASES: dict[str, Callable[[], Iterator[str]]] = {
    "fresh count, two predicates": counts,
    "fresh GROUP BY, 100 groups": groupings,
    "a new shape of statement": shapes,
    "repeated count": lambda: itertools.repeat(next(counts())),
}


def measure(
    systems: dict[str, System], case: str, against: str = "duckdb", **about: object
) -> dict[str, dict[str, float]]:
    """Ask each statement of the systems in turn, so that all have the machine as it is; the figures
    that are reported of each system, with ratios to those of the system ``against``."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    spent: dict[str, list[float]] = {name: [] for name in systems}
    for number, statement in enumerate(itertools.islice(CASES[case](), REPEATS + WARMING)):
        for name, system in systems.items():
            if number < system.repeats + WARMING:
                before = computed(system.pid)
                clocked(times[name], system.ask, statement.format(table=system.table))
                spent[name].append(computed(system.pid) - before)
    found = {name: percentiles(own[WARMING:]) for name, own in times.items()}
    for name, figures in found.items():
        if systems[name].pid is not None:
            cpu = percentiles(spent[name][WARMING:])
            figures |= {f"cpu_{one}": cpu[one] for one in ("p50_ms", "p99_ms")}
            figures["cpu_p99_over_p50"] = round(cpu["p99_ms"] / cpu["p50_ms"], 2)
    for name, figures in found.items():
        for clock in ("", "cpu_"):
            if (median := f"{clock}p50_ms") in figures.keys() & found[against].keys():
                ratio = figures[median] / found[against][median]
                figures[f"{clock}x_{against}"] = round(ratio, 3)
        report(**about, case=case, system=name, **figures)
    return found


def asker(connection: psycopg.Connection[Any]) -> Callable[[str], object]:
    return lambda sql: connection.execute(sql.encode()).fetchall()


@contextmanager
def postgres(folder: Path, rows: Path) -> Iterator[psycopg.Connection[Any] | None]:
    """A PostgreSQL with the raw rows, or None where it is not installed."""
    with ExitStack() as stack:
        try:
            port, _ = stack.enter_context(postgresql(folder))
        except FileNotFoundError:
            yield None
            return
        address = f"host=127.0.0.1 port={port} user=bench dbname=postgres"
        connection = stack.enter_context(psycopg.connect(address, autocommit=True))
        connection.execute("CREATE TABLE rows (a int, b int, c text, d int)")
        with connection.cursor().copy("COPY rows FROM STDIN (FORMAT csv)") as copy:
            copy.write(rows.read_bytes())
        connection.execute("VACUUM ANALYZE rows")
        yield connection


@contextmanager
def commits(folder: Path) -> Iterator[Ask]:
    """A durable commit beside the ledger, of about what a release writes: the disk's share."""
    with closing(sqlite3.connect(folder / "commits.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE release (body BLOB)")
        yield lambda _: database.execute("INSERT INTO release VALUES (?)", (bytes(1000),))


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        policy = made(folder, ROWS, a=50, b=100)
        source = stack.enter_context(duckdb.connect(str(folder / "raw.duckdb")))
        source.execute(f"CREATE TABLE rows AS FROM '{folder / 'rows.parquet'}'")
        port, pid = stack.enter_context(served(policy))
        ours = stack.enter_context(
            psycopg.connect(f"postgresql://bench@127.0.0.1:{port}/bench", autocommit=True)
        )
        systems = {
            "duckdb": System("rows", lambda query: source.execute(query).fetchall()),
            "tallyveil": System("person", asker(ours), pid=pid),
            "a commit alone": System("", stack.enter_context(commits(folder))),
        }
        if ROWS <= 2_000_000:
            source.execute(f"COPY rows TO '{folder / 'rows.csv'}' (HEADER false)")
            raw = stack.enter_context(postgres(folder, folder / "rows.csv"))
            if raw is not None:
                systems["postgresql"] = System("rows", asker(raw), min(REPEATS, 30))
        for case in CASES:
            found = measure(systems, case, bench="latency", rows=ROWS)
            far = found["tallyveil"]["cpu_p99_over_p50"]
            target(f"99th percentile to the median of computing, {case}", far, most=2)
        stages(policy)


def stages(policy: Path) -> None:
    """Where a fresh statement's time goes, in process: parse, plan, decide (the durable commit, Wx,
    noise), the statement over noisy rows."""
    gate = Gate(load_policy(policy))
    session = gate.session("bench", "bench")
    cursor = gate.database.cursor()
    asked = session.settings.target

    def outer(plan: Plan, answered: Answered) -> None:
        tables = noisy_tables(plan, answered, asked.confidence)
        if plan.projection is not None:
            projected(plan.projection, tables[plan.noisy[0].name])
            return
        with cursor.tables(tables):
            cursor.rows(plan.sql)

    for case, statements in (("count", counts()), ("GROUP BY", groupings())):
        spent: dict[str, list[float]] = {"parse": [], "plan": [], "decide": [], "outer": []}
        for statement in itertools.islice(statements, REPEATS + 5, REPEATS + 65):
            sql = statement.format(table="person")
            clocked(spent["parse"], session.parse, sql)
            plan = clocked(spent["plan"], gate.rewriter.plan, sql, "postgres", cursor)
            request = Request(plan.workloads, asked, "fresh", "laplace", sql, "bench")
            answered = clocked(spent["decide"], gate.decision.answer, request)
            clocked(spent["outer"], outer, plan, answered)
        for stage, times in spent.items():
            figures = percentiles(times)
            report(bench="latency", rows=ROWS, case=f"stages of {case}", stage=stage, **figures)
    cursor.close()
    session.close()
    gate.close()


if __name__ == "__main__":
    main()
