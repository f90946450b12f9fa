"""Small cubes, random releases, and the slow truth about what they cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tallyveil.accountant import Account, Charge
from tallyveil.mechanisms import Measure, Neighbours, Relation
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.workload.workload import Column, Factor, Workload

SIZES = {"hue": 2, "age": 3, "sex": 2}


def column(axes: Sequence[str], dense: Sequence[Sequence[int]], multiplier: object = 1) -> Column:
    """A column from its dense matrix over the product of ``axes``."""
    matrix = np.array(dense, dtype=np.int64)
    rows, cells = np.nonzero(matrix)
    shape = tuple(SIZES[name] for name in axes)
    assert matrix.shape[1] == math.prod(shape)
    return Column.joint(
        tuple(axes),
        shape,
        len(matrix),
        rows.astype(np.int64),
        cells.astype(np.int64),
        matrix[rows, cells],
        Fraction(multiplier),
    )


def dense(column: Column) -> np.ndarray:
    """Its rows over all cells of the cube, and a last cell outside of it; cell by cell."""
    cube = np.zeros((column.product_height, *SIZES.values()), dtype=np.int64)
    for cell in itertools.product(*map(range, SIZES.values())):
        at = np.ones(1, dtype=np.int64)
        for factor in column.factors:
            code = 0
            for name, size in zip(factor.axes, factor.shape, strict=True):
                code = code * size + cell[list(SIZES).index(name)]
            own = np.zeros(factor.height, dtype=np.int64)
            own[factor.rows[factor.cells == code]] = factor.coefficients[factor.cells == code]
            at = np.multiply.outer(at, own).ravel()
        cube[(slice(None), *cell)] = at
    matrix = cube.reshape(column.product_height, -1)
    if column.selected is not None:
        matrix = matrix[column.selected]
    return np.append(matrix, np.zeros((len(matrix), 1), dtype=np.int64), axis=1)


@dataclass(frozen=True)
class Release:
    columns: tuple[Column, ...]
    scales: tuple[float, ...]

    @property
    def workload(self) -> Workload:
        return Workload("person", self.columns)

    def units(self, relation: Relation, measure: Measure = "epsilon") -> dict[tuple[int, ...], int]:
        """⌈10¹² × loss⌉ of every cell, or of every pair of cells.

        In ε Σ r|move|/b, in ρ Σ (r move)²/(2b²).
        """
        r = relation.max_rows
        n = math.prod(SIZES.values())
        matrices = [dense(column) for column in self.columns]
        if relation.neighbours == "add_remove":
            moves = {(j,): [w[:, j] for w in matrices] for j in range(n)}
        else:
            cells = range(n if relation.closed else n + 1)
            pairs = itertools.combinations(cells, 2)
            moves = {(j, k): [w[:, j] - w[:, k] for w in matrices] for j, k in pairs}
        return {
            key: math.ceil(
                10**12
                * sum(
                    r * Fraction(int(abs(m).sum())) / Fraction(b)
                    if measure == "epsilon"
                    else Fraction(int(((r * m) ** 2).sum())) / (2 * Fraction(b) ** 2)
                    for m, b in zip(move, self.scales, strict=True)
                )
            )
            for key, move in moves.items()
        }


def truth(history: Sequence[Release], relation: Relation, measure: Measure = "epsilon") -> int:
    """What the cell or pair worst off has lost, by going through all of them."""
    losses = [release.units(relation, measure) for release in history]
    return max((sum(loss[key] for loss in losses) for key in losses[0]), default=0)


def _factors(axes: Sequence[str]) -> st.SearchStrategy[Factor]:
    cells = math.prod(SIZES[name] for name in axes)
    row = st.lists(st.sampled_from([0, 0, 1, 1, 2, -1, -3]), min_size=cells, max_size=cells)
    rows = st.lists(row, min_size=1, max_size=3)
    return rows.map(lambda dense: column(axes, dense).factors[0])


@st.composite
def _columns(draw: st.DrawFn) -> Column:
    """Over some axes, jointly or as a product; all rows of it or some."""
    place = {name: draw(st.sampled_from([None, 0, 0, 1])) for name in SIZES}
    groups = [[name for name in SIZES if place[name] == g] for g in (0, 1)]
    whole = Column(tuple(draw(_factors(axes)) for axes in groups if axes or draw(st.booleans())))
    if draw(st.booleans()):
        return whole
    rows = draw(st.sets(st.integers(0, whole.height - 1), min_size=1))
    return whole.take(np.array(sorted(rows), dtype=np.int64))


@st.composite
def _releases(draw: st.DrawFn) -> Release:
    columns = draw(st.lists(_columns(), min_size=1, max_size=3))
    scale = st.sampled_from([0.7, 1.0, 3.0, 10.0, 20.0, 33.333333333333336])
    return Release(tuple(columns), tuple(draw(scale) for _ in columns))


class Cubes:
    """What the tests of this room share."""

    column = staticmethod(column)
    release = Release
    truth = staticmethod(truth)
    histories = st.lists(_releases(), min_size=1, max_size=5)

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.ledger"


@pytest.fixture
def charge(cubes: Cubes) -> Charge:
    workload = Workload("person", (cubes.column(["hue"], [[1, 0]]),))
    return Charge(workload, "laplace", (20.0,), "SELECT 1")
