"""The experiments of BAYES §6: running times, errors, and the query-answering system.

    make bench NAME=bayes
    SHARED=… QUERIES=1000 TRIALS=3 make bench NAME=bayes    a folder that has data/adult.csv

§6.2, 6.3: the estimate against m and n, the three posteriors against m and the sample size.
§6.4: 1000 queries, multinomial over the first 40 cells of a histogram, δ = 0.2. Systems:

- baseline: each query bought at α = S ln(1/δ)/ε (Theorem 5.3), while the budget lasts;
- paper: the estimate from history where its interval is narrow enough, else bought as above;
- ols: as paper, but the estimate weighs all answers alike (Li et al. 2010), interval by inversion;
- top-up: as paper, but what is bought is the least that together with history is enough.

The histogram is Adult's ages, or a made-up one where SHARED is not set; the figures of merit do not
depend on it, since the error of an unbiased estimate does not. Noise is drawn by NumPy: nothing
here is released.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.measure import clocked, percentiles, report
from tallyveil.inference import (
    ErrorLaw,
    Estimate,
    Estimator,
    Law,
    Noises,
    expected_error,
    monte_carlo,
    probability_calculation,
    top_up,
)
from tallyveil.inference.noise import FloatArray

QUERIES = int(os.environ.get("QUERIES", "1000"))
TRIALS = int(os.environ.get("TRIALS", "3"))
PARTS = os.environ.get("PARTS", "all")  # methods: §6.2 and 6.3; answering: §6.4
SYSTEMS = os.environ.get("SYSTEMS", "baseline,ols,paper,top-up").split(",")
CELLS = 40
DELTA = 0.2
CONFIDENCE = 0.8


def histogram() -> FloatArray:
    """Adult's records by age from 17 on, or made-up counts."""
    folder = os.environ.get("SHARED")
    if folder is None:
        return np.random.default_rng(9).integers(0, 1000, CELLS).astype(float)
    with (Path(folder) / "data" / "adult.csv").open() as file:
        ages = [int(row["age"]) - 17 for row in csv.DictReader(file)]
    return np.bincount(ages, minlength=CELLS)[:CELLS].astype(float)


