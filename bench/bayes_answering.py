"""BAYES §6.4: 1000 queries to a system that answers from history, and buys what is missing.

    SHARED=… QUERIES=1000 TRIALS=8 PARTS=answering make bench NAME=bayes

Queries are multinomial over the first 40 cells of a histogram, δ = 0.2. Systems:

- gate: the queries as SQL to `tallyveil.connect`, each with a half-width at 80 % (`bayes_gate`);
- warmed: the same, after what serves a sample of 200 other queries was bought at a part of the
  budget (WARM, 0.9), as `tallyveil warm --for` does; in the bounded setting;

and beside it, computed here with noise from NumPy:

- baseline: each query bought at α = S ln(1/δ)/ε (Theorem 5.3), while the budget lasts;
- paper: the estimate from history where its interval is narrow enough, else bought as above;
- ols: as paper, but the estimate weighs all answers alike (Li et al. 2010), interval by inversion.

Trial t of each has the queries and widths of seed t. The histogram is Adult's capital gains in
steps of 500, with all above the last, from the folder SHARED that has data/adult.csv, or a made-up
one. The figures of merit depend on it only by chance, since the error of an unbiased estimate does
not.
"""

from __future__ import annotations

import csv
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy import sparse

from bench.bayes_gate import Gate
from bench.measure import clocked, percentiles, report
from bench.paper_posteriors import LaplaceSum
from tallyveil.arrays import FloatArray
from tallyveil.inference import Exchangeable

QUERIES = int(os.environ.get("QUERIES", "1000"))
TRIALS = int(os.environ.get("TRIALS", "8"))
SYSTEMS = os.environ.get("SYSTEMS", "baseline,ols,paper,gate,warmed").split(",")
WARM = os.environ.get("WARM", "0.9")
SAMPLE = 200
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


class Answering(Protocol):
    @property
    def cost(self) -> float:
        """What was spent on the most expensive cell, but for what was given in advance."""

    @property
    def charged(self) -> float:
        """What grows with each charge."""

    def answer(self, q: FloatArray, half_width: float) -> tuple[float | None, bool]:
        """The answer, if there is one, and whether history had it."""


@dataclass
class System:
    """One way to answer, with what it has spent on each cell."""

    name: str
    x: FloatArray
    budget: float
    rng: np.random.Generator
    rows: list[FloatArray] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    spent: FloatArray = field(default_factory=lambda: np.zeros(CELLS))
    inverse: FloatArray | None = None

    @property
    def cost(self) -> float:
        return float(self.spent.max())

    @property
    def charged(self) -> float:
        return float(self.spent.sum())

    def give(self, levels: Sequence[Sequence[tuple[int, int]]], epsilon: float) -> None:
        """Noisy counts of the ranges of each level, which get the same share of ε."""
        scale = len(levels) / epsilon
        for a, b in (node for level in levels for node in level):
            row = np.zeros(CELLS)
            row[a:b] = 1
            self.remember(row, float(row @ self.x + self.rng.laplace(0, scale)), scale)

    def close(self) -> None:
        """Nothing is held."""

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

    def estimate(self, q: FloatArray) -> tuple[float, LaplaceSum] | None:
        if self.name == "baseline" or not self.rows:
            return None
        scales, a = np.array(self.scales), self.weights(q, np.array(self.rows))
        return None if a is None else (float(a @ self.answers), LaplaceSum(a, scales))

    def weights(self, q: FloatArray, h: FloatArray) -> FloatArray | None:
        """A with A H = q, if there is one: the best, or for "ols" with all answers alike."""
        if self.name != "ols":
            history = sparse.csr_matrix(h.astype(np.int64))
            known = Exchangeable(history, 2 * np.square(self.scales))
            return known.combinations(q.astype(np.int64)[None, :])[0]
        if self.inverse is None:
            self.inverse = np.asarray(np.linalg.pinv(h), dtype=np.float64)
        a: FloatArray = q @ self.inverse
        return a if np.abs(a @ h - q).max() <= 1e-8 else None

    def answer(self, q: FloatArray, half_width: float) -> tuple[float | None, bool]:
        """The answer, if there is one, and whether history had it."""
        known = self.estimate(q)
        if known is not None and known[1].half_width(CONFIDENCE) <= half_width:
            return known[0], True
        return self.bought(q, half_width / math.log(1 / DELTA)), False


def tree() -> list[list[tuple[int, int]]]:
    """By level the ranges of cells of a binary tree over them."""
    levels = [[(0, CELLS)]]
    while any(b - a > 1 for a, b in levels[-1]):
        halves = [(a, (a + b) // 2, b) for a, b in levels[-1]]
        levels.append([(a, b) for a, m, c in halves for a, b in ((a, m), (m, c)) if b > a])
    seen: set[tuple[int, int]] = set()
    for level in levels:
        level[:] = [node for node in level if node not in seen]
        seen.update(level)
    return levels


def asked(
    system: Answering, x: FloatArray, setting: str, number: int, seed: int, times: list[float]
) -> tuple[FloatArray, float]:
    """After each query (rows): answered, inside, |error| / 2ε, covered, so far, and the cost. And
    what the queries that history had were charged."""
    rows: list[list[float]] = []
    charged = 0.0
    total = np.zeros(4)
    rng = np.random.default_rng(seed)
    for q in queries(number, rng):
        half_width = float(rng.uniform(1 if setting == "bounded" else 50, 1000)) / 2
        before = system.charged
        value, covered = clocked(times, system.answer, q, half_width)
        if covered:
            charged += system.charged - before
        if value is not None:
            off = abs(value - float(q @ x))
            total += [1, off <= half_width, off / (2 * half_width), covered]
        rows.append([*total, system.cost])
    return np.array(rows), charged


@contextmanager
def opened(name: str, x: FloatArray, setting: str, seed: int) -> Iterator[Answering]:
    """A system without history, or in the unbounded setting with a tree's."""
    budget = 1.0 if setting == "bounded" else math.inf
    system: System | Gate
    with tempfile.TemporaryDirectory() as folder:
        if name in ("gate", "warmed"):
            system = Gate(x, budget, CONFIDENCE, Path(folder))
            if name == "warmed":
                system.warm([*queries(SAMPLE, np.random.default_rng([seed, 2]))], WARM)
        else:
            system = System(name, x, budget, np.random.default_rng([seed, 1]))
        if setting == "unbounded" and name != "baseline":
            system.give(tree(), TREE)
        yield system
        system.close()


def answering(
    setting: str, name: str, data: tuple[str, FloatArray], number: int, seeds: Sequence[int]
) -> None:
    """R_a, R_i and E (eqs. 75 to 77) of all trials together, and as they go."""
    trials = len(seeds)
    times: list[float] = []
    runs: list[FloatArray] = []
    charged = 0.0
    for seed in seeds:
        with opened(name, data[1], setting, seed) as system:
            run, free = asked(system, data[1], setting, number, seed, times)
        runs.append(run)
        charged += free
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
        by_seed=[round(float(run[-1, 0]) / number, 4) for run in runs],
        charged_when_covered=charged,
        answer=percentiles(times), after=after.tolist(), curves=curves,
    )  # fmt: skip


def main() -> None:
    data = histogram()
    for setting in ("bounded", "unbounded"):
        for name in SYSTEMS if setting == "bounded" else [n for n in SYSTEMS if n != "warmed"]:
            answering(setting, name, data, QUERIES, range(1, TRIALS + 1))


if __name__ == "__main__":
    main()
