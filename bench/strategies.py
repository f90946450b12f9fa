"""Errors of whole statements through the gate: as asked, and by the rows that strategies buy.

By workload, measure and objective: the sum of all dp_stddev² at ε = 1 or ρ = 1, of a record more or
less, and the milliseconds of processor time of a first answer and of its repetition. Beside them
are figures of the families of HDMM (McKenna et al. 2018), of ResidualPlanner (Xiao et al. 2023) and
of the bound of Li & Miklau (2013), of continuous noise.

    make bench NAME=strategies
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np

import tallyveil
from bench.measure import report
from tallyveil.gate import Gate
from tallyveil.inference.designs.lattice import Lattice
from tallyveil.inference.designs.p_identity import p_identity
from tallyveil.inference.designs.root import root, variances

BUDGETS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 1000.0},
    "rho": {"rho": 1000.0, "delta": 1e-9},
}
# UCI Adult's education, occupation, workclass, hours in eight bins, marital status, relationship,
# race, sex and income: 2,148 rows in all.
NINE = (16, 15, 9, 8, 7, 6, 5, 2, 2)


class Workload(NamedTuple):
    """``sizes``: of the attributes a, b, …; ``keys``: SQL of a public table to join."""

    sizes: tuple[int, ...]
    sql: str
    keys: str = "SELECT 0 AS k"


def sets(sizes: tuple[int, ...], chosen: Any) -> Workload:
    names = "abcdefghi"[: len(sizes)]
    every = ", ".join(f"({', '.join(names[n] for n in own)})" for own in chosen)
    sql = f"SELECT count(*) AS n, dp_stddev(n) FROM t GROUP BY GROUPING SETS ({every})"
    return Workload(sizes, sql)


def marginals(number: int, *ways: int) -> list[tuple[int, ...]]:
    return [own for way in ways for own in itertools.combinations(range(number), way)]


def filters(n: int) -> Workload:
    each = [f"count(*) FILTER (WHERE a <= {k}) AS n{k}, dp_stddev(n{k})" for k in range(n)]
    return Workload((n,), f"SELECT {', '.join(each)} FROM t")


def joined(n: int) -> Workload:
    sql = "SELECT count(*) AS n, dp_stddev(n) FROM t JOIN keys ON a <= k GROUP BY k"
    return Workload((n,), sql, f"SELECT i AS k FROM range({n}) x(i)")


def windows(n: int) -> Workload:
    total = "sum(count(*)) OVER (ORDER BY a) AS n"
    return Workload((n,), f"SELECT {total}, dp_stddev(n) FROM t GROUP BY a")


RANGES = Workload(
    (64,),
    "SELECT count(*) AS n, dp_stddev(n) FROM t JOIN keys ON a BETWEEN low AND high"
    " GROUP BY low, high",
    "SELECT x.i AS low, y.i AS high FROM range(64) x(i), range(64) y(i) WHERE x.i <= y.i",
)
WORKLOADS = {
    "3-way of 5×4": sets((4,) * 5, marginals(5, 3)),
    "CUBE 10³": sets((10,) * 3, marginals(3, 3, 2, 1, 0)),
    "ROLLUP 8, 16, 20": sets((8, 16, 20), [(0, 1, 2), (0, 1), (0,), ()]),
    "nine attributes, 1- and 2-way": sets(NINE, marginals(9, 1, 2)),
    "prefixes 64, FILTER": filters(64),
    "prefixes 64, join": joined(64),
    "prefixes 64, window": windows(64),
    "prefixes 256, FILTER": filters(256),
    "prefixes 256, join": joined(256),
    "prefixes 256, window": windows(256),
    "ranges 64": RANGES,
    "GROUP BY 100": sets((100,), [(0,)]),
}


def main() -> None:
    for name, workload in WORKLOADS.items():
        for measure in BUDGETS:
            for strategy, objective in (("direct", "auto"), ("auto", "auto"), ("auto", "total")):
                _measure(name, workload, measure, strategy, objective)
    _published()


def _measure(name: str, workload: Workload, measure: str, strategy: str, objective: str) -> None:
    names = "abcdefghi"[: len(workload.sizes)]
    with duckdb.connect() as source, tempfile.TemporaryDirectory() as base:
        each = list(zip(names, workload.sizes, strict=True))
        columns = [f"i * {2 * k + 3} % {n} AS {a}" for k, (a, n) in enumerate(each)]
        source.execute(f"CREATE TABLE records AS SELECT {', '.join(columns)} FROM range(2000) x(i)")
        table = {
            "from": "records",
            "budget": BUDGETS[measure],
            "attributes": {a: {"range": [0, n - 1]} for a, n in each},
        }
        keys = {
            "tables": {"t": table},
            "public": {"keys": {"from": workload.keys}},
            "defaults": {measure: 1},
        }
        policy = tallyveil.parse_policy(keys, base=Path(base))
        with tallyveil.Connection(Gate(policy, source, time_limit=600)) as connection:
            connection.execute(f"SET dp.strategy = {strategy}")
            connection.execute(f"SET dp.objective = {objective}")
            times = []
            for _ in range(2):
                start = time.process_time()
                cursor = connection.execute(workload.sql)
                rows, names_of = cursor.fetchall(), [one[0] for one in cursor.description or ()]
                times.append(round((time.process_time() - start) * 1e3))
            of = [n for n, one in enumerate(names_of) if one.startswith("dp_stddev")]
            squares = [row[n] ** 2 for row in rows for n in of]
    report(
        workload=name,
        measure=measure,
        strategy=strategy,
        objective=objective,
        total=round(float(np.sum(squares)), 1),
        worst=round(max(squares), 2),
        milliseconds=times,
    )


def _published() -> None:
    """Designs by themselves, at ε = 1 and ρ = 1."""

    def lattice(workload: Workload, chosen: list[tuple[int, ...]]) -> Lattice:
        sizes = workload.sizes
        asked = [tuple(1 if n in own else size for n, size in enumerate(sizes)) for own in chosen]
        return Lattice(tuple((1, size) for size in sizes), tuple(asked))

    for name, chosen in (
        ("3-way of 5×4", marginals(5, 3)),
        ("CUBE 10³", marginals(3, 3, 2, 1, 0)),
        ("ROLLUP 8, 16, 20", [(0, 1, 2), (0, 1), (0,), ()]),
        ("nine attributes, 1- and 2-way", marginals(9, 1, 2)),
    ):
        own = lattice(WORKLOADS[name], chosen)
        planner = own.heights @ np.array(own.contrasts("total").variances)
        union = own.heights @ np.array(own.union("epsilon", "total").variances)
        report(
            workload=name,
            residual_planner_rho=round(float(planner), 1),
            weighted_marginals_epsilon=round(float(union), 1),
            bound_rho=round(own.bound("rho"), 1),
        )
    ends = [(a, b) for a in range(64) for b in range(a, 64)]
    ranges = np.array([[a <= j <= b for j in range(64)] for a, b in ends], dtype=float)
    for name, rows in (
        ("prefixes 64", np.tril(np.ones((64, 64)))),
        ("prefixes 256", np.tril(np.ones((256, 256)))),
        ("ranges 64", ranges),
    ):
        identity, by_root = p_identity(rows), root(rows)
        scale = np.abs(identity).sum(axis=0).max()
        nuclear = np.linalg.svd(rows, compute_uv=False).sum()
        report(
            workload=name,
            hdmm_p_identity_epsilon=round(float(2 * scale**2 * variances(rows, identity).sum()), 1),
            root_rho=round(
                float(variances(rows, by_root).sum() * (by_root**2).sum(axis=0).max() / 2), 2
            ),
            bound_rho=round(float(nuclear**2 / (2 * rows.shape[1])), 2),
        )


if __name__ == "__main__":
    main()
