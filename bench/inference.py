"""Estimates from a history: how long an answer with its interval takes, and a new release.

The history has m releases of ranges over n cells, some of them twice. Times are by the clock; on a
machine that is busy otherwise, the processor's time for an answer stands beside it (with
OPENBLAS_NUM_THREADS=1, or threads add up). Each line's ratios compare medians in the same run: the
paper's equation 51 solved from scratch, and its Monte Carlo (10⁵ samples) and discrete probability
calculation (γ = 0.01) for the interval.

    make bench NAME=inference
    SIZES=1000x1000 REPEATS=50 make bench NAME=inference
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from bench.measure import clocked, percentiles, report
from tallyveil.inference import (
    ErrorLaw,
    Estimator,
    Law,
    Noises,
    mass_within,
    monte_carlo,
    probability_calculation,
    top_up,
)

SIZES = [
    tuple(map(int, size.split("x")))
    for size in os.environ.get("SIZES", "250x250,500x500,1000x1000,2000x1000,5000x10000").split(",")
]
REPEATS = int(os.environ.get("REPEATS", "15"))
DENSE_LIMIT = 2000
LAWS = {"laplace": Law.LAPLACE, "discrete laplace": Law.DISCRETE_LAPLACE}


def history(m: int, n: int, rng: np.random.Generator) -> sparse.csr_matrix:
    """Ranges [i, j) of cells, lengths spread evenly over the orders of magnitude."""
    lengths = np.minimum(n, np.ceil(n ** rng.uniform(0, 1, m))).astype(int)
    starts = (rng.uniform(0, 1, m) * (n - lengths + 1)).astype(int)
    columns = np.concatenate([np.arange(a, a + k) for a, k in zip(starts, lengths, strict=True)])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix((np.ones(len(columns)), columns, ends), shape=(m, n))


def median(call: Callable[[], object], repeats: int = REPEATS) -> float:
    times: list[float] = []
    for _ in range(repeats):
        clocked(times, call)
    return percentiles(times)["p50_ms"]


def measure(m: int, n: int, name: str) -> None:
    rng = np.random.default_rng(1)
    rows = history(m, n, rng)
    scales = rng.uniform(5, 100, m)
    answers = rng.integers(0, 1000, m).astype(float)
    estimator = Estimator(n)
    loading: list[float] = []
    clocked(loading, estimator.observe, rows, answers, Noises.of(LAWS[name], scales))
    estimating: list[float] = []
    inverting: list[float] = []
    observing: list[float] = []
    both: list[float] = []
    busy: list[float] = []
    for _ in range(REPEATS + 2):
        i, j, k = rng.integers(0, m, 3)
        query = rows[i] + rows[j] - rows[k]
        start = time.process_time()
        found = clocked(estimating, estimator.estimate, query)
        if found is None:
            raise RuntimeError("a combination of rows is estimable")
        clocked(inverting, found.posterior.interval, 0.95)
        both.append(estimating[-1] + inverting[-1])
        busy.append((time.process_time() - start) * 1e3)
    for row in history(5, n, rng):
        noise = Noises.of(LAWS[name], [20.0])
        clocked(observing, estimator.observe, row, [0.0], noise)
    fields: dict[str, object] = {}
    if n <= DENSE_LIMIT:
        dense, weights = rows.toarray(), 1 / (2 * scales**2)
        q = query.toarray()[0]
        scratch = median(
            lambda: q @ np.linalg.pinv(dense.T @ (weights[:, None] * dense), hermitian=True), 3
        )
        fields["eq51_x"] = round(scratch / percentiles(estimating[2:])["p50_ms"], 1)
    report(
        bench="inference", m=m, n=n, noise=name, rank=estimator.rank,
        load_ms=round(loading[0], 1), estimate=percentiles(estimating[2:]),
        interval=percentiles(inverting[2:]), answer=percentiles(both[2:]),
        answer_cpu_ms=percentiles(busy[2:])["p50_ms"], observe=percentiles(observing), **fields,
    )  # fmt: skip


def intervals(terms: Sequence[int] = (10, 100, 1000, 5000), samples: int = 100_000) -> None:
    """The interval of m Laplace terms by inversion, Monte Carlo and probability calculation."""
    rng = np.random.default_rng(2)
    for m in terms:
        a, scales = rng.exponential(0.3, m), rng.uniform(1, 20, m)
        noises = Noises.of(Law.LAPLACE, scales)
        own = median(lambda a=a, n=noises: ErrorLaw(a, n).half_width(0.95))  # type: ignore[misc]
        law = ErrorLaw(a, noises)
        bounds = law.within(law.half_width(0.95))
        mc = median(lambda a=a, s=scales: monte_carlo(a, s, samples, rng), 3)  # type: ignore[misc]
        pc = median(lambda a=a, s=scales: probability_calculation(a, s), 3)  # type: ignore[misc]
        h = round(law.half_width(0.95))
        exact = law.within(h + 0.5).lower
        report(
            bench="interval", m=m, inversion_ms=own, error=bounds.upper - bounds.lower,
            monte_carlo_x=round(mc / own, 1), probability_calculation_x=round(pc / own, 1),
            monte_carlo_off=abs(mass_within(monte_carlo(a, scales, samples, rng), h) - exact),
            probability_calculation_off=abs(
                mass_within(probability_calculation(a, scales), h) - exact
            ),
        )  # fmt: skip


def purchases(terms: Sequence[int] = (3, 30, 300)) -> None:
    rng = np.random.default_rng(3)
    for name, law in LAWS.items():
        for m in terms:
            known = ErrorLaw(rng.exponential(1, m), Noises.of(law, rng.uniform(5, 50, m)))
            target = 0.6 * known.half_width(0.95)
            time = median(lambda k=known, t=target: top_up(k, t, 0.95), 5)  # type: ignore[misc]
            report(bench="top-up", m=m, noise=name, p50_ms=time)


def main() -> None:
    for m, n in SIZES:
        for name in LAWS:
            measure(m, n, name)
    intervals()
    purchases()


if __name__ == "__main__":
    main()
