"""Small cubes, random releases, and the slow truth about what they cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tallyveil.accountant import Account, Charge
from tallyveil.mechanisms import Adjacency, Measure, Neighbours
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.workload.workload import Column, Factor, Workload
from tests import matrices
from tests.accountant.stores import House, Houses, RemoteHouse, SqliteHouse
from tests.dense_rows import dense_rows

SIZES = {"hue": 2, "age": 3, "sex": 2}


def column(axes: Sequence[str], dense: Sequence[Sequence[int]], multiplier: object = 1) -> Column:
    """A column from its dense matrix over the product of ``axes``."""
    return matrices.column(dense, axes, [SIZES[name] for name in axes], multiplier)


def dense(column: Column) -> np.ndarray:
    """Its rows over all cells of the cube, and a last cell outside of it; cell by cell."""
    rows = dense_rows(column, SIZES)
    matrix = rows.reshape(len(rows), -1).astype(np.int64)
    return np.append(matrix, np.zeros((len(matrix), 1), dtype=np.int64), axis=1)


@dataclass(frozen=True)
class Release:
    columns: tuple[Column, ...]
    scales: tuple[float, ...]

    @property
    def workload(self) -> Workload:
        return Workload("person", self.columns)

    def units(
        self, relation: Adjacency, measure: Measure = "epsilon"
    ) -> dict[tuple[int, ...], int]:
        """⌈10¹² × loss⌉ of every cell, or of every pair of cells.

        In ε Σ r|move|/b, in ρ Σ (r move)²/(2b²).
        """
        r = relation.max_rows
        n = math.prod(SIZES.values())
        if relation.neighbours == "add_remove":
            keys: list[tuple[int, ...]] = [(j,) for j in range(n)]
        else:
            keys = [*itertools.combinations(range(n if relation.closed else n + 1), 2)]
        # The last cell is outside of the cube: where a record that is removed goes.
        one, other = zip(*((*key, n)[:2] for key in keys), strict=True)
        prices, amounts = [], []
        for column, b in zip(self.columns, self.scales, strict=True):
            matrix = r * dense(column)
            move = np.abs(matrix[:, one] - matrix[:, other])
            rate = 1 / Fraction(b) if measure == "epsilon" else 1 / (2 * Fraction(b) ** 2)
            prices.append(10**12 * rate)
            amounts.append((move if measure == "epsilon" else move**2).sum(axis=0).tolist())
        whole = math.lcm(*(price.denominator for price in prices))
        each = [int(price * whole) for price in prices]
        losses = zip(*amounts, strict=True)
        return {
            key: -(-sum(map(mul, each, loss)) // whole)
            for key, loss in zip(keys, losses, strict=True)
        }


def truth(history: Sequence[Release], relation: Adjacency, measure: Measure = "epsilon") -> int:
    """What the cell or pair worst off has lost, by going through all of them."""
    losses = [release.units(relation, measure) for release in history]
    return max((sum(loss[key] for loss in losses) for key in losses[0]), default=0)


@cache
def _factors(axes: tuple[str, ...]) -> st.SearchStrategy[Factor]:
    """Of one to three rows. A byte is a coefficient: drawn as one, they take little time."""
    cells, values = math.prod(SIZES[name] for name in axes), (0, 0, 1, 1, 2, -1, -3)

    def factor(drawn: bytes) -> Factor:
        whole = [values[byte % len(values)] for byte in drawn]
        rows = [whole[n : n + cells] for n in range(0, len(whole) - cells + 1, cells)]
        return column(axes, rows).factors[0]

    return st.binary(min_size=cells, max_size=3 * cells).map(factor)


_PLACES = st.tuples(*[st.sampled_from([None, 0, 0, 1])] * len(SIZES))
_SOME = st.none() | st.sets(st.integers(0, 8), min_size=1)


@st.composite
def _columns(draw: st.DrawFn) -> Column:
    """Over some axes, jointly or as a product; all rows of it or some."""
    places = draw(_PLACES)
    groups = [tuple(name for name, g in zip(SIZES, places, strict=True) if g == n) for n in (0, 1)]
    whole = Column(tuple(draw(_factors(axes)) for axes in groups if axes or draw(st.booleans())))
    rows = draw(_SOME)
    if rows is None:
        return whole
    return whole.take(np.array(sorted({row % whole.height for row in rows}), dtype=np.int64))


_LISTS = st.lists(_columns(), min_size=1, max_size=3)
_SCALES = st.sampled_from([0.7, 1.0, 3.0, 10.0, 20.0, 33.333333333333336])


@st.composite
def _releases(draw: st.DrawFn) -> Release:
    columns = draw(_LISTS)
    return Release(tuple(columns), tuple(draw(_SCALES) for _ in columns))


class Cubes:
    """What the tests of this room share."""

    column = staticmethod(column)
    release = Release
    truth = staticmethod(truth)
    histories = st.lists(_releases(), min_size=1, max_size=5)

    @staticmethod
    def charged(history: Sequence[Release], account: Account) -> list[Release]:
        """Those that cost something: no other can be charged."""
        return [one for one in history if truth([one], account.relation, account.measure)]

    @staticmethod
    def account(
        budget: object = 3,
        neighbours: Neighbours = "add_remove",
        max_rows: int = 1,
        table: str = "person",
        fingerprint: str = "f",
        **measure: Any,
    ) -> Account:
        domain = Domain(
            table,
            tuple(Attribute(n, "range", "BIGINT", tuple(range(k))) for n, k in SIZES.items()),
        )
        return Account(domain, neighbours, max_rows, Fraction(budget), fingerprint, **measure)


@pytest.fixture(scope="session")
def cubes() -> Cubes:
    return Cubes()


@pytest.fixture(params=["sqlite", "remote"])
def houses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Houses]:
    """Makes ledgers of one kind of store."""
    made: list[House] = []

    def house() -> House:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(SqliteHouse(folder) if request.param == "sqlite" else RemoteHouse())
        return made[-1]

    yield house
    for one in made:
        one.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.ledger"


@pytest.fixture
def charge(cubes: Cubes) -> Charge:
    workload = Workload("person", (cubes.column(["hue"], [[1, 0]]),))
    return Charge(workload, "laplace", (20.0,), "SELECT 1")
