"""Planning, and cubes too large to write out.

Cold is planning a statement for the first time, warm asking the gate's cache for it. Answer times
include everything: plan, decision, durable charge, Wx, noise, the outer query.
Every fresh question differs from those before it.

    make bench NAME=rewrite            1,000,000 rows
    ROWS=100000 REPEATS=20 make bench NAME=rewrite
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from bench.measure import clocked, percentiles, report
from tallyveil import Policy, parse_policy
from tallyveil.gate import Gate
from tallyveil.gate.session import GateSession
from tallyveil.rewriter import Query

ROWS = int(os.environ.get("ROWS", "1000000"))
REPEATS = int(os.environ.get("REPEATS", "30"))

CONSTRUCTS = {
    "count": "SELECT count(*) FROM person WHERE a0 < {v}",
    "conjunction of 3": "SELECT count(*) FROM person WHERE a0 < {v} AND a1 = 2 AND a2 IN (1, 3)",
    "disjunction of 2": "SELECT count(*) FROM person WHERE a0 < {v} OR a1 = 2",
    "10 groups": "SELECT a1, count(*) FROM person WHERE a0 < {v} GROUP BY a1",
    "100 groups": "SELECT a1, a2, count(*) FROM person WHERE a0 < {v} GROUP BY 1, 2",
    "1000 groups": "SELECT a1, a2, a3, count(*) FROM person WHERE a0 < {v} GROUP BY 1, 2, 3",
    "group by expression of 2": "SELECT a1 + a2, count(*) FROM person WHERE a0 < {v} GROUP BY 1",
    "rollup of 3": "SELECT a1, a2, a3, count(*) FROM person WHERE a0 < {v} "
    "GROUP BY ROLLUP (a1, a2, a3)",
    "cube of 3": "SELECT a1, a2, a3, count(*) FROM person WHERE a0 < {v} "
    "GROUP BY CUBE (a1, a2, a3)",
    "join": "SELECT name, count(*) FROM person JOIN region ON a1 = code WHERE a0 < {v} GROUP BY 1",
    "common table": "WITH picked AS (SELECT a1, a2 FROM person WHERE a0 < {v}) "
    "SELECT a1, count(*) FROM picked GROUP BY 1",
    "union all of 3": "SELECT x, count(*) FROM (SELECT a1 AS x FROM person WHERE a0 < {v} "
    "UNION ALL "
    "SELECT a2 FROM person UNION ALL SELECT a3 FROM person) AS united GROUP BY 1",
    "window above": "SELECT a1, count(*) / sum(count(*)) OVER () FROM person WHERE a0 < {v} "
    "GROUP BY a1",
    "5 blocks": "SELECT "
    + ", ".join(f"(SELECT count(*) FROM person WHERE a0 < {{v}} AND a1 = {n})" for n in range(5)),
    "exists": "SELECT count(*) FROM person WHERE a0 < {v} AND EXISTS "
    "(SELECT 1 FROM region WHERE code = a1 AND name = 'even')",
    "sum, avg": "SELECT sum(a1), avg(a2) FROM person WHERE a0 < {v}",
    "sum of a product": "SELECT sum(a1 * a2 * a3) FROM person WHERE a0 < {v}",
    "filter": "SELECT count(*) FILTER (WHERE a1 = 1 AND a2 = 2) FROM person WHERE a0 < {v}",
    "case": "SELECT sum(CASE WHEN a1 > a2 THEN 1 ELSE 0 END) FROM person WHERE a0 < {v}",
    "having, order, limit": "SELECT a1, count(*) AS n FROM person WHERE a0 < {v} GROUP BY 1 "
    "HAVING count(*) > 10 ORDER BY n DESC LIMIT 3",
    "subquery": "SELECT avg(n) FROM (SELECT a1, count(*) AS n FROM person WHERE a0 < {v} "
    "GROUP BY 1) AS groups",
}


def policy(axes: int, cells: int, base: Path) -> Policy:
    attributes = {f"a{n}": {"range": [0, cells - 1]} for n in range(axes)}
    table = {"attributes": attributes, "budget": {"epsilon": 10**5}}
    return parse_policy(
        {
            "tables": {"person": table},
            "public": {"region": {"from": "region"}},
            "defaults": {"epsilon": 1.0},
            "ledger": str(base / f"{axes}.sqlite"),
        },
        base=base,
    )


def opened(axes: int, cells: int, base: Path) -> Gate:
    with duckdb.connect(":memory:") as source:
        columns = ", ".join(f"hash(i + {n} * 1000003) % {cells} AS a{n}" for n in range(axes))
        source.execute(f"CREATE TABLE person AS SELECT {columns} FROM range({ROWS}) r(i)")
        source.execute(
            "CREATE TABLE region AS SELECT range AS code, "
            "CASE WHEN range % 2 = 0 THEN 'even' ELSE 'odd' END AS name FROM range(10)"
        )
        return Gate(policy(axes, cells, base), source)


def execute(session: GateSession, sql: str) -> Any:
    (statement,) = session.parse(sql)
    return session.execute(statement)


def describe(session: GateSession, sql: str) -> Any:
    (statement,) = session.parse(sql)
    return session.describe(statement)


def query(session: GateSession, sql: str) -> Query:
    (statement,) = session.parse(sql)
    if statement.query is None:
        raise ValueError(f"{sql} is no query")
    return statement.query


def planning(gate: Gate) -> None:
    session = gate.session()
    for name, template in CONSTRUCTS.items():
        cold: list[float] = []
        warm: list[float] = []
        same = query(session, template.format(v=5))
        for n in range(REPEATS):
            sql = template.format(v=f"5 + 0 * {n}")
            clocked(cold, session._planner.plan, query(session, sql))
        session._planner.plan(same)
        for _ in range(REPEATS * 10):
            clocked(warm, session._planner.plan, same)
        report(bench="plan", construct=name, cold=percentiles(cold), warm=percentiles(warm))
    session.close()


def answering(gate: Gate, axes: int, cells: int) -> None:
    """Counts and groups over separate attributes of a cube that is never written out."""
    session = gate.session()
    size = cells**axes
    for mentioned in range(1, axes + 1):
        times: list[float] = []
        for n in range(REPEATS):
            # Each bound is another digit of n, so that no two questions are alike.
            bounds = [1 + (n // 8**k) % 8 for k in range(mentioned)]
            where = " AND ".join(f"a{k} >= {b}" for k, b in enumerate(bounds))
            sql = f"SELECT count(*) FROM person WHERE {where} AND {n} = {n}"
            clocked(times, execute, session, sql)
        report(bench="count", cube=size, rows=ROWS, attributes=mentioned, fresh=percentiles(times))
    for keys in range(1, 5):
        times = []
        names = ", ".join(f"a{n}" for n in range(keys))
        rest = " AND ".join(f"a{n} <> 0" for n in range(keys, axes))
        for n in range(max(3, REPEATS // 10)):
            sql = f"SELECT {names}, count(*) FROM person WHERE {rest} AND a{axes - 1} <> {1 + n} "
            clocked(times, execute, session, sql + f"GROUP BY {names}")
        report(bench="group by", cube=size, rows=ROWS, groups=cells**keys, fresh=percentiles(times))
    session.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for axes, cells in ((9, 10), (12, 10)):
            loading: list[float] = []
            gate = clocked(loading, opened, axes, cells, Path(directory))
            report(bench="load", cube=cells**axes, rows=ROWS, **percentiles(loading))
            if axes == 9:
                planning(gate)
            answering(gate, axes, cells)
            gate.close()


if __name__ == "__main__":
    main()
