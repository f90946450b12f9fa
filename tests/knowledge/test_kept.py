"""What is kept of what was asked takes a bounded room."""

from __future__ import annotations

import gc
import weakref
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.cache import Cache
from tallyveil.inference import DiscreteLaplaceLaw, Noises
from tallyveil.knowledge.answers import estimate
from tallyveil.knowledge.answers.estimate import NoiseWeights
from tallyveil.knowledge.recorded.column_store import hull_of
from tallyveil.knowledge.recorded.prepared import prepared
from tallyveil.mechanisms.losses import cell_classes
from tallyveil.workload.workload import Column, Factor
from tests.knowledge.columns import any_column


def test_what_is_kept_of_a_column_goes_with_it() -> None:
    """An analyst asks for nothing, or EXPLAIN, as often as it pleases: 65,536 conditions were kept,
    each of up to megabytes."""
    gone = []
    for seed in range(20):
        column = any_column(np.random.default_rng(seed))
        hull_of(column)
        gone += [weakref.ref(column), *map(weakref.ref, column.factors)]
        del column
    gc.collect()
    assert not [one for one in gone if one() is not None]


def test_who_keeps_a_column_counts_its_bytes() -> None:
    """EXPLAIN of conditions on two attributes together grew a server by 11 MB a statement."""
    cells = np.arange(200_000)
    ones = np.ones_like(cells)
    column = Column((Factor(("a", "b"), (600, 600), 1, np.zeros_like(cells), cells, ones),))
    [own] = prepared(1, [column])
    assert own.weight > column.nbytes > 3 * cells.nbytes
    assert cell_classes._bytes(None, (column, None)) == column.nbytes
    found = cell_classes.partition(column, closed=True)
    assert found is not None
    assert cell_classes._bytes(None, (column, found)) > column.nbytes + found[0].labels.nbytes


def test_half_widths_are_kept_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: Cache[float] = Cache(100, 1 << 17, estimate._WIDTHS._weigh)
    monkeypatch.setattr(estimate, "_WIDTHS", weighed)
    for seed in range(40):
        values = np.random.default_rng(seed).uniform(0.5, 1, 500)
        noises = Noises.of(DiscreteLaplaceLaw, np.full(500, 3.0))
        assert NoiseWeights(values, noises, rough=True).half_width(Fraction(9, 10)) > 0
    assert 0 < len(weighed.held()) < 40
