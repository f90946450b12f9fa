"""As a client receives it: counts with a public range stay in it, and have the claimed law.

The fair mechanism's probabilities are written out from COUNT eq. 16, apart from the code's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

EPSILON = 0.5
A = math.exp(-EPSILON)
ALARM = 1e-7
# 100 records of every age below 90, none above.
GROUPS = "SELECT age, count(*) AS n FROM person GROUP BY age"


def fair(n: int, truth: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    m = min(truth, n - truth)
    apart = np.abs(np.arange(n + 1) - truth)
    weights = A ** np.where(apart < m, apart, np.ceil((apart + m) / 2))
    probabilities: np.ndarray[Any, np.dtype[np.float64]] = weights / weights.sum()
    return probabilities


@pytest.fixture
def generous(serve: Callable[..., Any]) -> Any:
    return serve(epsilon=EPSILON, budget={"epsilon": 10000.0})


@pytest.mark.parametrize("n", [1, 4])
def test_counts_have_the_law_of_the_end_their_truth_is_cut_off_at(generous: Any, n: int) -> None:
    """n = 1 is randomised response: the truth with probability 1/(1+α)."""
    seen = {0: np.zeros(n + 1), n: np.zeros(n + 1)}
    options = f"-cdp.mechanism=fair(n={n}) -cdp.source=fresh -cdp.notices=off"
    with generous.connect(options=options) as connection:
        for _ in range(60):
            for age, count in connection.execute(GROUPS).fetchall():
                assert type(count) is int
                seen[n if age < 90 else 0][count] += 1
    for truth, counts in seen.items():
        expected = counts.sum() * fair(n, truth)
        assert stats.chisquare(counts, expected).pvalue > ALARM / 4
    assert fair(1, 1)[1] == pytest.approx(1 / (1 + A))


def test_values_and_intervals_stay_in_the_range_and_are_remembered(generous: Any) -> None:
    query = (
        "SELECT age, n, dp_interval_low(n), dp_interval_high(n)"
        f" FROM ({GROUPS}) AS t WHERE age >= %s"
    )
    notices: list[str] = []
    with generous.connect() as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute("SET dp.mechanism = 'weakly_honest(n=7)'")
        rows = connection.execute(query, [80]).fetchall()
        assert len(rows) == 36
        for _, n, low, high in rows:
            assert 0 <= n <= 7
            assert 0 <= low < high <= 7
        assert connection.execute(query, [80]).fetchall() == rows
    assert generous.spent() == EPSILON
    assert "by weakly_honest(n=7)" in notices[0]
    assert notices[1].startswith("answered from history, free")
