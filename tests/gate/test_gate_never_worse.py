"""What was once reported of a row is never worse later: random statements, one after the other.

They ask counts and sums: a row is known by its primitive vector, in whatever units it is asked.

Worlds of so many statements each, with costs, targets, sets and sources drawn at random, and gates
that are opened again. What is reported is compared with what was reported before, and its variance
with the least there is: of all that was answered so far, by dense generalised least squares.

The noise is wide, so that what rounding adds is small beside it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.gate import Gate
from tallyveil.workload.workload import Column
from tests.gate.many_sessions import PATIENCE

SIZES = {"a": 3, "b": 2, "d": 4}  # a cube has 60 rows
LAWS = 64  # of a statement's rows that are computed; the others have bounds
CELLS = [*itertools.product(*map(range, SIZES.values()))]
EVERY = range(len(CELLS))
STEPS = 14
CONFIDENCE = 0.95

Predicate = Callable[[tuple[int, ...]], bool]
Value = Callable[[int, int, int], Fraction | int]

ONES = ("count(*)", lambda a, b, d: 1)
AGGREGATES: list[tuple[str, Value]] = [
    ("sum(3)", lambda a, b, d: 3),
    ("sum(a)", lambda a, b, d: a),
    ("sum(-d)", lambda a, b, d: -d),
    ("sum(0.5 * d)", lambda a, b, d: Fraction(d, 2)),
    ("sum(a * d - b)", lambda a, b, d: a * d - b),
    ("sum(CASE WHEN d < 2 THEN 4 WHEN b = 1 THEN -6 END)", lambda a, b, d: 4 if d < 2 else -6 * b),
    ("sum(0.1 * (a + 1))", lambda a, b, d: Fraction(a + 1, 10)),
]
# In steps of a fine grid, whose squares have too many digits for the loss in ρ.
FINE: tuple[str, Value] = ("sum((a + 1) / 10)", lambda a, b, d: Fraction(a + 1, 10))


Statement = tuple[str, list[str], Predicate, list[Value]]
"""The SQL, its keys, which cells it counts, and what each aggregate adds for them."""


class Row(NamedTuple):
    """A multiple of a primitive vector over the cells, and the cells it has."""

    primitive: tuple[int, ...]
    content: Fraction
    cells: frozenset[int]

    @classmethod
    def of(cls, vector: Sequence[Fraction]) -> Row:
        unit = math.lcm(*(one.denominator for one in vector))
        whole = [int(one * unit) for one in vector]
        content = math.gcd(*whole) * (1 if next(filter(None, whole)) > 0 else -1)
        cells = frozenset(number for number, one in enumerate(whole) if one)
        return cls(tuple(one // content for one in whole), Fraction(content, unit), cells)


@dataclass
class World:
    base: Path
    rng: random.Random
    measure: str
    widths: dict[tuple[int, ...], float] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

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
        self.connection = tallyveil.Connection(Gate(policy, self.source, time_limit=PATIENCE))

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

    def statement(self) -> Statement:
        """A new statement, or an earlier one again."""
        if self.rng.random() < 0.3 and self.statements:
            return self.rng.choice(self.statements)
        self.statements.append(self.unasked())
        return self.statements[-1]

    def unasked(self) -> Statement:
        where, holds = self.where()
        keys = self.rng.sample([*SIZES], self.rng.randrange(len(SIZES) + 1))
        sums = [*AGGREGATES, *([FINE] if self.measure == "epsilon" else [])]
        few = [self.rng.sample(sums, n) for n in (1, 2)]
        asked = self.rng.choice([[ONES]] * 2 + few + [[ONES, *few[0]], [*few[1], ONES]])
        listed = ", ".join(keys)
        sets = f"GROUPING SETS (({listed}), ({', '.join(keys[1:])}))"
        by = self.rng.choice([listed, f"ROLLUP ({listed})", f"CUBE ({listed})", sets])
        told = ", ".join(f"CASE grouping({key}) WHEN 0 THEN {key} END" for key in keys)
        outputs = ", ".join(
            f"{one} AS n{n}, dp_interval_low(n{n}), dp_interval_high(n{n}), dp_stddev(n{n})"
            for n, (one, _) in enumerate(asked)
        )
        sql = (
            f"SELECT {outputs}{', ' * bool(keys)}{told} FROM person WHERE {where}"
            f" {f'GROUP BY {by}' * bool(keys)}"
        )
        return sql, keys, holds, [value for _, value in asked]

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
        sql, keys, holds, values = self.statement()
        before = self.answered()
        rows = self.connection.execute(sql).fetchall()
        alike: dict[tuple[int, ...], list[float]] = {}
        for number, value in enumerate(values):
            own = slice(4 * number, 4 * number + 4)
            reported = {}
            for row in rows:
                cells = self.cells(keys, row[4 * len(values) :], holds)
                vector = [Fraction(value(*CELLS[n])) if n in cells else Fraction(0) for n in EVERY]
                if any(vector) and row[own][0] is not None:
                    reported[Row.of(vector)] = row[own]
            if source != "fresh":
                self.add_up(reported)
            # What was met by its width may have had another variance.
            least = not by_target and len(rows) * len(values) <= LAWS
            self.look(reported, before, fresh=source == "fresh", least=least)
            for own_row, (_, low, high, _) in reported.items():
                width = float(high - low) / abs(float(own_row.content))
                alike.setdefault(own_row.primitive, []).append(width)
        # The ends are rounded to whole steps, and stretched to reported values.
        assert all(max(own) - min(own) <= 4 for own in alike.values())

    def look(
        self,
        reported: dict[Row, tuple[Any, ...]],
        before: tuple[np.ndarray, np.ndarray],
        *,
        fresh: bool,
        least: bool,
    ) -> None:
        deviations = self.least([*reported], before)
        for row, (n, low, high, deviation) in reported.items():
            width = float(high - low) / abs(float(row.content))
            assert low <= n <= high
            known = self.widths.get(row.primitive, np.inf)
            if not fresh:  # these are answered by what is bought alone
                assert width <= known + 2
                if least:
                    assert float(deviation) <= deviations[row] * 1.02
            self.widths[row.primitive] = min(width, known)

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

    def add_up(self, reported: dict[Row, tuple[Any, ...]]) -> None:
        """A row that is reported is the sum of its parts, where these are reported too."""
        every = {row.cells: one[0] for row, one in reported.items()}
        smallest = [a for a in every if not any(b < a for b in every)]
        for cells, value in every.items():
            parts = [part for part in smallest if part <= cells]
            if sum(map(len, parts)) == len(cells):
                own = [every[part] for part in parts]
                doubles = (one for one in (value, *own) if isinstance(one, float))
                rounding = sum(math.ulp(one) / 2 for one in doubles)
                assert abs(Fraction(value) - sum(map(Fraction, own))) <= rounding

    def answered(self) -> tuple[np.ndarray, np.ndarray]:
        """Every recorded row over all cells, and its variance."""
        accountant = self.connection._session._gate.accountant
        answers = [a for release in accountant.learned("person", 0, 0)[0] for a in release.answers]
        rows = [dense(answer.column) for answer in answers]
        laws = [answer.law for answer in answers]
        spread = [np.full(len(r), law.variance) for r, law in zip(rows, laws, strict=True) if law]
        return np.vstack([np.zeros((0, len(CELLS))), *rows]), np.concatenate([[], *spread])

    def least(self, asked: list[Row], answered: tuple[np.ndarray, np.ndarray]) -> dict[Row, float]:
        """The least standard deviation of each row by what was answered; ∞ if that is nothing."""
        rows, spread = answered
        whitened = rows / np.sqrt(spread)[:, None]
        inverse = np.linalg.pinv(whitened.T @ whitened, rcond=1e-10)
        known = inverse @ (whitened.T @ whitened)
        found = {}
        for one in asked:
            row = np.array(one.primitive, dtype=np.float64) * float(one.content)
            determined = np.allclose(row @ known, row, atol=1e-6)
            found[one] = float(np.sqrt(row @ inverse @ row)) if determined else np.inf
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


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("worlds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_it_is_never_wider_and_as_good_as_can_be(measure: str, worlds: int, tmp_path: Path) -> None:
    for number in range(worlds):
        base = tmp_path / str(number)
        base.mkdir()
        world = World(base, random.Random(), measure)
        world.set("confidence", CONFIDENCE)
        for step in range(STEPS):
            if step == STEPS // 2:
                world.restart()
                world.set("confidence", CONFIDENCE)
            world.ask()
        world.close()


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


@pytest.mark.parametrize("size", [3, 2_100])
def test_an_interval_stays_as_narrow_beside_an_answer_of_less_variance(
    tmp_path: Path, size: int
) -> None:
    """Laplace noise of more variance has the narrower interval at 50 %. Of more than 2,000 rows
    answers are not combined."""
    with duckdb.connect() as source:
        source.execute(f"CREATE TABLE people AS SELECT i % {size} AS a FROM range(30000) t(i)")
        table = {
            "from": "people",
            "budget": {"rho": 1000.0, "delta": 1e-6},
            "attributes": {"a": {"range": [0, size - 1]}},
        }
        policy = tallyveil.parse_policy({"tables": {"person": table}}, base=tmp_path)
        with tallyveil.connect(policy, source=source) as connection:
            for confidence in (0.5, 0.1):
                connection.execute(f"SET dp.confidence = {confidence}")
                widths = []
                for source_of, law, rho in [
                    ("auto", "laplace", 0.001),
                    ("fresh", "gaussian", 0.00062),
                    ("auto", "gaussian", 0.00062),
                    ("auto", "gaussian", 0.00062),
                ]:
                    connection.execute(f"SET dp.source = {source_of}")
                    connection.execute(f"SET dp.mechanism = {law}")
                    connection.execute(f"SET dp.rho = {rho}")
                    rows = connection.execute(
                        "SELECT dp_interval_high(n) - dp_interval_low(n), count(*) AS n"
                        " FROM person GROUP BY a"
                    ).fetchall()
                    widths.append(max(width for width, _ in rows))
                assert widths[1] > widths[0] >= max(widths[2:]) - 1
                assert connection.notices[0].message.startswith("answered from history, free")
