"""What was once reported of a row is never worse later: random statements, one after the other.

Worlds of so many statements each, with costs, targets, sets and sources drawn at random, and gates
that are opened again. What is reported is compared with what was reported before, and its variance
with the least there is: of all that was answered so far, by dense generalised least squares.

The noise is wide, so that what rounding adds is small beside it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.workload.workload import Column

SIZES = {"a": 3, "b": 2, "d": 4}  # a cube has 60 rows, each of which may have a law of its own
CELLS = [*itertools.product(*map(range, SIZES.values()))]
WORLDS, STEPS = 3, 16
CONFIDENCE = 0.95

Predicate = Callable[[tuple[int, ...]], bool]


@dataclass
class World:
    base: Path
    rng: random.Random
    measure: str
    widths: dict[frozenset[int], float] = field(default_factory=dict)
    deviations: dict[frozenset[int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = duckdb.connect()
        self.source.execute(
            "CREATE TABLE people AS SELECT i * i % 3 AS a, i % 7 % 2 AS b, i % 11 % 4 AS d"
            " FROM range(3000) t(i)"
        )
        self.open()

    def open(self) -> None:
        pure = self.measure == "epsilon"
        budget = {"epsilon": 1000.0} if pure else {"rho": 1000.0, "delta": 1e-6}
        attributes = {name: {"range": [0, size - 1]} for name, size in SIZES.items()}
        table = {"from": "people", "budget": budget, "attributes": attributes}
        policy = tallyveil.parse_policy(
            {"tables": {"person": table}, "defaults": {self.measure: 0.01}}, base=self.base
        )
        self.connection = tallyveil.connect(policy, source=self.source)

    def close(self) -> None:
        self.connection.close()
        self.source.close()

    def restart(self) -> None:
        self.connection.close()
        self.open()

    def set(self, name: str, value: object) -> None:
        self.connection.execute(f"SET dp.{name} = {value}")

    def where(self) -> tuple[str, Predicate]:
        place = self.rng.randrange(len(SIZES))
        name, value = [*SIZES][place], self.rng.randrange(1, [*SIZES.values()][place])
        return self.rng.choice(
            [
                ("true", lambda cell: True),
                (f"{name} = {value}", lambda cell: cell[place] == value),
                (f"{name} < {value}", lambda cell: cell[place] < value),
                (f"{name} <> {value}", lambda cell: cell[place] != value),
            ]
        )

    def statement(self) -> tuple[str, list[str], Predicate]:
        where, holds = self.where()
        keys = self.rng.sample([*SIZES], self.rng.randrange(len(SIZES) + 1))
        listed = ", ".join(keys)
        sets = f"GROUPING SETS (({listed}), ({', '.join(keys[1:])}))"
        by = self.rng.choice([listed, f"ROLLUP ({listed})", f"CUBE ({listed})", sets])
        told = ", ".join(f"CASE grouping({key}) WHEN 0 THEN {key} END" for key in keys)
        sql = (
            "SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n), dp_stddev(n)"
            f"{', ' * bool(keys)}{told} FROM person WHERE {where} {f'GROUP BY {by}' * bool(keys)}"
        )
        return sql, keys, holds

    def ask(self) -> None:
        """One statement; what it reports is no worse than what was reported or can be known."""
        source = self.rng.choice(["auto"] * 4 + ["history"] * 2 + ["fresh"])
        by_target = self.rng.random() < 0.25
        self.set("source", source)
        laws = ("laplace", "geometric") if self.measure == "epsilon" else ("laplace", "gaussian")
        self.set("mechanism", self.rng.choice(laws))
        if by_target:
            self.set("half_width", round(self.rng.uniform(60, 600)))
        elif self.measure == "epsilon":
            self.set("epsilon", round(10 ** self.rng.uniform(-2.5, -1.3), 6))
        else:
            self.set("rho", round(10 ** self.rng.uniform(-4, -3), 7))
        sql, keys, holds = self.statement()
        before = self.answered()
        rows = self.connection.execute(sql).fetchall()
        reported = {self.cells(keys, row[4:], holds): row for row in rows if row[0] is not None}
        if source != "fresh":  # these are answered by what is bought alone
            self.add_up(reported)
        least = self.least([*reported], before)
        for cells, (n, low, high, deviation, *_) in reported.items():
            width = float(high - low)
            assert low <= n <= high
            if source != "fresh":
                assert width <= self.widths.get(cells, np.inf) + 2
                if not by_target:
                    # What was met by its width may have had another variance.
                    assert float(deviation) <= least[cells] * 1.02
            self.widths[cells] = min(width, self.widths.get(cells, np.inf))

    def cells(
        self, keys: list[str], values: tuple[int | None, ...], holds: Predicate
    ) -> frozenset[int]:
        fixed = {
            [*SIZES].index(key): value
            for key, value in zip(keys, values, strict=True)
            if value is not None
        }
        return frozenset(
            number
            for number, cell in enumerate(CELLS)
            if holds(cell) and all(cell[place] == value for place, value in fixed.items())
        )

    def add_up(self, reported: dict[frozenset[int], tuple[int, ...]]) -> None:
        """A row that is reported is the sum of its parts, where these are reported too."""
        smallest = [a for a in reported if a and not any(b and b < a for b in reported)]
        for cells, row in reported.items():
            parts = [part for part in smallest if part <= cells]
            if sum(map(len, parts)) == len(cells):
                assert row[0] == sum(reported[part][0] for part in parts)

    def answered(self) -> tuple[np.ndarray, np.ndarray]:
        """Every recorded row over all cells, and its variance."""
        accountant = self.connection._session._gate.accountant
        answers = [a for release in accountant.learned("person", 0, 0)[0] for a in release.answers]
        rows = [dense(answer.column) for answer in answers]
        laws = [answer.law for answer in answers]
        spread = [np.full(len(r), law.variance) for r, law in zip(rows, laws, strict=True) if law]
        return np.vstack([np.zeros((0, len(CELLS))), *rows]), np.concatenate([[], *spread])

    def least(
        self, asked: list[frozenset[int]], answered: tuple[np.ndarray, np.ndarray]
    ) -> dict[frozenset[int], float]:
        """The least standard deviation of each row by what was answered; ∞ if that is nothing."""
        rows, spread = answered
        whitened = rows / np.sqrt(spread)[:, None]
        inverse = np.linalg.pinv(whitened.T @ whitened, rcond=1e-10)
        known = inverse @ (whitened.T @ whitened)
        found = {}
        for cells in asked:
            row = np.zeros(len(CELLS))
            row[[*cells]] = 1
            determined = np.allclose(row @ known, row, atol=1e-6)
            found[cells] = float(np.sqrt(row @ inverse @ row)) if determined else np.inf
        return found


def dense(column: Column) -> np.ndarray:
    factor = column.multiplied_out(1 << 20)
    assert factor is not None
    found = np.zeros((column.height, len(CELLS)))
    names = [*SIZES]
    places = [names.index(axis) for axis in factor.axes]
    for number, cell in enumerate(CELLS):
        at = 0
        for place, size in zip(places, factor.shape, strict=True):
            at = at * size + cell[place]
        mine = factor.cells == at
        np.add.at(found, (factor.rows[mine], number), factor.coefficients[mine])
    return found


@pytest.fixture(params=["epsilon", "rho"])
def worlds(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Iterator[World]]:
    made: list[World] = []

    def each() -> Iterator[World]:
        for number in range(WORLDS):
            base = tmp_path / str(number)
            base.mkdir()
            made.append(World(base, random.Random(), request.param))
            yield made[-1]

    yield each()
    for world in made:
        world.close()


def test_it_is_never_wider_and_as_good_as_can_be(worlds: Iterator[World]) -> None:
    for world in worlds:
        world.set("confidence", CONFIDENCE)
        for step in range(STEPS):
            if step == STEPS // 2:
                world.restart()
                world.set("confidence", CONFIDENCE)
            world.ask()


def test_an_interval_by_the_law_of_its_error_stays_one(tmp_path: Path) -> None:
    """Of a statement's estimates those after the first 64 laws have bounds, unless their intervals
    were reported before."""
    with duckdb.connect() as source:
        source.execute("CREATE TABLE people AS SELECT i % 80 AS a FROM range(3000) t(i)")
        source.execute("CREATE TABLE stops AS SELECT range AS stop FROM range(2, 80)")
        table = {
            "from": "people",
            "budget": {"epsilon": 1000.0},
            "attributes": {"a": {"range": [0, 79]}},
        }
        keys = {"tables": {"person": table}, "public": {"stops": {"from": "stops"}}}
        policy = tallyveil.parse_policy(keys | {"defaults": {"epsilon": 0.05}}, base=tmp_path)
        reported: dict[int, int] = {}

        def ask(connection: tallyveil.Connection, where: str) -> dict[int, int]:
            rows = connection.execute(
                "SELECT stop, count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
                f" JOIN stops ON a < stop WHERE {where} GROUP BY stop"
            ).fetchall()
            return {stop: high - low for stop, _, low, high in rows}

        with tallyveil.connect(policy, source=source) as connection:
            connection.execute("SELECT a, count(*) FROM person GROUP BY a")
            connection.execute("SET dp.source = history")
            reported = ask(connection, "stop < 40") | ask(connection, "stop >= 40")
        with tallyveil.connect(policy, source=source) as connection:
            connection.execute("SET dp.source = history")
            for _ in range(2):
                now = ask(connection, "true")
                assert all(now[stop] <= width + 1 for stop, width in reported.items())
