"""Rows of a dashboard's plan: of the error that theory gives, and online."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.inference.designs.online import (
    Online,
    dashboard_error,
    online_root,
    online_tree,
    tile_rows,
)

MONDAY = dt.date(2018, 1, 1)
TILES = ("day", "week", "28 days", "year")


def tiles(days: int, first: dt.date = MONDAY) -> list[np.ndarray]:
    return [tile_rows(tile, first, days) for tile in TILES]


def errors(online: Online, days: int, step: int) -> list[float]:
    """The mean variance of each tile's rows, each from the rows that are ready on its last day, by
    least squares; of days in steps. A unit is a count at the whole budget."""
    if online.shares is None:
        weights = np.ones(len(online.rows)) / (online.rows.astype(float) ** 2).sum(axis=0).max()
    else:
        variances = [2 * np.exp(-float(s)) / (1 - np.exp(-float(s))) ** 2 for s in online.shares]
        weights = 1 / np.array(variances)
    found = []
    for rows in tiles(days):
        ends = [int(row.nonzero()[0][-1]) for row in rows]
        each = []
        for row, end in list(zip(rows, ends, strict=True))[::step]:
            ready = online.ready <= end
            known = online.rows[ready, : end + 1].astype(float)
            precision = (known.T * weights[ready]) @ known
            each.append(row[: end + 1] @ np.linalg.solve(precision, row[: end + 1]))
        found.append(float(np.mean(each)))
    return found


def test_tiles_are_days_weeks_and_running_sums() -> None:
    wednesday = dt.date(2025, 1, 1)
    day, week, trailing, year = tiles(30, wednesday)
    assert (day == np.eye(30)).all()
    assert week[0].nonzero()[0].tolist() == list(range(5, 12))
    assert (year == np.tril(np.ones((30, 30)))).all()
    assert trailing.sum(axis=1).tolist() == [*range(1, 29), 28, 28]


def test_a_year_in_rho_has_the_error_that_is_least() -> None:
    """20.366, of which a dual certificate shows that no rows bought have less; in units of 1/2ρ."""
    online = online_root(tiles(365))
    assert not np.triu(online.rows, 1).any()
    precision = online.rows.T.astype(float) @ online.rows
    precision /= precision.diagonal().max()
    assert dashboard_error(tiles(365), precision) <= 20.366 * 1.001
    # At no loss: from the rows that are ready alone.
    assert sum(errors(online, 84, 3)) == pytest.approx(sum(errors(_whole(online), 84, 3)), rel=0.3)


def _whole(online: Online) -> Online:
    return Online(online.rows[:84, :84], online.ready[:84], None)


def test_sums_of_weeks_are_bought_where_they_are_worth_their_share() -> None:
    year = tile_rows("year", MONDAY, 84)
    online = online_tree([year], MONDAY)
    assert {len(row.nonzero()[0]) for row in online.rows} > {1}
    assert sum({*(online.shares or ())}) == 1
    alone = Online(np.eye(84, dtype=np.int64), np.arange(84), (Fraction(1),) * 84)
    assert errors(online, 84, 3)[-1] < 0.9 * errors(alone, 84, 3)[-1]


@pytest.mark.slow
def test_a_year_in_epsilon_is_bought_as_days_and_weeks() -> None:
    """At most 251 with discrete Laplace noise; 268.5 with even shares, 401.3 with days alone."""
    online = online_tree(tiles(365), MONDAY)
    assert {len(row.nonzero()[0]) for row in online.rows} == {1, 7}
    day, week = sorted({*(online.shares or ())})
    assert day + week == 1
    assert abs(day - Fraction(411, 1000)) < Fraction(1, 32)
    assert sum(errors(online, 365, 4)) <= 253  # of every fourth row; 251 of all


@pytest.mark.parametrize("days", [1, 3, 10])
def test_short_years_have_plans_too(days: int) -> None:
    for online in (online_root(tiles(days)), online_tree(tiles(days), MONDAY)):
        for row, ready in zip(online.rows, online.ready, strict=True):
            assert not row[ready + 1 :].any()
            assert row[ready]
