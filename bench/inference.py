"""Estimates from a history: how long an answer with its interval takes, and a purchase beside it.

The history has m releases of ranges over n cells, some of them twice. Times are by the clock; on a
machine that is busy otherwise, the processor's time for an answer stands beside it (with
OPENBLAS_NUM_THREADS=1, or threads add up). ``eq51_x`` compares with the paper's equation 51 solved
from scratch, in the same run.

    make bench NAME=inference
    SIZES=250x250 REPEATS=50 make bench NAME=inference
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from bench.measure import clocked, percentiles, report
from tallyveil.inference import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ErrorLaw,
    Noises,
    best_combinations,
    top_up,
)

SIZES = [
    tuple(map(int, size.split("x")))
    for size in os.environ.get("SIZES", "60x60,120x120,250x250,350x350").split(",")
]
REPEATS = int(os.environ.get("REPEATS", "15"))
FAMILIES: dict[str, Any] = {
    "discrete laplace": DiscreteLaplaceLaw,
    "discrete gaussian": DiscreteGaussianLaw,
}


def history(m: int, n: int, rng: np.random.Generator) -> sparse.csr_matrix:
    """Ranges [i, j) of cells, lengths spread evenly over the orders of magnitude."""
    lengths = np.minimum(n, np.ceil(n ** rng.uniform(0, 1, m))).astype(int)
    starts = (rng.uniform(0, 1, m) * (n - lengths + 1)).astype(int)
    columns = np.concatenate([np.arange(a, a + k) for a, k in zip(starts, lengths, strict=True)])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix((np.ones(len(columns), dtype=np.int64), columns, ends), shape=(m, n))


def measure(m: int, n: int, name: str) -> None:
    rng = np.random.default_rng(1)
    rows = history(m, n, rng)
    noises = Noises.of(FAMILIES[name], rng.uniform(5, 100, m))
    estimating: list[float] = []
    inverting: list[float] = []
    busy: list[float] = []
    for _ in range(REPEATS + 2):
        i, j, k = rng.integers(0, m, 3)
        query = rows[i] + rows[j] - rows[k]
        query.eliminate_zeros()
        start = time.process_time()
        [found] = clocked(estimating, best_combinations, rows, noises, query)
        if found is None:
            raise RuntimeError("a combination of rows is estimable")
        law = ErrorLaw(found.weights, noises.take(found.places))
        clocked(inverting, law.half_width, 0.95)
        busy.append((time.process_time() - start) * 1e3)
    dense, weights = rows.toarray(), 1 / noises.variances
    q = query.toarray()[0]
    scratch: list[float] = []
    for _ in range(3):
        clocked(
            scratch,
            lambda: q @ np.linalg.pinv(dense.T @ (weights[:, None] * dense), hermitian=True),
        )
    estimate = percentiles(estimating[2:])
    both = [a + b for a, b in zip(estimating[2:], inverting[2:], strict=True)]
    report(
        bench="inference", m=m, n=n, noise=name, estimate=estimate,
        interval=percentiles(inverting[2:]), answer=percentiles(both),
        answer_cpu_ms=percentiles(busy[2:])["p50_ms"],
        eq51_x=round(percentiles(scratch)["p50_ms"] / estimate["p50_ms"], 1),
    )  # fmt: skip


def purchases(terms: Sequence[int] = (3, 30, 300)) -> None:
    rng = np.random.default_rng(3)
    for name, law in FAMILIES.items():
        for m in terms:
            known = ErrorLaw(rng.exponential(1, m), Noises.of(law, rng.uniform(5, 50, m)))
            target = 0.6 * known.half_width(0.95)
            times: list[float] = []
            for _ in range(5):
                clocked(times, top_up, known, target, 0.95)
            report(bench="top-up", m=m, noise=name, p50_ms=percentiles(times)["p50_ms"])


def main() -> None:
    for m, n in SIZES:
        for name in FAMILIES:
            measure(m, n, name)
    purchases()


if __name__ == "__main__":
    main()
