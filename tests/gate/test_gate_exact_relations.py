"""Whatever relations the rows of one statement have, with public counts, hold of what is reported.

A relation is a vector u with u Q + v C = 0 on every cell, for the statement's rows Q and the public
rows C. The oracle computes a basis of them from the definitions of random policies and statements,
in fractions.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import PolicyError, StatementError
from tallyveil.gate import Gate
from tests.gate.many_sessions import PATIENCE

Row = list[int]
SHORT, LONG = 8, 1_000

# What is summed of a record's a, b and c; 1 is counted.
VALUES = {
    "1": lambda a, b, c: 1,
    "a": lambda a, b, c: a,
    "c": lambda a, b, c: c,
    "c - 2": lambda a, b, c: c - 2,
    "c - 1": lambda a, b, c: c - 1,
    "2 * c": lambda a, b, c: 2 * c,
    "3 * c": lambda a, b, c: 3 * c,
    "a * c - 1": lambda a, b, c: a * c - 1,
    "a + b": lambda a, b, c: a + b,
    "CASE WHEN b = 0 THEN 2 ELSE c END": lambda a, b, c: 2 if b == 0 else c,
}
CONDITIONS = {
    "TRUE": lambda a, b, c: True,
    "a > 0": lambda a, b, c: a > 0,
    "b <> c": lambda a, b, c: b != c,
    "c < 2": lambda a, b, c: c < 2,
}
SETS = ("", "a", "b", "c", "a, b", "b, c", "a, c", "a, b, c")
GROUPINGS = (
    *((one,) for one in SETS),
    *itertools.combinations(SETS, 2),
    ("a, b", "b, c", "a, c"),
    ("a, b", "b, c", "c"),
    ("a", "b", "c"),
    ("a, b", "a", "b", ""),
    SETS,
)


@dataclass(frozen=True)
class Statement:
    """Sums of ``values`` of the records that meet a condition, by each of some grouping sets."""

    sets: tuple[str, ...]
    values: tuple[str, ...]
    condition: str

    @classmethod
    def drawn(cls, draw: random.Random, most: int) -> Statement:
        condition = draw.choice([*CONDITIONS]) if draw.random() < 0.3 else "TRUE"
        values = tuple(draw.sample([*VALUES], draw.randint(1, most)))
        return cls(draw.choice(GROUPINGS[: 8 if most == 1 else None]), values, condition)

    @property
    def sql(self) -> str:
        keys = sorted({key for one in self.sets for key in one.split(", ") if key})
        sums = [self._sum(value) for value in self.values]
        groups = [f"grouping({key}), {key}" if key in keys else "1, NULL" for key in "abc"]
        by = ", ".join(f"({one})" for one in self.sets)
        which = "" if self.condition == "TRUE" else f" WHERE {self.condition}"
        return f"SELECT {', '.join([*groups, *sums])} FROM t{which} GROUP BY GROUPING SETS ({by})"

    @property
    def published(self) -> str:
        """As an invariant, which has one set."""
        (keys,) = self.sets
        items = [*filter(None, [keys]), *map(self._sum, self.values)]
        which = "" if self.condition == "TRUE" else f" WHERE {self.condition}"
        return f"SELECT {', '.join(items)} FROM t{which}" + f" GROUP BY {keys}" * bool(keys)

    @staticmethod
    def _sum(value: str) -> str:
        return "count(*)" if value == "1" else f"sum({value})"

    def rows(self, cells: Sequence[tuple[int, ...]]) -> Iterator[tuple[tuple[Any, ...], Row]]:
        """The key and the coefficients of every row, value by value."""
        for one in self.sets:
            counted = filter(lambda cell: CONDITIONS[self.condition](*cell), cells)
            for group in dict.fromkeys(_key(cell, one) for cell in counted):
                for value in self.values:
                    yield (
                        (group, value),
                        [
                            VALUES[value](*cell)
                            if CONDITIONS[self.condition](*cell) and _key(cell, one) == group
                            else 0
                            for cell in cells
                        ],
                    )


def _key(cell: tuple[int, ...], keys: str) -> tuple[int, ...]:
    """What the statement reports of a group: whether a key is left out, and its value."""
    pairs = zip("abc", cell, strict=True)
    return tuple(n for key, own in pairs for n in ((0, own) if key in keys else (1, -1)))


def relations(rows: Sequence[Row]) -> Iterator[dict[int, Fraction]]:
    """A basis of all u with u · rows = 0, each with 1 for a row that follows from earlier ones."""
    basis: dict[int, tuple[list[Fraction], dict[int, Fraction]]] = {}
    for number, row in enumerate(rows):
        left, made = [Fraction(n) for n in row], {number: Fraction(1)}
        for place, (own, of) in basis.items():
            factor = left[place]
            if factor:
                left = [a - factor * b for a, b in zip(left, own, strict=True)]
                for n, times in of.items():
                    made[n] = made.get(n, Fraction(0)) - factor * times
        place = next((n for n, value in enumerate(left) if value), None)
        if place is None:
            yield {n: times for n, times in made.items() if times}
            continue
        unit = left[place]
        basis[place] = [n / unit for n in left], {n: times / unit for n, times in made.items()}


def broken(
    statement: Statement,
    published: Sequence[Statement],
    cells: Sequence[tuple[int, ...]],
    truth: Sequence[int],
    answers: Sequence[tuple[Any, ...]],
) -> tuple[int, list[str]]:
    """How many relations there are, and those that do not hold of the answers."""
    exact = [row for one in published for _, row in one.rows(cells)]
    names, asked = zip(*statement.rows(cells), strict=True)
    every = [*exact, *asked]
    values = [sum(n * count for n, count in zip(row, truth, strict=True)) for row in exact]
    reported = {}
    for *groups, of in ((*row[:6], row[6:]) for row in answers):
        key = tuple(-1 if one is None else one for one in groups)
        reported |= {(key, name): own for name, own in zip(statement.values, of, strict=True)}
    # A sum of no value is NULL.
    values += [0 if reported[name] is None else int(reported[name]) for name in names]
    labels = [*(f"public {n}" for n in range(len(exact))), *map(str, names)]
    wrong, number = list[str](), 0
    for relation in relations(every):
        if max(relation) < len(exact):
            continue  # among public counts only
        number += 1
        if sum(times * values[n] for n, times in relation.items()):
            wrong.append(" ".join(f"{times} {labels[n]}" for n, times in relation.items()))
    return number, wrong


def tried(seed: int, base: Path) -> tuple[int, list[str]]:
    draw, folder = random.Random(seed), base / str(seed)
    folder.mkdir()
    sizes = [draw.randint(2, 3) for _ in "abc"]
    cells = [*itertools.product(*map(range, sizes))]
    truth = [draw.choice([10, 11, 23, 60, 200]) for _ in cells]
    published = [Statement.drawn(draw, 1) for _ in range(draw.randint(0, 3))]
    unit = draw.choice(["epsilon", "rho"])
    table: dict[str, Any] = {
        "from": "records",
        "budget": {"epsilon": 1e6} if unit == "epsilon" else {"rho": 1e6, "delta": 1e-6},
        "neighbours": "replace" if published else draw.choice(["replace", "add_remove"]),
        "invariants": [{"sql": one.published} for one in published],
    }
    table["attributes"] = {
        key: {"range": [0, size - 1]} for key, size in zip("abc", sizes, strict=True)
    }
    policy = tallyveil.parse_policy(
        {"tables": {"t": table}, "defaults": {unit: draw.choice([0.01, 0.1, 1])}}, base=folder
    )
    number, wrong = 0, list[str]()
    with duckdb.connect() as source:
        source.execute("CREATE TABLE records (a INTEGER, b INTEGER, c INTEGER, n INTEGER)")
        rows = [[*cell, count] for cell, count in zip(cells, truth, strict=True)]
        source.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        source.execute(
            "CREATE OR REPLACE TABLE records AS SELECT a, b, c FROM records, range(200) r(i)"
            " WHERE i < n"
        )
        try:
            gate = Gate(policy, source, time_limit=PATIENCE)
        except PolicyError as error:
            if "expected fewer" not in str(error.detail):
                raise
            return 0, []  # nothing would be protected
        with tallyveil.Connection(gate) as connection:
            connection.execute(f"SET dp.nonnegative = {draw.choice(['on', 'off'])}")
            for _ in range(draw.randint(1, 4)):
                # Fresh rows have noise of their own, and agree with public counts alone.
                choice = draw.choice(["auto", "fresh"] if published else ["auto"])
                more = ["imaged", "conditioned", "optimal"] if published else []
                mechanism = draw.choice(["auto", "auto", "laplace", "gaussian", *more])
                statement = Statement.drawn(draw, 3)
                connection.execute(f"SET dp.mechanism = {mechanism}")
                connection.execute(f"SET dp.source = {choice}")
                try:
                    result = connection.execute(statement.sql)
                except StatementError as error:
                    if mechanism == "auto" or error.sqlstate not in ("0A000", "22023"):
                        raise
                    continue  # the mechanism is for other rows
                many, own = broken(statement, published, cells, truth, result.fetchall())
                number += many
                own += [str(one.hint) for one in result.notices if "add up to" in str(one.hint)]
                public = [one.published for one in published]
                wrong += [f"{seed}: {public} {mechanism} {statement.sql}: {one}" for one in own]
    return number, wrong


@pytest.mark.parametrize("start", range(0, SHORT, 4))
def test_relations_hold(start: int, tmp_path: Path) -> None:
    found = [tried(seed, tmp_path) for seed in range(start, start + 4)]
    assert not [one for _, wrong in found for one in wrong]
    assert sum(number for number, _ in found) > 50


@pytest.mark.slow
@pytest.mark.parametrize("start", range(SHORT, LONG, 20))
def test_many_relations_hold(start: int, tmp_path: Path) -> None:
    found = [tried(seed, tmp_path) for seed in range(start, start + 20)]
    assert not [one for _, wrong in found for one in wrong]
