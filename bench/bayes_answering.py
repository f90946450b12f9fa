"""BAYES §6.4: 1000 queries to a system that answers from history, and buys what is missing.

    SHARED=… QUERIES=1000 TRIALS=3 PARTS=answering make bench NAME=bayes

Queries are multinomial over the first 40 cells of a histogram, δ = 0.2. Systems:

- baseline: each query bought at α = S ln(1/δ)/ε (Theorem 5.3), while the budget lasts;
- paper: the estimate from history where its interval is narrow enough, else bought as above;
- ols: as paper, but the estimate weighs all answers alike (Li et al. 2010), interval by inversion;
- top-up: as paper, but what is bought is the least that together with history is enough.

The histogram is Adult's capital gains in steps of 500, with all above the last, from the folder
SHARED that has data/adult.csv, or a made-up one. The figures of merit depend on it only by chance,
since the error of an unbiased estimate does not.
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
from tallyveil.inference import ErrorLaw, Estimator, Law, Noises, top_up
from tallyveil.inference.noise import FloatArray

QUERIES = int(os.environ.get("QUERIES", "1000"))
TRIALS = int(os.environ.get("TRIALS", "3"))
SYSTEMS = os.environ.get("SYSTEMS", "baseline,ols,paper,top-up").split(",")
CELLS = 40
STEP = 500
DELTA = 0.2
CONFIDENCE = 0.8
TREE = 0.3


def histogram() -> tuple[str, FloatArray]:
    """Its name, and its counts."""
    folder = os.environ.get("SHARED")
    if folder is None:
        return "made up", np.random.default_rng(9).integers(0, 1000, CELLS).astype(float)
    with (Path(folder) / "data" / "adult.csv").open() as file:
        gains = [int(row["capital-gain"]) // STEP for row in csv.DictReader(file)]
    counts = np.bincount(np.minimum(gains, CELLS - 1), minlength=CELLS)
    return "Adult, capital-gain", counts.astype(float)


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
    inverse: FloatArray | None = None

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
        self.inverse = None
        self.estimator.observe(q, [value], Noises.of(Law.LAPLACE, [scale]))

    def estimate(self, q: FloatArray) -> tuple[float, ErrorLaw] | None:
        if self.name == "baseline" or not self.rows:
            return None
        if self.name == "ols":
            h = np.array(self.rows)
            if self.inverse is None:
                self.inverse = np.asarray(np.linalg.pinv(h), dtype=np.float64)
            a: FloatArray = q @ self.inverse
            if np.abs(a @ h - q).max() > 1e-8:
                return None
            return float(a @ self.answers), ErrorLaw(a, Noises.of(Law.LAPLACE, self.scales))
        found = self.estimator.estimate(q)
        return None if found is None else (found.value, found.error)

    def answer(self, q: FloatArray, half_width: float) -> tuple[float | None, bool]:
        """The answer, if there is one, and whether history had it."""
        known = self.estimate(q)
        if known is not None and known[1].half_width(CONFIDENCE) <= half_width:
            return known[0], True
        scale = half_width / math.log(1 / DELTA)
        if self.name != "top-up" or known is None:
            return self.bought(q, scale), False
        bought = top_up(known[1], half_width, CONFIDENCE, Law.LAPLACE)
        if bought is None:
            return known[0], True
        value = self.bought(q, bought.scale)
        if value is not None:
            value = bought.weight * value + (1 - bought.weight) * known[0]
        return value, False


def tree(system: System) -> None:
    """A binary tree over the cells, ε-private as a whole, as history given in advance."""
    levels: list[list[tuple[int, int]]] = [[(0, CELLS)]]
    while any(b - a > 1 for a, b in levels[-1]):
        halves = [(a, (a + b) // 2, b) for a, b in levels[-1]]
        levels.append([(a, b) for a, m, c in halves for a, b in ((a, m), (m, c)) if b > a])
    scale = len(levels) / TREE
    for a, b in {node for level in levels for node in level}:
        row = np.zeros(CELLS)
        row[a:b] = 1
        noisy = float(row @ system.x + system.rng.laplace(0, scale))
        system.remember(row, noisy, scale)


def asked(
    system: System, bounded: bool, number: int, times: list[float]
) -> tuple[FloatArray, FloatArray]:
    """After each query (rows): answered, inside, |error| / 2ε, covered, so far, and the cost. And
    what each query that history had was charged."""
    rows: list[list[float]] = []
    charged: list[float] = []
    total = np.zeros(4)
    for q in queries(number, system.rng):
        half_width = system.rng.uniform(1 if bounded else 50, 1000) / 2
        before = float(system.spent.sum())
        value, covered = clocked(times, system.answer, q, half_width)
        if covered:
            charged.append(float(system.spent.sum()) - before)
        if value is not None:
            off = abs(value - float(q @ system.x))
            total += [1, off <= half_width, off / (2 * half_width), covered]
        rows.append([*total, float(system.spent.max())])
    return np.array(rows), np.array(charged)


def answering(
    setting: str, name: str, data: tuple[str, FloatArray], number: int, trials: int
) -> None:
    """R_a, R_i and E (eqs. 75 to 77) of all trials together, and as they go."""
    bounded = setting == "bounded"
    times: list[float] = []
    runs: list[FloatArray] = []
    charged: list[FloatArray] = []
    for trial in range(trials):
        rng = np.random.default_rng([trial, bounded])
        system = System(name, data[1], 1.0 if bounded else math.inf, rng)
        if not bounded and name != "baseline":
            tree(system)
        run, free = asked(system, bounded, number, times)
        runs.append(run)
        charged.append(free)
    mean = np.mean(runs, axis=0)
    after = np.unique(np.linspace(number / 20, number, 20).astype(int).clip(1))
    answered = np.maximum(mean[:, 0], 1 / trials)

    def shares(column: FloatArray, of: FloatArray) -> list[float]:
        return [round(float(v), 4) for v in (column / of)[after - 1]]

    numbers = np.arange(1.0, number + 1)
    curves = {
        "R_a": shares(mean[:, 0], numbers), "R_i": shares(mean[:, 1], answered),
        "E": shares(mean[:, 2], answered), "cost": shares(mean[:, 4], np.ones(number)),
    }  # fmt: skip
    report(
        bench="answering", setting=setting, system=name, data=data[0], queries=number,
        trials=trials, **{key: values[-1] for key, values in curves.items()},
        R_i_deviation=round(math.sqrt(DELTA * CONFIDENCE / (trials * answered[-1])), 4),
        covered=round(float(mean[-1, 3]) / number, 4),
        charged_when_covered=float(np.concatenate(charged).sum()),
        answer=percentiles(times), after=after.tolist(), curves=curves,
    )  # fmt: skip


def main() -> None:
    data = histogram()
    for setting in ("bounded", "unbounded"):
        for name in SYSTEMS:
            answering(setting, name, data, QUERIES, TRIALS)


if __name__ == "__main__":
    main()
