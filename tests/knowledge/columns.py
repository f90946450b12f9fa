"""Columns of all forms over three small attributes, and releases of them."""

from __future__ import annotations

import numpy as np

from tallyveil.accountant import Charge, Release
from tallyveil.accountant.joint_law import CONDITIONED, Joint
from tallyveil.workload.workload import Column, Factor, Workload
from tests import matrices

__all__ = ["SHAPE", "any_column", "release"]

SHAPE = {"a": 4, "b": 5, "c": 3}


def factor(axes: tuple[str, ...], dense: np.ndarray) -> Factor:
    return matrices.factor(dense, axes, [SHAPE[axis] for axis in axes])


def ranged(axis: str, random: np.random.Generator) -> Factor:
    low, high = sorted(random.integers(0, SHAPE[axis], 2))
    places = np.arange(SHAPE[axis])
    return factor((axis,), ((places >= low) & (places <= high)).astype(np.int64)[None])


def any_column(random: np.random.Generator) -> Column:
    kind = random.integers(0, 7)
    if kind <= 2:
        some = [axis for axis in SHAPE if random.random() < 0.6]
        return Column(tuple(ranged(axis, random) for axis in some))
    if kind == 3:
        return Column((factor(("b",), np.eye(5, dtype=np.int64)), ranged("a", random)))
    if kind == 4:
        dense = random.integers(0, 2, (1, 12))
        dense[0, random.integers(0, 12)] = 1
        return Column((factor(("a", "c"), dense),))
    if kind == 5:
        return Column((factor(("a",), random.integers(1, 4, (1, 4))), ranged("c", random)))
    return Column((factor(("c",), np.array([[1, 0, 1]])), ranged("b", random)))


def release(
    number: int,
    *columns: Column,
    mechanism: str = "laplace",
    scale: float = 5.0,
    together: bool = False,
) -> Release:
    """``together``: the noise of all rows is drawn given that it adds up to 0."""
    rows = sum(column.height for column in columns)
    joint = Joint(CONDITIONED, rows, (*(rows,) * rows, -1)) if together else None
    scales = (scale,) * len(columns)
    charge = Charge(Workload("t", columns), mechanism, scales, "SELECT 1", joint=joint)
    found = Release(number, "t", mechanism, charge)
    found.noisy = tuple((number,) * column.height for column in columns)
    return found
