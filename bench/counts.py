"""The experiments of "Constrained Differential Privacy for Count Data" (COUNT, Figures 8 to 13).

Laws are exact integers, as for a release. Repetitions are simulated from their probabilities in
floats, with a seeded generator over public data, so that docs/experiments/counts.md can be
checked; ``expected`` beside a simulated figure is its mean, worked out from the law.

    make bench NAME=counts             Fig. 10 needs the UCI Adult data:
    SHARED=/data make bench NAME=counts    …/data/adult.csv, ../shared/data/adult.csv by default
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.measure import clocked, report
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.designing import design
from tallyveil.mechanisms.matrix.named import NAMED
from tallyveil.mechanisms.matrix.objective import Objective, score
from tallyveil.mechanisms.matrix.properties import Property, derivable_from_geometric

SHARED = Path(os.environ.get("SHARED", "../shared"))
Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

COMBINATIONS = ("", "RH", "RM", "CH", "CM", "RH CH", "RH CM", "RM CH", "RM CM")
LEVELS = [Fraction(k, 20) for k in range(2, 20)]
TARGETS: dict[str, Callable[[dict[str, str]], bool]] = {
    "young": lambda person: int(person["age"]) < 30,
    "gender": lambda person: person["sex"] == "Male",
    "income": lambda person: person["income"] == ">50K",
}
FAMILIES = {name: NAMED[name].make for name in ("GM", "WH", "WM", "EM", "UM")}


@cache
def law(family: str, n: int, alpha: Fraction) -> tuple[CountMatrix, Floats]:
    matrix = FAMILIES[family](n, alpha)
    return matrix, matrix.probabilities()


def l0(matrix: CountMatrix) -> float:
    return round(float(score(matrix, Objective())), 6)


def weakly_honest_scores(
    ns: Iterable[int] = range(2, 13),
    levels: Iterable[Fraction] = LEVELS,
) -> None:
    """Fig. 8: the program for WH with each combination of row and column properties; over n at
    α = 0.76, and over α at n = 8. GM and EM are the paper's bounds from below and above.
    """
    points = [("8a", n, Fraction("0.76")) for n in ns] + [("8b", 8, level) for level in levels]
    for figure, n, alpha in points:
        scores = {
            names or "none": l0(design(n, alpha, f"WH {names}", Objective()))
            for names in COMBINATIONS
        }
        bounds = {name: l0(law(name, n, alpha)[0]) for name in ("GM", "EM")}
        report(bench=figure, n=n, alpha=str(alpha), L0={**scores, **bounds})


def final_scores(
    ns: Sequence[int] = (*range(2, 13, 2), 16, 20, 24, 28),
    levels: Sequence[Fraction] = (Fraction(2, 3), Fraction(10, 11), Fraction(99, 100)),
) -> None:
    """Fig. 9: the named mechanisms. WM is WH, RM and CM as in the paper; WH is that alone."""
    for alpha, n in product(levels, ns):
        scores = {name: l0(law(name, n, alpha)[0]) for name in FAMILIES}
        report(bench="9", n=n, alpha=str(alpha), L0=scores)


def measured(
    truths: Counts, family: str, n: int, alpha: Fraction, loss: Floats, repeats: int, power: float
) -> dict[str, float]:
    """(Mean loss over all groups)^power in ``repeats`` repetitions: its mean and standard error.

    ``expected`` is the expected loss to that power.
    """
    probabilities = law(family, n, alpha)[1]
    groups = np.bincount(truths, minlength=n + 1)
    generator = np.random.default_rng(20180416)
    runs = np.zeros(repeats)
    for j in np.flatnonzero(groups):
        drawn = generator.multinomial(groups[j], probabilities[:, j], size=repeats)
        runs += drawn @ loss[:, j]
    runs = (runs / groups.sum()) ** power
    expected = (groups * (probabilities * loss).sum(axis=0)).sum() / groups.sum()
    return {
        "mean": round(float(runs.mean()), 5),
        "stderr": round(float(runs.std(ddof=1)) / math.sqrt(repeats), 5),
        "expected": round(float(expected) ** power, 5),
    }


def distances(n: int) -> Floats:
    output, truth = np.indices((n + 1, n + 1))
    gaps: Floats = np.abs(output - truth).astype(np.float64)
    return gaps


def compare(
    truths: Counts,
    n: int,
    alpha: Fraction,
    loss: Floats,
    repeats: int,
    power: float = 1.0,
    **labels: Any,
) -> None:
    figures = {name: measured(truths, name, n, alpha, loss, repeats, power) for name in FAMILIES}
    report(**labels, n=n, alpha=str(alpha), **figures)


def adult(
    path: Path = SHARED / "data" / "adult.csv",
    ns: Sequence[int] = (2, 4, 6, 8, 10, 12, 16, 20),
    repeats: int = 50,
) -> None:
    """Fig. 10: how often a group's answer is wrong. Groups are consecutive rows of the file."""
    if not path.exists():
        report(bench="10", skipped=f"there is no {path.name} in SHARED/data")
        return
    with path.open(newline="", encoding="utf-8") as file:
        people = list(csv.DictReader(file))
    for target, holds in TARGETS.items():
        bits = np.array([holds(person) for person in people], dtype=np.int64)
        for alpha in (Fraction(9, 10), Fraction(10, 11)):
            for n in ns:
                whole = len(bits) // n * n
                truths = bits[:whole].reshape(-1, n).sum(axis=1)
                wrong = (distances(n) > 0).astype(float)
                compare(truths, n, alpha, wrong, repeats, bench="10", target=target)


