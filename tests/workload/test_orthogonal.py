"""Orthogonality of columns by their factors, against dense products over all cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tallyveil.workload.orthogonal import are_orthogonal
from tallyveil.workload.workload import Column, Factor

SIZES = {"a": 4, "b": 3}
ROWS: dict[str, npt.ArrayLike | None] = {
    "all": None,
    "cells": np.eye(4),
    "halves": [[1, 1, 0, 0], [0, 0, 1, 1]],
    "half against half": [[1, 1, -1, -1]],
    "in each half": [[1, -1, 0, 0], [0, 0, 1, -1]],
    "of all but one": [[1, 1, -2, 0]],
}


def factor(axis: str, rows: npt.ArrayLike) -> Factor:
    found = np.array(rows, dtype=np.int64)[:, : SIZES[axis]]
    at, cells = np.nonzero(found)
    return Factor((axis,), (SIZES[axis],), len(found), at, cells, found[at, cells])


def column(*names: str) -> Column:
    chosen = [(axis, ROWS[name]) for axis, name in zip(SIZES, names, strict=True)]
    return Column(tuple(factor(axis, rows) for axis, rows in chosen if rows is not None))


def dense(of: Column) -> npt.NDArray[np.int64]:
    own = {one.axes[0]: one.dense() for one in of.factors}
    ones = {axis: np.ones((1, size), dtype=np.int64) for axis, size in SIZES.items()}
    return np.kron(*(own.get(axis, ones[axis]) for axis in SIZES))


def orthogonal(columns: Sequence[Column]) -> bool:
    pairs = itertools.combinations(map(dense, columns), 2)
    return not any((one @ other.T).any() for one, other in pairs)


EVERY = [*itertools.product(ROWS, ["all", "half against half", "in each half"])]


@pytest.mark.parametrize("first", EVERY)
def test_columns_are_orthogonal_only_if_all_their_rows_are(first: tuple[str, str]) -> None:
    for second in EVERY:
        pair = column(*first), column(*second)
        assert are_orthogonal(pair) <= orthogonal(pair)


def test_the_levels_of_a_lattice_are_orthogonal() -> None:
    along = ["all", "half against half", "in each half"]
    columns = [column(a, b) for a in along for b in ("all", "of all but one")]
    assert orthogonal(columns)
    assert are_orthogonal(columns)
    assert not are_orthogonal([*columns, column("halves", "all")])


def test_an_attribute_in_different_factors_proves_nothing() -> None:
    joint = np.array([[1, -1, 0] * 4], dtype=np.int64)
    at, cells = np.nonzero(joint)
    both = Column((Factor(("a", "b"), (4, 3), 1, at, cells, joint[at, cells]),))
    halves = column("halves", "all")
    assert not (joint @ dense(halves).T).any()
    assert not are_orthogonal([both, halves])
