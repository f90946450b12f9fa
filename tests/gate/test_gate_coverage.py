"""Intervals hold the truth as often as they say, over thousands of histories asked in SQL.

Each group of a GROUP BY is a history of its own: other people, and noise independent of that of
the others. One world has `GROUPS` of them, with costs, targets, mechanisms and questions drawn at
random; targets are met by top-ups of whatever history holds by then. Of each world one question
that its history determines is looked at, so that the histories that are counted are independent.

Each check misses a correct implementation with a probability below 10⁻⁶: 5.2 deviations of the
normal law, for sums of at least 2,000 terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tallyveil

GROUPS = 2000
CONFIDENCES = (0.5, 0.8, 0.95, 0.99)
DEVIATIONS = 5.2

WHERE = ("true", "a = 0", "a = 1", "b < 2", "b = 2", "a = 0 AND b < 2", "a = 1 OR b = 2")
ATTRIBUTES: dict[str, Any] = {
    "g": {"range": [0, GROUPS - 1]},
    "a": {"values": [0, 1]},
    "b": {"values": [0, 1, 2]},
}


class World:
    """A table of groups of people, and what was asked about all groups at once."""

    def __init__(self, base: Path, rng: np.random.Generator, measure: str) -> None:
        self.rng, self.measure = rng, measure
        self.source = duckdb.connect()
        self.source.execute(
            f"CREATE TABLE people AS SELECT i % {GROUPS} AS g, i % 7 % 2 AS a, i % 11 % 3 AS b"
            f" FROM range({30 * GROUPS}) t(i)"
        )
        pure = measure == "epsilon"
        budget = {"epsilon": 100_000.0} if pure else {"rho": 100_000.0, "delta": 1e-6}
        table = {"from": "people", "budget": budget, "attributes": ATTRIBUTES}
        keys = {"tables": {"person": table}, "defaults": {measure: 0.1}}
        policy = tallyveil.parse_policy(keys, base=base)
        self.connection = tallyveil.connect(policy, source=self.source)

    def close(self) -> None:
        self.connection.close()
        self.source.close()

    def set(self, name: str, value: object) -> None:
        self.connection.execute(f"SET dp.{name} = {value}")

    def truth(self, where: str) -> np.ndarray:
        rows = self.source.execute(
            f"SELECT count(*) FILTER (WHERE {where}) FROM people GROUP BY g ORDER BY g"
        ).fetchall()
        return np.array(rows, dtype=float)[:, 0]

    def ask(self, where: str) -> np.ndarray:
        """Value, low and high of each group; NaN for what is not known."""
        rows = self.connection.execute(
            f"SELECT n, dp_interval_low(n), dp_interval_high(n) FROM (SELECT g, count(*)"
            f" FILTER (WHERE {where}) AS n FROM person GROUP BY g) AS t ORDER BY g"
        ).fetchall()
        return np.array(rows, dtype=float)

    def known(self, where: str, confidence: float) -> np.ndarray:
        """What history says, free."""
        self.set("source", "history")
        self.set("confidence", confidence)
        before = self.spent()
        found = self.ask(where)
        assert self.spent() == before
        self.set("source", "auto")
        return found

    def spent(self) -> float:
        return float(self.connection.budget()[0]["spent"])

    def buy(self) -> None:
        """Something, somehow: for a cost, or whatever it takes for a target."""
        where = str(self.rng.choice(WHERE))
        laws = ("laplace", "geometric") if self.measure == "epsilon" else ("laplace", "gaussian")
        self.set("mechanism", self.rng.choice(laws))
        self.set("confidence", self.rng.choice(CONFIDENCES))
        if self.rng.random() < 0.5:
            self.set(self.measure, round(10.0 ** self.rng.uniform(-2, 0), 4))
            self.ask(where)
            return
        half = round(10.0 ** self.rng.uniform(0.5, 2), 1)
        self.set("half_width", half)
        _, low, high = self.ask(where).T
        assert (high - low <= 2 * half).all()


def errors_of(world: World, steps: int) -> Iterator[tuple[float, np.ndarray]]:
    """After so many purchases, of one question: by confidence, the errors of its estimates in all
    groups, and NaN where the interval did not hold the truth."""
    widths: dict[str, np.ndarray] = {}
    for _ in range(steps):
        world.buy()
        for where in WHERE:
            _, low, high = world.known(where, 0.95).T
            if where in widths:
                # History only ever gets better; the ends of an interval are rounded.
                assert (high - low <= widths[where] + 1).all()
            if not np.isnan(high).any():
                widths[where] = high - low
    where = str(world.rng.choice(sorted(widths)))
    truth = world.truth(where)
    for confidence in CONFIDENCES:
        value, low, high = world.known(where, confidence).T
        covered = (low <= truth) & (truth <= high)
        yield confidence, np.where(covered, value - truth, np.nan)
    value = world.known(where, 0.95).T[0]
    error = value - truth
    if error.any():
        assert abs(error.mean()) <= DEVIATIONS * error.std() / math.sqrt(len(error))


def check(base: Path, worlds: int, steps: int) -> None:
    rng = np.random.default_rng()
    covered = dict.fromkeys(CONFIDENCES, 0)
    for number in range(worlds):
        folder = base / str(number)
        folder.mkdir()
        world = World(folder, rng, ("epsilon", "rho")[number % 2])
        try:
            for confidence, errors in errors_of(world, steps):
                covered[confidence] += int((~np.isnan(errors)).sum())
        finally:
            world.close()
    total = worlds * GROUPS
    for confidence, number in covered.items():
        allowed = DEVIATIONS * math.sqrt(total * confidence * (1 - confidence))
        assert number >= total * confidence - allowed, confidence


def test_intervals_from_history_cover(tmp_path: Path) -> None:
    check(tmp_path, worlds=2, steps=2)


@pytest.mark.slow
def test_intervals_cover_over_twenty_thousand_histories(tmp_path: Path) -> None:
    check(tmp_path, worlds=20, steps=6)
