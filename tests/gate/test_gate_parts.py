"""Averages, shares and counts that nest, bought as disjoint parts and moments of sums."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy import stats

import tallyveil
from tallyveil.errors import BudgetExceeded
from tallyveil.gate import Gate
from tallyveil.inference import DiscreteLaplaceLaw
from tests.gate.asking import Connect, ask, spent
from tests.gate.many_sessions import PATIENCE
from tests.pairs import alternately, pairs

AGES = {"age": {"range": [0, 99], "clamp": True}, "sex": {"values": ["F", "M"], "other": True}}
STATES = {"state": {"values": ["AL", "AK", "WY"]}}
RHO: dict[str, Any] = {"budget": {"rho": 100.0, "delta": 1e-9}, "defaults": {"rho": 1}}
EPSILON: dict[str, Any] = {"budget": {"epsilon": 100.0}, "defaults": {"epsilon": 1}}
NESTED = (
    "SELECT count(*) FILTER (WHERE age < 10) AS a, count(*) FILTER (WHERE age < 20) AS b,"
    " count(*) AS n, dp_stddev(a), dp_stddev(b), dp_stddev(n) FROM person"
)
SHARE = (
    "SELECT state, count(*) FILTER (WHERE age < 30) * 1.0 / count(*) FROM person GROUP BY state"
    " ORDER BY state"
)
AVERAGE = (
    "SELECT state, sum(age) AS s, count(*) AS n, dp_stddev(s), dp_stddev(n), avg(age) FROM person"
    " GROUP BY state ORDER BY state"
)


def plan(connection: tallyveil.Connection, sql: str) -> str:
    return "\n".join(row[0] for row in connection.execute(f"EXPLAIN {sql}").fetchall())


def released(connection: tallyveil.Connection, table: str = "person") -> Any:
    """By cell what a record in it adds to each answer released, over the answer's scale: brute
    force over all cells of the table."""
    accountant = connection._gate.accountant
    domain = accountant._accounts[table].domain
    found = []
    for answer in (one for own in accountant.learned(table, 0, 0)[0] for one in own.answers):
        factor = answer.column.multiplied_out(10**7)
        assert factor is not None
        rows = factor.dense().reshape(factor.height, *factor.shape)
        order = sorted(range(len(factor.axes)), key=lambda n: domain.names.index(factor.axes[n]))
        rows = rows.transpose(0, *(1 + n for n in order))
        sizes = {name: domain[name].size for name in domain.names}
        across = [size if name in factor.axes else 1 for name, size in sizes.items()]
        whole = np.broadcast_to(
            rows.reshape(factor.height, *across), (factor.height, *sizes.values())
        )
        found.append(whole.reshape(factor.height, -1) / answer.scale)
    return np.vstack(found).T


def loss(moved: Any, measure: str) -> float:
    return float(abs(moved).sum() if measure == "epsilon" else (moved**2).sum() / 2)


def test_nested_counts_are_sums_of_disjoint_parts(connect: Connect) -> None:
    connection = connect(attributes=AGES, defaults={"epsilon": 0.2})
    [(*_, first, second, third)] = ask(connection, NESTED)
    alone = DiscreteLaplaceLaw(5.0).variance
    expected = [math.sqrt(n * alone) for n in (1, 2, 3)]
    assert [first, second, third] == pytest.approx(expected, rel=1e-6)
    assert spent(connection) == pytest.approx(0.2)


BESIDE = (
    "SELECT dp_stddev(count(*)), dp_stddev(count(*) FILTER (WHERE age < 30)),"
    " dp_stddev(count(*) FILTER (WHERE age >= 30)) FROM person"
)


def test_a_total_beside_all_of_its_parts_follows_from_them(connect: Connect) -> None:
    connection = connect(attributes=AGES, defaults={"epsilon": 0.2})
    alone = DiscreteLaplaceLaw(5.0).variance
    expected = [math.sqrt(n * alone) for n in (2, 1, 1)]
    assert ask(connection, BESIDE) == [pytest.approx(expected, rel=1e-6)]
    assert spent(connection) == pytest.approx(0.2)


def test_in_rho_each_row_as_asked_tells_as_much_of_the_others(connect: Connect) -> None:
    assert "by strategy" not in plan(connect(attributes=AGES, **RHO), BESIDE)


def half_width_of_two(b: float) -> int:
    """The least h with P(|X + Y| ≤ h) ≥ 0.95 for two discrete Laplace noises of this scale."""
    steps = np.arange(-2_000, 2_001)
    mass = np.tanh(1 / (2 * b)) * np.exp(-np.abs(steps) / b)
    both = np.convolve(mass, mass)[len(steps) // 2 : -(len(steps) // 2)]
    middle = len(both) // 2
    held = both[middle] + 2 * np.cumsum(both[middle + 1 :])
    return int(np.flatnonzero(held >= 0.95)[0]) + 1


@pytest.mark.parametrize("half", [7, 20, 60])
def test_a_count_and_a_part_of_it_meet_a_half_width_at_the_least_cost(
    connect: Connect, half: int
) -> None:
    connection = connect(attributes=AGES)
    connection.execute(f"SET dp.half_width = {half}")
    sql = (
        "SELECT 'all', count(*) FROM person WHERE age < 40"
        " UNION ALL SELECT 'young', count(*) FROM person WHERE age < 20"
    )
    found = connection.execute(sql)
    assert f"±{half} at 95 %" in found.notices[0].message
    rows, cost = found.fetchall(), spent(connection)
    assert half_width_of_two(1 / cost) == half
    assert half_width_of_two(1.01 / cost) == half + 1
    assert ask(connection, sql) == rows
    assert spent(connection) == cost


@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_averages_cost_what_is_asked_and_have_the_error_of_moments(
    connect: Connect, declared: dict[str, Any]
) -> None:
    """a and b of a record add up to 99: b = 99/ε, or σ² = 99²/(2ρ)."""
    connection = connect(attributes=STATES | AGES, **declared)
    measure = next(iter(declared["defaults"]))
    text = plan(connection, AVERAGE)
    assert "by parts, instead of" in text
    found = ask(connection, AVERAGE)
    moment = DiscreteLaplaceLaw(99.0).variance if measure == "epsilon" else 99**2 / 2
    for _, _, _, deviation, of_count, _ in found:
        assert deviation == pytest.approx(math.sqrt(moment), rel=1e-3)
        assert of_count == pytest.approx(math.sqrt(2 * moment) / 99, rel=1e-3)
    worst = max(loss(cell, measure) for cell in released(connection))
    assert worst == pytest.approx(spent(connection), rel=1e-9)
    assert spent(connection) == pytest.approx(1)


@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_variances_cost_what_is_asked_and_have_the_error_of_three_moments(
    connect: Connect, declared: dict[str, Any]
) -> None:
    """With t = age/99: in ε noise of b = 99²/ε on 99² times (1 − t)², 2t(1 − t) and t², of which
    (age − 49)² is 2401, -2450 and 2500 times; in ρ noise of σ² = 3/(2ρ) on 1, u = 2t − 1 and
    2u² − 1, each of a step of 1."""
    connection = connect(attributes=STATES | AGES, **declared)
    measure = next(iter(declared["defaults"]))
    sql = (
        "SELECT state, var_pop(age), dp_stddev(n), dp_stddev(s), dp_stddev(q), count(*) AS n,"
        " sum(age - 49) AS s, sum((age - 49) * (age - 49)) AS q FROM person GROUP BY state"
    )
    assert "by parts, instead of" in plan(connection, sql)
    found = ask(connection, sql)
    if measure == "epsilon":
        alone = DiscreteLaplaceLaw(99.0**2).variance / 99**4
        squares = [3, 49**2 + 1 / 4 + 50**2, 2401**2 + 2450**2 + 2500**2]
    else:
        alone = 3 / 2
        squares = [1, 1 / 4 + 49.5**2, 1225.375**2 + 49.5**2 + 1225.125**2]
    for _, _, *deviations, _, _, _ in found:
        assert deviations == pytest.approx([math.sqrt(alone * one) for one in squares], rel=1e-3)
    worst = max(loss(cell, measure) for cell in released(connection))
    assert worst == pytest.approx(spent(connection), rel=1e-9)
    assert spent(connection) == pytest.approx(1)
    assert ask(connection, sql) == found
    assert spent(connection) == pytest.approx(1)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_the_charge_is_the_loss_of_the_parts_bought(
    connect: Connect, declared: dict[str, Any], neighbours: str
) -> None:
    attributes = {"age": {"range": [3, 9], "clamp": True, "nullable": True}, **STATES}
    connection = connect(attributes=attributes, neighbours=neighbours, **declared)
    ask(
        connection,
        "SELECT avg(age) FILTER (WHERE state <> 'AL'), count(*) FILTER (WHERE age > 5),"
        " count(*) FILTER (WHERE state = 'WY'), sum(age * age) FROM person WHERE state <> 'AK'"
        " OR age < 8",
    )
    measure = next(iter(declared["defaults"]))
    cells = released(connection)
    moves = cells
    if neighbours == "replace":
        moves = [one - other for one, other in itertools.combinations(cells, 2)]
    worst = max(loss(move, measure) for move in moves)
    assert spent(connection) == pytest.approx(worst, rel=1e-6)
    assert spent(connection) <= 1 + 1e-9


BANDS = "SELECT {band} AS g, {sums} FROM person GROUP BY g ORDER BY g"
BY_AGE = "age // 20"
UNEVEN = "CASE WHEN age < 18 THEN 0 WHEN age < 66 THEN 1 WHEN age < 99 THEN 2 ELSE 3 END"


@pytest.mark.parametrize(
    ("declared", "band", "neighbours"),
    pairs([EPSILON, RHO], [BY_AGE, UNEVEN], ["add_remove", "replace"]),
)
def test_noise_follows_the_bounds_of_groups_of_the_value_itself(
    connect: Connect, declared: dict[str, Any], band: str, neighbours: str
) -> None:
    """Of a group from lo to hi, a and b of a record add up to hi − lo: b = k (hi − lo)/ε, or
    σ² = k² (hi − lo)²/(2ρ), where k is 2 if a record may move to another group (√2 in σ)."""
    attributes = {"age": AGES["age"]}
    connection = connect(attributes=attributes, neighbours=neighbours, **declared)
    measure = next(iter(declared["defaults"]))
    sql = BANDS.format(
        band=band, sums="sum(age) AS s, count(*) AS n, dp_stddev(s), dp_stddev(n), avg(age)"
    )
    assert "by parts, instead of" in plan(connection, sql)
    found = ask(connection, sql)
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE person AS SELECT i % 80 AS age FROM range(3000) t(i)")
        bounds = plain.execute(
            f"SELECT min(age), max(age) FROM (SELECT unnest(range(100)) AS age) GROUP BY {band}"
            " ORDER BY 1"
        ).fetchall()
        shown = BANDS.format(band=band, sums="sum(age), count(*)")
        truth = {g: own for g, *own in plain.execute(shown).fetchall()}
    moved = 2 if neighbours == "replace" else 1
    for (g, total, number, of_sum, of_count, _), (low, high) in zip(found, bounds, strict=True):
        m = high - low
        step = max(m, 1) * moved
        moment = (
            step**2 * moved ** (-1) / 2 if measure == "rho" else DiscreteLaplaceLaw(step).variance
        )
        expected = moment * (high**2 + low**2) / m**2 if m else moment * high**2
        assert of_sum == pytest.approx(math.sqrt(expected), rel=2e-3)
        assert of_count == pytest.approx(math.sqrt(2 * moment) / m if m else of_sum / 99, rel=2e-3)
        true = truth.get(g, (0, 0))
        assert abs(total - true[0]) <= 15 * of_sum  # Laplace noise: 10⁻⁹
        assert abs(number - true[1]) <= 15 * of_count + 1
    cells = released(connection)
    moves = cells
    if neighbours == "replace":
        moves = [one - other for one, other in itertools.combinations(cells, 2)]
    assert spent(connection) == pytest.approx(max(loss(one, measure) for one in moves), rel=1e-6)
    assert spent(connection) == pytest.approx(1)
    assert ask(connection, sql) == found
    assert spent(connection) == pytest.approx(1)


@pytest.mark.parametrize(
    ("declared", "neighbours"), alternately([EPSILON, RHO], ["add_remove", "replace"])
)
def test_a_sum_whose_count_is_known_is_bought_less_the_middle(
    connect: Connect,
    source: duckdb.DuckDBPyConnection,
    declared: dict[str, Any],
    neighbours: str,
) -> None:
    """2 age − 99 is at most 99, and the sum is half of its sum and 99 times the count. A record
    that moves changes the counts of two groups, or the sum of one by 2 · 99: not both in ρ."""
    attributes = STATES | {"age": AGES["age"]}
    connection = connect(attributes=attributes, neighbours=neighbours, **declared)
    moved = 2 if neighbours == "replace" else 1
    measure = next(iter(declared["defaults"]))
    ask(connection, "SELECT state, count(*) FROM person GROUP BY state")
    known = moved / 2 if measure == "rho" else DiscreteLaplaceLaw(moved).variance
    before = len(released(connection).T)
    assert "by strategy centred" in plan(connection, AVERAGE)
    found = ask(connection, AVERAGE)
    fresh = (moved * 99) ** 2 / 2 if measure == "rho" else DiscreteLaplaceLaw(moved * 99.0).variance
    for _, _, _, of_sum, of_count, average in found:
        assert of_sum == pytest.approx(math.sqrt(fresh / 4 + 49.5**2 * known), rel=1e-3)
        assert of_count == pytest.approx(math.sqrt(known), rel=2e-3)  # discrete noise has less
        assert abs(average - 39.5) < 15 * of_sum / 1000
    moves = cells = released(connection).T[before:].T
    if neighbours == "replace":
        moves = [one - other for one, other in itertools.combinations(cells, 2)]
    assert max(loss(move, measure) for move in moves) == pytest.approx(1, rel=1e-6)
    total = 1.5 if measure == "rho" and neighbours == "replace" else 2
    assert spent(connection) == pytest.approx(total)
    assert ask(connection, AVERAGE) == found
    with tallyveil.Connection(Gate(connection._gate.policy, source, time_limit=PATIENCE)) as other:
        assert ask(other, AVERAGE) == found
    assert spent(connection) == pytest.approx(total)


def test_a_count_that_is_hardly_known_serves_no_sum(connect: Connect) -> None:
    connection = connect(attributes=STATES | AGES, **EPSILON)
    ask(connection, "SELECT state, count(*) FROM person GROUP BY state", epsilon=0.01)
    connection.execute("SET dp.epsilon = 1")
    assert "by strategy parts" in plan(connection, AVERAGE)
    ask(connection, "SELECT state, count(*) FROM person GROUP BY state", epsilon=1)
    for setting in ("strategy = direct", "mechanism = laplace", "source = fresh"):
        connection.execute(f"SET dp.{setting}")
        assert "centred" not in plan(connection, AVERAGE)
        connection.execute("RESET ALL")


@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_intervals_of_averages_hold_where_counts_were_known(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    """300 groups with independent noise: at 90 %, more than 58 misses have a probability below
    5·10⁻⁷."""
    attributes = {"g": {"range": [0, 299]}, "v": {"range": [0, 19]}}
    keys = {
        "tables": {"t": {"from": "r", "budget": declared["budget"], "attributes": attributes}},
        "defaults": declared["defaults"] | {"confidence": 0.9},
    }
    sql = "SELECT g, avg(v) AS a, {ends} FROM {table} GROUP BY g ORDER BY g"
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE r AS SELECT i % 300 AS g, (i * 7) % 20 AS v FROM range(9000) x(i)"
        )
        truth = source.execute(sql.format(ends="0", table="r")).fetchall()
        gate = Gate(tallyveil.parse_policy(keys, base=tmp_path), source, time_limit=PATIENCE)
        with tallyveil.Connection(gate) as connection:
            connection.execute("SELECT g, count(*) FROM t GROUP BY g").fetchall()
            shown = sql.format(ends="dp_interval_low(a), dp_interval_high(a)", table="t")
            assert "by strategy centred" in plan(connection, shown)
            found = connection.execute(shown).fetchall()
    inside = [low <= true[1] <= high for (_, _, low, high), true in zip(found, truth, strict=True)]
    assert 300 - sum(inside) <= stats.binom.isf(5e-7, 300, 0.1)


@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_a_sum_alone_has_noise_of_each_groups_largest_value(
    connect: Connect, declared: dict[str, Any]
) -> None:
    connection = connect(attributes=STATES | AGES, **declared)
    measure = next(iter(declared["defaults"]))
    sql = BANDS.format(band=BY_AGE, sums="sum(age) AS s, dp_stddev(s)")
    for highest, (_, _, deviation) in zip((19, 39, 59, 79, 99), ask(connection, sql), strict=True):
        alone = highest**2 / 2 if measure == "rho" else DiscreteLaplaceLaw(highest).variance
        assert deviation == pytest.approx(math.sqrt(alone), rel=1e-3)
    worst = max(loss(cell, measure) for cell in released(connection))
    assert worst == pytest.approx(spent(connection), rel=1e-9)
    assert spent(connection) == pytest.approx(1)


def test_intervals_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    """900 groups with independent noise: at 90 %, more than 137 misses have a probability of
    5·10⁻⁷ for the sums, and the same for the counts."""
    groups, level = 900, 0.9
    attributes = {"g": {"range": [0, groups - 1]}, "v": {"range": [0, 19]}}
    keys = {
        "tables": {"t": {"from": "r", "budget": {"epsilon": 10.0}, "attributes": attributes}},
        "defaults": {"epsilon": 1, "confidence": level},
    }
    with duckdb.connect() as source:
        source.execute(
            f"CREATE TABLE r AS SELECT i % {groups} AS g, (i * 7) % 20 AS v"
            f" FROM range({groups * 30}) x(i)"
        )
        truth = source.execute("SELECT g, sum(v), count(*) FROM r GROUP BY g ORDER BY g").fetchall()
        gate = Gate(tallyveil.parse_policy(keys, base=tmp_path), source, time_limit=PATIENCE)
        with tallyveil.Connection(gate) as connection:
            sql = (
                "SELECT g, sum(v) AS s, dp_interval_low(s), dp_interval_high(s), count(*) AS n,"
                " dp_interval_low(n), dp_interval_high(n) FROM t GROUP BY g ORDER BY g"
            )
            assert "by parts" in plan(connection, sql)
            found = connection.execute(sql).fetchall()
    most = stats.binom.isf(5e-7, groups, 1 - level)
    for place, low, high in ((1, 2, 3), (2, 5, 6)):
        inside = [
            own[low] <= true[place] <= own[high] for own, true in zip(found, truth, strict=True)
        ]
        assert groups - sum(inside) <= most


@pytest.mark.parametrize(("declared", "sql"), alternately([EPSILON, RHO], [AVERAGE, SHARE, NESTED]))
def test_asked_again_it_is_free_and_the_same_in_any_process(
    connect: Connect, source: duckdb.DuckDBPyConnection, declared: dict[str, Any], sql: str
) -> None:
    connection = connect(attributes=STATES | AGES, **declared)
    first = ask(connection, sql)
    assert spent(connection) == pytest.approx(1)
    assert ask(connection, sql) == first
    with tallyveil.Connection(Gate(connection._gate.policy, source, time_limit=PATIENCE)) as other:
        assert ask(other, sql) == first
        ask(other, "SELECT age, count(*) FROM person WHERE sex = 'F' GROUP BY age")
        cost = spent(other)
    cursor = connection.execute(sql)
    assert cursor.notices[0].message.startswith("answered from history, free")
    assert all(None not in row for row in cursor.fetchall())
    assert spent(connection) == cost


def test_its_parts_serve_later_questions(connect: Connect) -> None:
    connection = connect(attributes=STATES | AGES, **EPSILON)
    ask(connection, AVERAGE)
    before = spent(connection)
    assert ask(connection, "SELECT sum(99 - age) FROM person WHERE state = 'AL'") != [(None,)]
    assert spent(connection) == before


@pytest.mark.parametrize(
    ("settings", "declared", "why"),
    [
        ({"coverage": "always"}, {}, "dp.coverage = always needs answers to the rows themselves"),
        (
            {},
            {"inference_control": {"min_half_width": 2}},
            "inference control examines rows as they are asked",
        ),
        ({"mechanism": "laplace"}, {}, None),
    ],
    ids=["coverage", "control", "named"],
)
def test_rows_are_bought_as_asked_where_parts_cannot_serve(
    connect: Connect, settings: dict[str, Any], declared: dict[str, Any], why: str | None
) -> None:
    connection = connect(attributes=AGES, **EPSILON, **declared)
    for name, value in settings.items():
        connection.execute(f"SET dp.{name} = {value}")
    text = plan(connection, NESTED)
    assert "by parts" not in text
    assert (f"though other rows would have less noise: {why}" in text) == (why is not None)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM person",
        "SELECT state, count(*) FROM person GROUP BY state",
        "SELECT sum(age) FROM person",
        "SELECT count(*) FILTER (WHERE sex = 'F'), count(*) FILTER (WHERE sex = 'M') FROM person",
        "SELECT age, count(*), sum(age) FROM person GROUP BY age",
    ],
)
def test_what_gains_nothing_is_bought_as_asked(connect: Connect, sql: str) -> None:
    connection = connect(attributes=STATES | AGES, **EPSILON)
    assert "parts" not in plan(connection, sql)


def test_what_is_exact_stays_exact(connect: Connect) -> None:
    """Counts of groups bought with their sums add up to a public number of records."""
    exact = [{"sql": "SELECT count(*) FROM person"}]
    connection = connect(
        attributes=STATES | AGES, invariants=exact, neighbours="replace", **EPSILON
    )
    assert "by parts" in plan(connection, AVERAGE)
    assert sum(row[2] for row in ask(connection, AVERAGE)) == 3000


def test_little_budget_is_refused_without_a_charge(connect: Connect) -> None:
    connection = connect(attributes=AGES, budget={"epsilon": 0.5}, defaults={"epsilon": 1})
    with pytest.raises(tallyveil.Error, match="it costs epsilon 1"):
        ask(connection, NESTED)
    assert spent(connection) == 0


def test_explain_shows_the_interval_of_the_rows_that_are_bought(tmp_path: Path) -> None:
    """Rows that are exact leave their share of the cost to the others."""
    source = duckdb.connect()
    source.execute("CREATE TABLE t AS SELECT i % 3 AS g, i % 11 AS v FROM range(900) t(i)")
    table = {
        "neighbours": "replace",
        "budget": {"epsilon": 100},
        "attributes": {"g": {"range": [0, 2]}, "v": {"range": [0, 10]}},
        "invariants": [{"sql": "SELECT g, count(*) FROM t GROUP BY g"}],
    }
    policy = tallyveil.parse_policy(
        {"tables": {"t": table}, "defaults": {"epsilon": 1}}, base=tmp_path
    )
    with tallyveil.connect(policy, source=source) as connection:
        sql = "SELECT g, sum(v), dp_interval_high(sum(v)) - sum(v), count(*) FROM t GROUP BY g"
        lines = connection.explain(sql)
        (shown,) = re.findall(r"aggregate 1: .* interval ±(\d+)", lines)
        assert {half for _, _, half, _ in connection.execute(sql).fetchall()} == {int(shown)}


def test_a_refusal_names_the_interval_that_the_rest_of_the_budget_buys(tmp_path: Path) -> None:
    """Of the rows that are not known better already, which share its cost with no others."""
    source = duckdb.connect()
    source.execute("CREATE TABLE t AS SELECT i % 3 AS g, i % 11 AS v FROM range(900) t(i)")
    attributes = {"g": {"range": [0, 2]}, "v": {"range": [0, 10]}}
    table = {"budget": {"epsilon": 1}, "attributes": attributes}
    policy = tallyveil.parse_policy(
        {"tables": {"t": table}, "defaults": {"epsilon": 0.5}}, base=tmp_path
    )
    sql = "SELECT g, sum(v), dp_interval_high(sum(v)) - sum(v), count(*) FROM t GROUP BY g"
    with tallyveil.connect(policy, source=source) as connection:
        connection.execute("SELECT g, count(*) FROM t GROUP BY g").fetchall()
        connection.execute("SET dp.epsilon = 3")
        connection.execute("SET dp.strategy = direct")
        with pytest.raises(BudgetExceeded) as caught:
            connection.execute(sql)
        told = re.match(r"SET dp\.epsilon to at most (\S+), which buys ±(\d+)", caught.value.hint)
        assert told is not None, caught.value.hint
        connection.execute(f"SET dp.epsilon = {told[1]}")
        assert {half for _, _, half, _ in connection.execute(sql).fetchall()} == {int(told[2])}