def binomial_groups(n: int, p: float, people: int) -> Counts:
    """People with independent bits, in groups of n."""
    bits = np.random.default_rng(round(1000 * p)).random(people) < p
    groups: Counts = bits[: people // n * n].reshape(-1, n).sum(axis=1)
    return groups


def binomial(people: int = 10_000, repeats: int = 30) -> None:
    """Fig. 11 (off by more than one), 12 (by more than d) and 13 (root mean square error)."""
    levels = (Fraction("0.91"), Fraction("0.67"))
    for alpha in levels:
        for n in (4, 8, 12):
            for p in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99):
                truths, gaps = binomial_groups(n, p, people), distances(n)
                far = (gaps > 1).astype(float)
                compare(truths, n, alpha, far, repeats, bench="11", p=p)
                compare(truths, n, alpha, gaps**2, repeats, 0.5, bench="13", p=p)
        for p in (0.5, 0.1):
            truths = binomial_groups(8, p, people)
            for d in range(8):
                far = (distances(8) > d).astype(float)
                compare(truths, 8, alpha, far, repeats, bench="12", p=p, d=d)


def derivability(ns: Iterable[int] = (2, 3, 4, 8, 16)) -> None:
    """§IV-D: which of the mechanisms is the geometric one and something after it."""
    alpha = Fraction(9, 10)
    for n in ns:
        derives = {name: derivable_from_geometric(law(name, n, alpha)[0]) for name in FAMILIES}
        report(bench="IV-D", n=n, alpha=str(alpha), derivable=derives)


def solving(ns: Sequence[int] = (20, 50, 100), times: int = 3) -> None:
    """How long a design takes, from nothing to the proof."""
    tasks: Iterable[tuple[str, Iterable[str], Objective]] = (
        ("WH+RM+CM, L0", ["WH", "RM", "CM"], Objective()),
        ("all seven, L1", Property, Objective("L1")),
        ("all seven, L2 max", Property, Objective("L2", aggregate="max")),
    )
    for name, properties, objective in tasks:
        for n in ns:
            taken: list[float] = []
            for _ in range(times):
                matrix = clocked(taken, design, n, Fraction(10, 11), properties, objective)
            value = round(float(score(matrix, objective)), 6)
            report(bench="design", task=name, n=n, ms=round(min(taken), 1), score=value)


def main() -> None:
    weakly_honest_scores()
    final_scores()
    derivability()
    adult()
    binomial()
    solving()


if __name__ == "__main__":
    main()
