"""Intervals of variances, covariances, correlations and regressions hold the truth at least as
often as they say, and are not much wider than need be.

Each group is a history of its own, as in `test_quotient_coverage`: of 3,000, more misses than
`MOST` have a probability below 10⁻⁷ for each of fewer than 60 checks. The narrowest interval that
could be had is about as wide as what an error exceeds as rarely as the interval may miss.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallyveil
from tests.gate.asking import Connect, ask, spent
from tests.gate.test_quotient_coverage import LEVELS, MOST, connection, table

Y = "CASE WHEN a THEN v ELSE 12 END"
WIDEST = {
    "var_pop(v)": 1.35,
    "stddev(v)": 1.35,
    f"covar_samp({Y}, v)": 1.4,
    f"regr_slope({Y}, v)": 1.6,
    f"regr_sxx(v, {Y})": 1.4,
    f"regr_avgy({Y}, v)": 1.35,
    f"regr_intercept({Y}, v)": 2.7,
    f"corr({Y}, v)": 2.6,
    f"regr_r2({Y}, v)": 2.8,
}
EPSILON: dict[str, Any] = {"budget": {"epsilon": 1000.0}, "defaults": {"epsilon": 8}}
RHO: dict[str, Any] = {"budget": {"rho": 1000.0, "delta": 1e-9}, "defaults": {"rho": 2}}
LITTLE: dict[str, Any] = {"budget": {"epsilon": 1000.0}, "defaults": {"epsilon": 0.25}}


def check(answers: tallyveil.Connection, source: Any, sql: str, *, narrow: bool = True) -> None:
    for level in LEVELS:
        answers.execute(f"SET dp.confidence = {level}")
        found = answers.execute(
            f"SELECT dp_interval_low({sql}), {sql}, dp_interval_high({sql})"
            " FROM t GROUP BY g ORDER BY g"
        ).fetchall()
        truth = source.execute(f"SELECT {sql} FROM r AS t GROUP BY g ORDER BY g").fetchall()
        low, value, high = np.array(found, dtype=float).T
        true, known = np.array(truth, dtype=float)[:, 0], ~np.isnan(low)
        shown, near = known & ~np.isnan(value), 1e-9 * np.abs(true)
        assert (low[shown] <= value[shown]).all()
        assert (value[shown] <= high[shown]).all()
        held = (low - near <= true) & (true <= high + near)
        assert (known & ~held).sum() <= MOST[level], (sql, level)
        if narrow:
            half = np.quantile(np.abs(value - true), level)
            assert known.mean() > 0.99
            assert np.median(high - low) / 2 <= WIDEST[sql] * half, (sql, level)


@pytest.mark.parametrize(
    ("declared", "sql"),
    [
        pytest.param(EPSILON, "stddev(v)", marks=pytest.mark.slow),
        (RHO, f"regr_slope({Y}, v)"),
    ],
)
def test_intervals_hold_the_truth(tmp_path: Path, declared: dict[str, Any], sql: str) -> None:
    with table() as source, connection(tmp_path, source, declared) as answers:
        check(answers, source, sql)


@pytest.mark.slow
@pytest.mark.parametrize("history", [False, True], ids=["fresh", "history"])
@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_all_with_and_without_history(
    tmp_path: Path, declared: dict[str, Any], history: bool
) -> None:
    with table() as source, connection(tmp_path, source, declared) as answers:
        if history:
            answers.execute("SELECT g, v < 7, count(*) FROM t GROUP BY 1, 2")
        for sql in WIDEST:
            check(answers, source, sql, narrow=not history)


@pytest.mark.slow
def test_with_much_noise_and_where_no_joint_law_is_known(tmp_path: Path) -> None:
    with table() as source, connection(tmp_path, source, LITTLE) as answers:
        for sql in WIDEST:
            check(answers, source, sql, narrow=False)
        answers.execute("SET dp.coverage = always")
        for sql in WIDEST:
            check(answers, source, sql, narrow=False)


SEVERAL = ("stddev(age)", "regr_slope(age, age % 7)", "corr(age, age % 7)")


@pytest.mark.parametrize(
    ("declared", "several"), [(EPSILON, SEVERAL[:1]), (RHO, SEVERAL[1:])], ids=["epsilon", "rho"]
)
def test_they_are_free_again_and_wider_over_all_looks(
    connect: Connect, declared: dict[str, Any], several: tuple[str, ...]
) -> None:
    with connect(**declared) as session:
        for one in several:
            ends = "dp_interval_low(x), x, dp_interval_high(x)"
            sql = f"SELECT {ends} FROM (SELECT {one} AS x FROM person)"
            ((low, value, high),) = first = ask(session, sql)
            cost = spent(session)
            assert low < value < high
            assert ask(session, sql) == first
            assert "Variances and the like ±" in session.explain(sql)
            assert spent(session) == cost
            session.execute("SET dp.coverage = always")
            session.execute("SET dp.source = fresh")
            ((least, _, most),) = ask(session, sql)
            assert most - least > high - low
            session.execute("RESET ALL")


def test_unbounded_ones_are_null_and_counted(connect: Connect) -> None:
    session = connect(budget={"epsilon": 100.0}, defaults={"epsilon": 0.01})
    cursor = session.execute(
        "SELECT dp_interval_low(corr(age, age % 2)), dp_interval_high(stddev(age))"
        " FROM person WHERE age < 4"
    )
    assert cursor.fetchone() == (None, None)
    assert "variances and the like unbounded in 2 rows" in cursor.notices[0].message


def test_minimum_count_and_the_least_of_a_variance(connect: Connect) -> None:
    session = connect(budget={"epsilon": 100.0}, defaults={"epsilon": 10})
    ends = "dp_interval_low(var_pop(age)), dp_interval_high(var_pop(age))"
    sql = f"SELECT {ends} FROM person WHERE age = 30"
    ((low, high),) = ask(session, sql)
    assert low == high == 0
    sql = sql.replace("age = 30", "age BETWEEN 30 AND 31")
    ((low, high),) = ask(session, sql)
    assert 0 <= low < 0.25 < high
    session.execute("SET dp.minimum_count = 1000000")
    assert ask(session, sql) == [(None, None)]
