"""Windows over counts that are rows of their own: running totals, moving sums and shares."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy import stats

import tallyveil
from tests.gate.asking import spent
from tests.gate.one_ledger import Open, on_one_ledger
from tests.gate.test_gate_parts import loss, plan, released
from tests.pairs import alternately
from tests.scenarios.noise import injected

# Every value occurs, since groups without records have no row in DuckDB.
RECORDS = "SELECT i % 32 AS d, i // 3 % 3 AS g, CASE WHEN i % 5 < 4 THEN i % 5 END AS x"
ATTRIBUTES = {
    "d": {"range": [0, 31]},
    "g": {"range": [0, 2]},
    "x": {"range": [0, 3], "nullable": True},
}
EPSILON: dict[str, Any] = {"epsilon": 1000.0}
RHO: dict[str, Any] = {"rho": 1000.0, "delta": 1e-9}
MEASURES = pytest.mark.parametrize("budget", [EPSILON, RHO], ids=["epsilon", "rho"])
OF = "dp_stddev(s), dp_interval_low(s), dp_interval_high(s)"
TOTALS = f"SELECT d, sum(count(*)) OVER (ORDER BY d) AS s, {OF} FROM t GROUP BY d ORDER BY d"
GROUPED = (
    f"SELECT g, d, s, {OF} FROM (SELECT g, d, sum(n) OVER (PARTITION BY g ORDER BY d) AS s FROM"
    " (SELECT g, d, count(*) AS n FROM t GROUP BY g, d) q) r ORDER BY g, d"
)
JOINED = f"SELECT k, count(*) AS s, {OF} FROM t JOIN keys ON d <= k GROUP BY k ORDER BY k"
MOVING = (
    "SELECT g, d, sum(n) OVER (PARTITION BY g ORDER BY d ROWS BETWEEN 6 PRECEDING AND CURRENT ROW)"
    " FROM (SELECT g, d, count(*) AS n FROM t GROUP BY g, d) q ORDER BY g, d"
)
BESIDE = (
    "SELECT d, count(*) AS n, sum(count(*)) OVER (ORDER BY d) AS s, dp_stddev(n), dp_stddev(s)"
    " FROM t GROUP BY d ORDER BY d"
)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with on_one_ledger(tmp_path, "t", RECORDS.removeprefix("SELECT "), ATTRIBUTES) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS {RECORDS} FROM range(2000) r(i)")
        yield database


SUMS = [
    "sum(count(*)) OVER (ORDER BY d)",
    "sum(count(*)) OVER (ORDER BY d DESC ROWS UNBOUNDED PRECEDING)",
    "sum(count(*) - 2 * count(x)) OVER (ORDER BY d + 3)",
    "sum(sum(x)) OVER (ORDER BY d ROWS BETWEEN 6 PRECEDING AND CURRENT ROW)",
    "sum(count(*) FILTER (WHERE x > 1)) OVER (ORDER BY d RANGE BETWEEN 4 PRECEDING AND 2"
    " FOLLOWING)",
    "avg(count(*)) OVER (ORDER BY d ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING)",
    "sum(count(*)) OVER ()",
    "sum(count(*)) OVER (PARTITION BY d % 4)",
    "sum(count(*)) OVER (PARTITION BY d % 4 ORDER BY d GROUPS 2 PRECEDING EXCLUDE NO OTHERS)",
    "sum(count(*)) OVER (ORDER BY d // 5)",
]
TOTALS_ALONE = "SELECT d, sum(count(*)) OVER (ORDER BY d) FROM t GROUP BY d ORDER BY d"
ADDED_UP = [
    *(f"SELECT d, {one} AS s FROM t GROUP BY d ORDER BY d" for one in SUMS),
    "SELECT x, sum(count(*)) OVER (ORDER BY x NULLS FIRST) AS s FROM t GROUP BY x ORDER BY x",
    "SELECT x, sum(count(*)) OVER (ORDER BY x DESC NULLS LAST) AS s FROM t GROUP BY x ORDER BY x",
    "SELECT g, d, sum(count(*)) OVER (ORDER BY d) AS s FROM t GROUP BY g, d ORDER BY g, d",
    "SELECT g, d, sum(count(*)) OVER (ORDER BY g, d) AS s FROM t GROUP BY g, d ORDER BY g, d",
    "SELECT g, d, sum(count(*)) OVER (PARTITION BY g ORDER BY d DESC ROWS 3 PRECEDING) AS s"
    " FROM t WHERE d > 4 AND x < 3 GROUP BY g, d ORDER BY g, d",
    "WITH q AS (SELECT g AS h, d, count(*) AS n FROM t GROUP BY g, d) SELECT h, s FROM (SELECT *,"
    " sum(n) OVER (PARTITION BY h ORDER BY d) AS s FROM q) r WHERE d = 9 ORDER BY h",
    "SELECT h, sum(m) OVER (ORDER BY h) AS s FROM (SELECT e AS h, n AS m FROM (SELECT d AS e,"
    " count(*) AS n FROM t GROUP BY d) q) r ORDER BY h",
    "SELECT d, sum(count(*)) OVER w AS s FROM t GROUP BY d WINDOW w AS (ORDER BY d) ORDER BY d"
    " LIMIT 7",
]
NOISY = [  # evaluated over the noisy rows
    "SELECT d, sum(count(*)) OVER (ORDER BY count(*), d) AS s FROM t GROUP BY d ORDER BY d",
    "SELECT d, sum(count(*)) OVER (ORDER BY d) AS s FROM t GROUP BY d HAVING count(*) > 62"
    " ORDER BY d",
    "SELECT d, sum(n) OVER (ORDER BY d) AS s FROM (SELECT d, count(*) AS n FROM t GROUP BY d) q"
    " WHERE n > 62 ORDER BY d",
    "SELECT d, sum(n) OVER (ORDER BY d) AS s FROM (SELECT d, count(*) AS n FROM t GROUP BY d"
    " ORDER BY d LIMIT 5) q ORDER BY d",
    "SELECT d, sum(count(*)) OVER (ORDER BY d ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS s"
    " FROM t GROUP BY d ORDER BY d",
    "SELECT d, sum(count(*)) FILTER (WHERE d > 4) OVER (ORDER BY d) AS s FROM t GROUP BY d"
    " ORDER BY d",
    "SELECT count(*) AS n, sum(count(*)) OVER () AS s FROM t",
    "SELECT d, sum(count(*) + 1) OVER (ORDER BY d) AS s FROM t GROUP BY d ORDER BY d",
    "SELECT d, sum(count(*)) OVER (ORDER BY d) AS s FROM t GROUP BY d QUALIFY s > 500 ORDER BY d",
    "SELECT g, d, sum(count(*)) OVER (ORDER BY d) AS s FROM t GROUP BY GROUPING SETS ((g), (d))"
    " ORDER BY g, d",
    "SELECT sum(s) FROM (SELECT sum(count(*)) OVER (ORDER BY d ROWS 1 PRECEDING) AS s FROM t"
    " GROUP BY g, d) q",  # of equal days any may be first: this has no answer but a noisy one
]


def has_rows_of_its_own(text: str) -> bool:
    return re.search(r"summed up: \d+ row", text) is not None


@pytest.mark.parametrize(
    ("strategy", "statements"),
    [("direct", [*ADDED_UP, *NOISY[:-1]]), ("auto", [TOTALS_ALONE, *ADDED_UP[3::5]])],
    ids=["direct", "auto"],
)
def test_without_noise_it_is_what_duckdb_answers(
    opened: Open, plain: duckdb.DuckDBPyConnection, strategy: str, statements: list[str]
) -> None:
    with injected([0]):
        connection = opened(EPSILON)
        connection.execute("SET dp.source = fresh")
        connection.execute(f"SET dp.strategy = {strategy}")
        for sql in statements:
            assert connection.execute(sql).fetchall() == plain.execute(sql).fetchall(), sql


def test_those_that_add_up_groups_have_intervals(opened: Open) -> None:
    connection = opened(EPSILON)
    connection.execute("SET dp.strategy = direct")
    for sql in ADDED_UP[::2]:
        assert has_rows_of_its_own(plan(connection, sql)), sql
        above = f"SELECT s, dp_interval_low(s), dp_interval_high(s), dp_stddev(s) FROM ({sql}) q"
        for value, low, high, deviation in connection.execute(above).fetchall():
            assert low <= value <= high
            assert deviation > 0
        cost = spent(connection)
        connection.execute(sql).fetchall()
        assert spent(connection) == cost, sql


def test_others_are_evaluated_over_the_noisy_rows(opened: Open) -> None:
    connection = opened(EPSILON)
    for sql in NOISY:
        text = plan(connection, sql)
        assert not has_rows_of_its_own(text) or "GROUPING SETS" in sql
        assert "OVER (" in text.splitlines()[0]
        above = f"SELECT dp_interval_low(s) FROM ({sql.replace('sum(s)', 's')}) q"
        with pytest.raises(tallyveil.Error, match="dp_interval_low takes"):
            connection.execute(above)
    assert spent(connection) == 0


@MEASURES
def test_they_get_the_error_of_a_join_and_its_answers(opened: Open, budget: dict[str, Any]) -> None:
    connection = opened(budget)
    assert "by strategy ordered" in plan(connection, TOTALS)
    found = connection.execute(TOTALS).fetchall()
    cost = spent(connection)
    joined = np.array(connection.execute(JOINED).fetchall(), dtype=float)
    of_windows = np.array(found, dtype=float)
    assert joined[:, 2] == pytest.approx(of_windows[:, 2])
    assert abs(joined - of_windows).max() <= 1  # which of several roundings is reported
    assert connection.execute(TOTALS).fetchall() == found
    assert opened(budget).execute(TOTALS).fetchall() == found
    assert spent(connection) == cost == pytest.approx(1)
    connection.execute("SET dp.strategy = direct")
    connection.execute("SET dp.source = fresh")
    summed = connection.execute(TOTALS).fetchall()
    assert sum(row[2] ** 2 for row in found) < 0.7 * sum(row[2] ** 2 for row in summed)
    cell = summed[0][2]
    assert [row[2] for row in summed] == pytest.approx([cell * (k + 1) ** 0.5 for k in range(32)])


@MEASURES
def test_in_each_group_as_well_as_alone(opened: Open, budget: dict[str, Any]) -> None:
    connection = opened(budget)
    alone = [row[2] for row in connection.execute(TOTALS).fetchall()]
    connection.execute("SET dp.source = fresh")
    found = connection.execute(GROUPED).fetchall()
    assert spent(connection) == pytest.approx(2)
    assert [row[3] for row in found] == pytest.approx(3 * alone, rel=1e-6)


@pytest.mark.parametrize(
    ("sql", "neighbours", "budget"),
    [
        pytest.param(*case, budget, marks=[pytest.mark.slow] if (n // 2 + m) % 2 else [])
        for n, case in enumerate(
            [
                (TOTALS, "replace"),
                (GROUPED, "add_remove"),
                (MOVING, "replace"),
                (BESIDE, "add_remove"),
            ]
        )
        for m, budget in enumerate([EPSILON, RHO])
    ],
)
def test_the_charge_is_the_loss_of_what_is_bought(
    opened: Open, budget: dict[str, Any], sql: str, neighbours: str
) -> None:
    """Brute force over all cells, or all pairs of cells, of units with two rows."""
    unit = {"privacy_unit": {"column": "i", "max_rows": 2}} if neighbours == "add_remove" else {}
    records = {"from": f"{RECORDS}, i // 2 AS i FROM range(2000) r(i)"} if unit else {}
    attributes = {name: ATTRIBUTES[name] for name in "dg"}
    connection = opened(budget, neighbours=neighbours, attributes=attributes, **unit, **records)
    connection.execute("SET dp.objective = total")
    connection.execute(sql).fetchall()
    cells = np.unique(released(connection, "t"), axis=0)
    if neighbours == "replace":
        moves = [one - other for one, other in itertools.combinations(cells, 2)]
    else:
        moves = [2 * one for one in cells]
    worst = max(loss(move, next(iter(budget))) for move in moves)
    assert spent(connection) == pytest.approx(worst, rel=1e-6)
    assert spent(connection) <= 1 + 1e-9


@pytest.mark.parametrize(("budget", "objective"), alternately([EPSILON, RHO], ["auto", "total"]))
def test_running_totals_add_up_the_counts_beside_them(
    opened: Open, budget: dict[str, Any], objective: str
) -> None:
    connection = opened(budget)
    connection.execute(f"SET dp.objective = {objective}")
    cursor = connection.execute(BESIDE)
    rows = cursor.fetchall()
    assert [row[2] for row in rows] == [*itertools.accumulate(row[1] for row in rows)]
    assert not any("need not add up" in (one.hint or "") for one in cursor.notices)
    direct = 2.0 if budget is EPSILON else 0.5
    assert sum(row[3] ** 2 + row[4] ** 2 for row in rows) <= direct * (32 + 32 * 33 / 2)


def test_shares_of_a_total_hold_the_truth(opened: Open) -> None:
    """Of 60 intervals at 95 %, of which two of a purchase hardly depend on each other, more than
    15 miss with a probability below 10⁻⁷. They know the joint law of a count and its total."""
    connection = opened(RHO)
    connection.execute("SET dp.rho = 0.02")
    connection.execute("SET dp.source = fresh")
    sql = (
        "SELECT d, 100.0 * count(*) / sum(count(*)) OVER () AS q, dp_interval_low(q),"
        " dp_interval_high(q), dp_interval_high(count(*)) - count(*) FROM t GROUP BY d ORDER BY d"
    )
    misses = 0
    for _ in range(30):
        found = connection.execute(sql).fetchall()
        for row in (found[3], found[20]):
            truth = 100 * (63 if row[0] < 16 else 62) / 2000
            misses += not row[2] <= truth <= row[3]
            assert (row[3] - row[2]) / 2 <= 1.05 * 100 * (row[4] + 1) / 2000
    assert misses <= stats.binom.isf(1e-7, 60, 0.05)


def test_a_half_width_asks_them_as_rows_where_their_interval_is_asked(opened: Open) -> None:
    connection = opened(EPSILON)
    connection.execute("SET dp.half_width = 40")
    assert "64 rows" not in plan(connection, TOTALS_ALONE)
    rows = connection.execute(TOTALS).fetchall()
    assert all(row[4] - row[3] <= 80 for row in rows)
    connection.execute("SET dp.source = history")
    assert connection.execute(TOTALS).fetchall() == rows


def test_where_others_cannot_be_bought_counts_are_no_worse(opened: Open) -> None:
    for setting in ("dp.mechanism = laplace", "dp.strategy = direct"):
        connection = opened(EPSILON)
        connection.execute("SET dp.source = fresh")
        connection.execute(f"SET {setting}")
        rows = connection.execute(BESIDE).fetchall()
        assert all(row[3] == pytest.approx(rows[0][4]) for row in rows)
        assert rows[0][3] < 1.5
