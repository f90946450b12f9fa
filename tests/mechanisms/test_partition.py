"""Cells that no row tells apart are a class; too many classes are seen without making them."""

from __future__ import annotations

import numpy as np
import pytest

from tallyveil.mechanisms.losses import cell_classes
from tallyveil.mechanisms.losses.cell_classes import partition, too_many
from tallyveil.workload.workload import Column, Factor
from tests.matrices import factor


def _factor(random: np.random.Generator, axis: str) -> Factor:
    return factor(random.integers(-1, 2, (random.integers(1, 6), random.integers(1, 5))), [axis])


@pytest.mark.parametrize("seed", range(60))
def test_too_many_classes_are_too_many(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    column = Column(tuple(_factor(random, axis) for axis in "ab"[: 1 + seed % 2]))
    if seed % 5 == 0:
        column = column.take(np.flatnonzero(random.random(column.height) < 0.7))
    monkeypatch.setattr(cell_classes, "CLASS_LIMIT", 1_000)
    found = partition(column, closed=True)
    assert found is not None
    monkeypatch.setattr(cell_classes, "CLASS_LIMIT", found[0].count)
    assert not too_many(column)


def test_as_many_classes_as_groups_are_seen() -> None:
    assert too_many(Column((Factor.identity(("a",), (2_000,)),)))
    few, others = (Factor.identity((axis,), (40,)) for axis in "ab")
    assert not too_many(Column((few,)))
    assert too_many(Column((few, others)))
