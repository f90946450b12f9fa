"""The experiments of BAYES §6: running times and errors of estimates and posteriors, and §6.4.

    make bench NAME=bayes
    SHARED=… PARTS=estimates,posteriors make bench NAME=bayes

PARTS: estimates (§6.2), posteriors (§6.3), answering (§6.4, in `bench.bayes_answering`, which says
what QUERIES, TRIALS, SYSTEMS and SHARED are). `bench.bayes_plots` draws the lines printed here.

Estimates are those of `tallyveil.inference.Fit`, which decomposes a history once. The three ways to
the posterior are the inversion of the characteristic function (`paper_posteriors.LaplaceSum`), the
paper's probability calculation with γ = 0.01, and its Monte Carlo with 10⁵ samples; how many §6.3
prescribes is printed beside that, and its time is proportional. Errors are those of Definition
4.6, Σ (u_i − E u_i)² over unit bins, with the inversion's probabilities as E u_i; its own error is
how far its bounds are apart, and is printed too. Times are medians of the process's own time, so
that other work on the machine counts for little; set OPENBLAS_NUM_THREADS=1, or threads add up.
Noise is drawn by NumPy: nothing here is released.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy import sparse

from bench import bayes_answering
from bench.measure import report
from bench.paper_posteriors import LaplaceSum, expected_error, monte_carlo, probability_calculation
from tallyveil.arrays import FloatArray
from tallyveil.inference import DiscreteLaplaceLaw, Fit, Noises

PARTS = os.environ.get("PARTS", "estimates,posteriors,answering").split(",")
CONFIDENCE = 0.8
LOST = 0.01  # γ
SPARSITY = 0.1


def history(
    m: int, n: int, largest: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """H with coefficients up to ``largest`` (max S), a tenth of them not 0, and b = S/α with α
    uniform on (0, 1]. One row has a 1 in each cell, so that each is mentioned."""
    h = (rng.integers(1, largest + 1, (m, n)) * (rng.random((m, n)) < SPARSITY)).astype(float)
    h[0] = 1
    return h, np.maximum(1, h.max(axis=1)) / (1 - rng.random(m))


def median(call: Callable[[], object], repeats: int) -> float:
    """Milliseconds of processor time."""
    times: list[float] = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append((time.process_time() - start) * 1e3)
    return round(statistics.median(times), 3)


def estimates(sizes: Sequence[tuple[int, int]], figure: str, repeats: int = 10) -> None:
    """§6.2: the time of one estimate of a history that is decomposed, of the decomposition, and of
    solving eq. 50 from scratch; max S = 10."""
    rng = np.random.default_rng(1)
    for m, n in sizes:
        h, scales = history(m, n, 10, rng)
        rows, noises = sparse.csr_matrix(h), Noises.of(DiscreteLaplaceLaw, scales)
        fit = Fit.of(rows, noises, 1)
        decomposed = median(partial(Fit.of, rows, noises, 1), 1)
        q = rng.integers(0, 2, n).astype(float)

        def scratch(h: FloatArray = h, scales: FloatArray = scales, q: FloatArray = q) -> object:
            weighted = (h / (2 * scales**2)[:, None]).T
            return np.linalg.solve(weighted @ h, q) @ weighted

        query = sparse.csr_matrix(q)
        own = median(partial(fit.weights, query), repeats)
        theirs = median(scratch, 3)
        report(
            bench="5", against=figure, m=m, n=n, rank=len(fit.inverse),
            decomposed_ms=decomposed, estimate_ms=own, eq50_ms=theirs,
            eq50_x=round(theirs / own, 1),
        )  # fmt: skip


def combination(m: int, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """A and b of the estimate of a query of 5 draws of a cell, with max S = 5."""
    h, scales = history(m, n, 5, rng)
    fit = Fit.of(sparse.csr_matrix(h), Noises.of(DiscreteLaplaceLaw, scales), 1)
    return fit.weights(sparse.csr_matrix(rng.multinomial(5, np.full(n, 1 / n)))), scales


def prescribed(mass: FloatArray) -> int:
    """§6.3's m_s: max(10⁴, |u|/γ² max u (1 − max u) + 1), u from the probability calculation."""
    top = float(mass.max())
    return max(10_000, math.ceil(len(mass) / LOST**2 * top * (1 - top) + 1))


def posteriors(
    against: str, a: FloatArray, scales: FloatArray, samples: int, **fields: object
) -> None:
    """One line for the three methods at this A and b."""
    rng = np.random.default_rng(2)
    law = LaplaceSum(a, scales)
    own = median(lambda: LaplaceSum(a, scales).half_width(CONFIDENCE), 7)
    apart = law.within(law.half_width(CONFIDENCE))
    calculated = probability_calculation(a, scales, LOST)
    pc = median(lambda: probability_calculation(a, scales, LOST), 3)
    start = time.process_time()
    sampled = monte_carlo(a, scales, samples, rng)
    mc = round((time.process_time() - start) * 1e3, 2)
    report(
        bench="posterior", against=against, m=len(a), **fields,
        beta=round(float((np.abs(a) * scales).sum() ** 2), 1), samples=samples,
        prescribed=prescribed(calculated),
        inversion_ms=own, inversion_apart=apart.upper - apart.lower,
        probability_calculation_ms=pc, probability_calculation_x=round(pc / own, 1),
        probability_calculation_error=squared(calculated, law), promised=LOST**2,
        monte_carlo_ms=mc, monte_carlo_x=round(mc / own, 1),
        monte_carlo_error=squared(sampled, law), monte_carlo_bound=expected_error(sampled, samples),
    )  # fmt: skip


def squared(mass: FloatArray, law: LaplaceSum) -> float:
    """Definition 4.6, against the inversion's probabilities of the bins; those beyond the interval
    of 1 − 10⁻⁹ count as 0."""
    middle = len(mass) // 2
    reach = min(middle, math.ceil(law.half_width(1 - 1e-9)))
    edges = [law.within(i + 0.5).lower for i in range(reach + 1)]
    right = np.diff(edges) / 2
    expected = np.zeros(len(mass))
    expected[middle - reach : middle + reach + 1] = [*right[::-1], edges[0], *right]
    return float(((mass - expected) ** 2).sum())


def methods(
    rows: Sequence[int], cells: Sequence[int], widths: Sequence[float], samples: Sequence[int]
) -> None:
    """§6.3: against m (n = 100), n (m = 500), β (m = 1000, all noise wider), m_s (m = 200); where
    the samples do not vary there are as many as in the first of ``samples``."""
    few = samples[0]
    rng = np.random.default_rng(3)
    for m in rows:
        posteriors("m", *combination(m, min(100, m // 2), rng), few, n=min(100, m // 2))
    for n in cells:
        posteriors("n", *combination(5 * max(cells), n, rng), few, n=n)
    a, scales = combination(max(rows), min(100, max(rows) // 2), rng)
    for width in widths:
        posteriors("beta", a, width * scales, few, wider=width)
    a, scales = combination(min(rows), min(100, min(rows) // 2), rng)
    for number in samples:
        posteriors("samples", a, scales, number)


def main() -> None:
    if "estimates" in PARTS:
        estimates([(m, 100) for m in range(200, 2001, 200)], "m")
        estimates([(2 * n, n) for n in range(100, 1001, 100)], "n")
    if "posteriors" in PARTS:
        methods(
            range(200, 1001, 100), range(20, 101, 20), [4.0**k for k in range(7)],
            range(100_000, 1_000_001, 100_000),
        )  # fmt: skip
    if "answering" in PARTS:
        bayes_answering.main()


if __name__ == "__main__":
    main()
