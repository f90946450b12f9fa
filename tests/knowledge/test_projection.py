"""The nearest values with given sums, none negative, by the conditions that make them the nearest;
and the nearest integers, by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from scipy import sparse
from scipy.optimize import milp

from tallyveil.inference.estimates.consistent_values import projected
from tallyveil.knowledge.sums.nearest_integers import nearest_integers
from tallyveil.knowledge.sums.rounding import jointly_rounded
from tests.pairs import alternately

NESTED = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
CROSSING = np.vstack([NESTED, [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]]])
WEIGHTED = np.array([[1, 2, 3, 0, 0, 1]])


@pytest.mark.parametrize("rows", [NESTED, CROSSING, WEIGHTED], ids=["nested", "both", "weighted"])
@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_nearer_has_the_sums(rows: np.ndarray, nonnegative: bool, seed: int) -> None:
    """V⁻¹(x − v) − Rᵀμ is 0 where x may move both ways, and at least 0 where x is at 0."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 4, 6).astype(float)
    values, variances = truth + random.normal(0, 5, 6), random.uniform(0.5, 9, 6)
    counts = np.full(6, nonnegative)
    found = projected(sparse.csr_matrix(rows), rows @ truth, values, variances, counts)
    assert found is not None
    assert rows @ found == pytest.approx(rows @ truth, abs=1e-7)
    slope = (found - values) / variances
    inside = found > 0 if nonnegative else counts == nonnegative
    assert not nonnegative or found.min() >= 0
    dual = np.linalg.lstsq(rows[:, inside].T, slope[inside], rcond=None)[0]
    assert slope[inside] == pytest.approx(rows[:, inside].T @ dual, abs=1e-6)
    if nonnegative and len(np.unique(rows @ np.eye(6)[inside].sum(axis=0))) > 1:
        outside = projected(sparse.csr_matrix(rows), rows @ truth, found, variances, counts)
        assert outside == pytest.approx(found, abs=1e-6)


def test_what_cannot_be_is_not_found() -> None:
    rows = sparse.csr_matrix(np.array([[1, 1]]))
    nothing = projected(rows, np.array([-3.0]), np.ones(2), np.ones(2), np.ones(2, bool))
    assert nothing is None
    assert projected(rows, np.array([-3.0]), np.ones(2), np.ones(2)) == pytest.approx([-1.5, -1.5])
    assert projected(rows, np.array([5.0]), np.ones(2), np.array([0.0, 1.0])) == pytest.approx(
        [1, 4]
    )


@pytest.mark.parametrize(("least", "seed"), alternately([0, None], range(10)))
def test_the_nearest_integers_are_the_nearest(seed: int, least: int | None) -> None:
    random = np.random.default_rng(seed)
    relations = np.array([[1, 1, 1, -1, 0], [0, 1, 0, 1, -1]])
    values, variances = random.uniform(-2, 3, 5), random.uniform(0.5, 2, 5)
    values[4], variances[4] = 3, 0
    counts = None if least is None else np.ones(5, bool)
    found = nearest_integers(sparse.csr_matrix(relations), values, variances, counts)
    assert found is not None
    assert not (relations @ found).any()
    span = range(-4 if least is None else 0, 7)
    best = min(
        float((np.abs(np.array(own) - values[:4]) / np.sqrt(variances[:4])).sum())
        for own in itertools.product(span, repeat=4)
        if not (relations @ np.array([*own, 3])).any()
    )
    reached = float((np.abs(np.array(found) - values)[:4] / np.sqrt(variances[:4])).sum())
    assert best - 1e-6 <= reached <= 1.02 * best + 1e-6


def test_the_search_for_integers_is_limited_by_nodes_and_not_by_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[dict[str, float]] = []

    def recorded(*given: Any, options: dict[str, float], **named: Any) -> Any:
        limits.append({**options})
        return milp(*given, options=options, **named)

    monkeypatch.setattr(scipy.optimize, "milp", recorded)
    for size in (2, 6):
        cells = np.eye(size**3, dtype=np.int64).reshape(size, size, size, -1)
        relations = np.vstack([cells.sum(axis=axis).reshape(size**2, -1) for axis in range(3)])
        values = np.random.default_rng(0).normal(0, 9, size**3)
        found = nearest_integers(sparse.csr_matrix(relations), values, np.ones(size**3))
        assert found is not None
        assert not (relations @ found).any()
    assert [sorted(one) for one in limits] == [["mip_rel_gap", "node_limit"]] * 2
    assert limits[0]["node_limit"] == 1000 > limits[1]["node_limit"] > 1


def test_no_integers_are_searched_in_a_program_that_is_too_large() -> None:
    for size, found in ((300, True), (3000, False)):
        relations = sparse.csr_matrix(np.append(np.ones(size - 1, np.int64), -1)[None])
        values = np.append(np.full(size - 1, 0.4), 0.4 * (size - 1))
        assert (nearest_integers(relations, values, np.ones(size)) is not None) == found
    large = sparse.csr_matrix(np.array([[10**9, -1]]))
    assert nearest_integers(large, np.array([3.3, 3.3e9]), np.array([1, 1e18])) == [3, 3 * 10**9]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("nonnegative", [False, True])
def test_three_way_tables_agree_with_all_two_way_margins(seed: int, nonnegative: bool) -> None:
    random = np.random.default_rng(seed)
    truth = random.integers(0, 4, (3, 3, 3))
    cells = np.eye(27, dtype=np.int64)
    margins = [cells.reshape(3, 3, 3, 27).sum(axis=axis).reshape(9, 27) for axis in range(3)]
    rows = np.vstack([cells, *margins])
    exact = rows[27:] @ truth.ravel()
    values = np.concatenate([truth.ravel() + random.normal(0, 3, 27), exact])
    variances = np.concatenate([np.ones(27), np.zeros(27)])
    counts = np.arange(54) < 27 if nonnegative else None
    found = jointly_rounded(sparse.csr_matrix(rows), values, variances, counts)
    assert found is not None
    assert found.agree
    told = np.array(found.values)
    assert (rows[27:] @ told[:27] == exact).all()
    assert not nonnegative or told.min() >= 0


def test_a_hundred_thousand_values_agree_with_a_thousand_totals() -> None:
    """What they miss a total by is shared out by their variances; and where 400 other totals cross
    these, they agree with both."""
    random = np.random.default_rng(0)
    count, totals = 100_000, 1_000
    of, other = random.integers(0, totals, count), totals + random.integers(0, 400, count)
    truth = random.integers(0, 1_000, count).astype(np.float64)
    values, variances = truth + random.laplace(0, 10, count), random.uniform(100, 300, count)
    places = np.arange(count)
    disjoint = sparse.csr_matrix((np.ones(count), (of, places)), (totals, count))
    sums = disjoint @ truth
    found = projected(disjoint, sums, values, variances)
    assert found is not None
    off = sums - disjoint @ values
    shared = values + variances * (off / (disjoint @ variances))[of]
    assert np.allclose(found, shared, rtol=0, atol=1e-8)
    assert (np.abs(disjoint @ found - sums) <= 1e-9 * sums).all()
    rows = np.concatenate([of, other])
    both = sparse.csr_matrix((np.ones(2 * count), (rows, np.tile(places, 2))), (1_400, count))
    found = projected(both, both @ truth, values, variances)
    assert found is not None
    assert (np.abs(both @ found - both @ truth) <= 1e-9 * (both @ truth)).all()
