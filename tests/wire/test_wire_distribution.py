"""As a client receives it: the answer minus the truth is the discrete Laplace that is claimed.

Samples are unseeded. Each test rejects a right implementation with probability below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.goodness import surprise

EPSILON = 0.5  # scale b = 2
A = math.exp(-EPSILON)
ALARM = 1e-7


def pmf(k: int) -> float:
    """P(K = k) = (1 − a)/(1 + a) · a^|k| (MATH §3)."""
    return (1 - A) / (1 + A) * A ** abs(k)


@pytest.fixture
def generous(serve: Callable[..., Any]) -> Any:
    return serve(epsilon=EPSILON, budget={"epsilon": 10000.0})


def test_group_counts_have_the_claimed_law(generous: Any, source: Any) -> None:
    truth = dict(source.execute("SELECT age, count(*) FROM people GROUP BY age").fetchall())
    noise: list[int] = []
    with generous.connect() as connection:
        connection.execute("SET dp.source = fresh")
        connection.execute("SET dp.notices = off")
        for _ in range(200):
            rows = connection.execute("SELECT age, count(*) FROM person GROUP BY age").fetchall()
            assert len(rows) == 116
            noise += [n - truth.get(age, 0) for age, n in rows]
    _check_mean(noise)
    assert surprise(noise, {k: pmf(k) for k in range(-60, 61)}) > ALARM


def _check_mean(noise: list[int]) -> None:
    """Unbiased: |mean| within z standard errors; the variance is 2a/(1−a)²."""
    error = math.sqrt(2 * A / (1 - A) ** 2 / len(noise))
    assert abs(np.mean(noise)) < stats.norm.isf(ALARM / 2) * error


def test_a_scalar_count_always_returns_one_row(generous: Any) -> None:
    """Also of records that are not there, with whatever noise."""
    with generous.connect() as connection:
        connection.execute("SET dp.source = fresh")
        values = {
            connection.execute(
                "SELECT count(*) FROM person WHERE age > 89 AND sex = 'F'"
            ).fetchall()[0][0]
            for _ in range(40)
        }
    assert min(values) < 0 < max(values)


def test_a_rational_sum_is_unbiased(generous: Any, source: Any) -> None:
    """SUM(age * 0.1) has its noise on the grid of tenths, around the exact sums."""
    tenths = "SELECT state, sum(age * 0.1) FROM {} WHERE age < 50 GROUP BY state"
    truth = dict(source.execute(tenths.format("people")).fetchall())
    deviations = []
    with generous.connect() as connection:
        connection.execute("SET dp.source = fresh")
        for _ in range(140):
            for state, value in connection.execute(tenths.format("person")).fetchall():
                assert (value * 10) % 1 == 0
                deviations.append(float(value - truth.get(state, 0)))
    assert len(deviations) >= 400
    # 49 steps of 0.1 per record at epsilon 0.5: scale 98 steps.
    a = math.exp(-EPSILON / 49)
    error = 0.1 * math.sqrt(2 * a / (1 - a) ** 2 / len(deviations))
    assert abs(np.mean(deviations)) < stats.norm.isf(ALARM / 2) * error