def queries(number: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """n_t uniform on 1 … 10, P_j = 0.09 · 10^{−⌊(j−1)/10⌋}: as printed, eq. 73 sums to 10."""
    p = 0.09 * 10.0 ** -(np.arange(CELLS) // 10)
    p /= p.sum()
    for _ in range(number):
        yield rng.multinomial(rng.integers(1, 11), p).astype(float)


@dataclass
class System:
    """One way to answer, with what it has spent on each cell."""

    name: str
    x: FloatArray
    budget: float
    rng: np.random.Generator
    estimator: Estimator = field(default_factory=lambda: Estimator(CELLS))
    rows: list[FloatArray] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    spent: FloatArray = field(default_factory=lambda: np.zeros(CELLS))

    def bought(self, q: FloatArray, scale: float) -> float | None:
        """The noisy answer, if every cell can pay |q_j| / b (Theorem 5.5)."""
        cost = np.abs(q) / scale
        if (self.spent + cost).max() > self.budget:
            return None
        self.spent += cost
        value = float(q @ self.x + self.rng.laplace(0, scale))
        self.remember(q, value, scale)
        return value

    def remember(self, q: FloatArray, value: float, scale: float) -> None:
        self.rows.append(q)
        self.scales.append(scale)
        self.answers.append(value)
        self.estimator.observe(q, [value], Noises.of(Law.LAPLACE, [scale]))

    def estimate(self, q: FloatArray) -> tuple[float, ErrorLaw] | None:
        if self.name == "baseline" or not self.rows:
            return None
        if self.name == "ols":
            h = np.array(self.rows)
            a = q @ np.linalg.pinv(h)
            if np.abs(a @ h - q).max() > 1e-8:
                return None
            return float(a @ self.answers), ErrorLaw(a, Noises.of(Law.LAPLACE, self.scales))
        found: Estimate | None = self.estimator.estimate(q)
        return None if found is None else (found.value, found.error)

    def answer(self, q: FloatArray, half_width: float) -> float | None:
        known = self.estimate(q)
        if known is not None and known[1].half_width(CONFIDENCE) <= half_width:
            return known[0]
        scale = half_width / math.log(1 / DELTA)
        if self.name != "top-up" or known is None:
            return self.bought(q, scale)
        bought = top_up(known[1], half_width, CONFIDENCE, Law.LAPLACE)
        if bought is None:
            return known[0]
        value = self.bought(q, bought.scale)
        return None if value is None else bought.weight * value + (1 - bought.weight) * known[0]


@dataclass
class Score:
    """R_a, R_i and E of eqs. 75 to 77, after so many queries."""

    asked: int = 0
    answered: int = 0
    inside: int = 0
    distance: float = 0.0

    def count(self, value: float | None, truth: float, half_width: float) -> None:
        self.asked += 1
        if value is not None:
            self.answered += 1
            self.inside += int(abs(value - truth) <= half_width)
            self.distance += abs(value - truth) / (2 * half_width)

    def figures(self) -> dict[str, float]:
        answered = max(1, self.answered)
        return {
            "R_a": round(self.answered / self.asked, 4),
            "R_i": round(self.inside / answered, 4),
            "E": round(self.distance / answered, 4),
        }


def tree(system: System, epsilon: float) -> None:
    """A binary tree over the cells, ε-private as a whole, as history given in advance."""
    levels: list[list[tuple[int, int]]] = [[(0, CELLS)]]
    while any(b - a > 1 for a, b in levels[-1]):
        halves = [(a, (a + b) // 2, b) for a, b in levels[-1]]
        levels.append([(a, b) for a, m, c in halves for a, b in ((a, m), (m, c)) if b > a])
    scale = len(levels) / epsilon
    for a, b in {node for level in levels for node in level}:
        row = np.zeros(CELLS)
        row[a:b] = 1
        noisy = float(row @ system.x + system.rng.laplace(0, scale))
        system.remember(row, noisy, scale)


def answering(setting: str, name: str, x: FloatArray) -> None:
    bounded = setting == "bounded"
    scores = Score()
    costs: list[float] = []
    times: list[float] = []
    covered = free = 0
    for trial in range(TRIALS):
        rng = np.random.default_rng([trial, bounded])
        system = System(name, x, 1.0 if bounded else math.inf, rng)
        if not bounded and name != "baseline":
            tree(system, 0.3)
        for q in queries(QUERIES, rng):
            half_width = rng.uniform(1 if bounded else 50, 1000) / 2
            before = system.spent.sum()
            known = system.estimate(q)
            covers = known is not None and known[1].half_width(CONFIDENCE) <= half_width
            scores.count(clocked(times, system.answer, q, half_width), float(q @ x), half_width)
            covered += int(covers)
            free += int(covers and system.spent.sum() == before)
        costs.append(float(system.spent.max()))
    report(
        bench="answering", setting=setting, system=name, queries=QUERIES, trials=TRIALS,
        **scores.figures(), cost=round(float(np.mean(costs)), 4),
        covered=covered, covered_and_free=free, answer=percentiles(times),
    )  # fmt: skip


def estimates() -> None:
    """§6.2: α uniform on [0, 1], coefficients up to 10."""
    rng = np.random.default_rng(1)
    for m, n in [(m, 100) for m in (200, 500, 1000, 2000)] + [(2 * n, n) for n in (200, 500, 1000)]:
        h = (rng.integers(0, 11, (m, n)) * (rng.random((m, n)) < 0.1)).astype(float)
        scales = np.maximum(1, h.max(axis=1)) / rng.uniform(0, 1, m)
        estimator = Estimator(n)
        loading: list[float] = []
        clocked(loading, estimator.observe, h, np.zeros(m), Noises.of(Law.LAPLACE, scales))
        times: list[float] = []
        scratch: list[float] = []
        for _ in range(10):
            q = rng.integers(0, 2, n)
            clocked(times, estimator.estimate, q)
        for _ in range(3):
            weighted = (h / (2 * scales**2)[:, None]).T
            clocked(scratch, np.linalg.solve, weighted @ h, q.astype(float))
        report(
            bench="estimate", m=m, n=n, load_ms=round(loading[0], 1), estimate=percentiles(times),
            solve_eq50_x=round(percentiles(scratch)["p50_ms"] / percentiles(times)["p50_ms"], 2),
        )  # fmt: skip


def posteriors() -> None:
    """§6.3: γ = 0.01, max S = 5, n = 100; errors as Σ (u_i − exact)² over the bins."""
    rng = np.random.default_rng(2)
    for m in (200, 500, 1000):
        n = 100
        h = (rng.integers(0, 6, (m, n)) * (rng.random((m, n)) < 0.1)).astype(float)
        scales = np.maximum(1, h.max(axis=1)) / rng.uniform(0.05, 1, m)
        estimator = Estimator(n)
        estimator.observe(h, np.zeros(m), Noises.of(Law.LAPLACE, scales))
        found = estimator.estimate(rng.multinomial(5, np.full(n, 1 / n)))
        if found is None:
            raise RuntimeError("more rows than cells determine every query")
        a = found.coefficients
        beta = float((np.abs(a) * scales).sum() ** 2)
        own: list[float] = []
        clocked(own, ErrorLaw(a, Noises.of(Law.LAPLACE, scales)).half_width, CONFIDENCE)
        report(bench="posterior", m=m, method="inversion", beta=round(beta), ms=round(own[0], 2))
        spent: list[float] = []
        mass = clocked(spent, probability_calculation, a, scales)
        report(
            bench="posterior", m=m, method="probability calculation", beta=round(beta),
            ms=round(spent[0], 2), x=round(spent[0] / own[0], 1), error=squared(mass, found.error),
        )  # fmt: skip
        for samples in (10_000, 100_000, 1_000_000) if m == 200 else (100_000,):
            spent = []
            mass = clocked(spent, monte_carlo, a, scales, samples, rng)
            report(
                bench="posterior", m=m, method=f"Monte Carlo {samples}", beta=round(beta),
                ms=round(spent[0], 2), x=round(spent[0] / own[0], 1),
                error=squared(mass, found.error), bound=expected_error(mass, samples),
            )  # fmt: skip


def squared(mass: FloatArray, law: ErrorLaw) -> float:
    """Definition 4.6, against the inversion's probabilities of the bins."""
    reach = len(mass) // 2
    edges = [law.within(i + 0.5).lower for i in range(reach + 1)]
    right = np.diff(edges) / 2
    return float(((mass - np.concatenate([right[::-1], edges[:1], right])) ** 2).sum())


def main() -> None:
    if PARTS in ("all", "methods"):
        estimates()
        posteriors()
    if PARTS == "methods":
        return
    x = histogram()
    for setting in ("bounded", "unbounded"):
        for name in SYSTEMS:
            answering(setting, name, x)


if __name__ == "__main__":
    main()
