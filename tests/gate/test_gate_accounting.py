"""What statements cost, as the budget shows it: per cell, under both neighbouring relations."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallyveil
from tests.gate.asking import Connect, ask, spent


def test_disjoint_predicates_share_a_budget(connect: Connect) -> None:
    connection = connect()
    for age in range(50):
        connection.execute(f"SELECT count(*) FROM person WHERE age = {age}")
    assert spent(connection) == 0.1


def test_overlapping_predicates_add_up(connect: Connect) -> None:
    connection = connect()
    connection.execute("SELECT count(*) FROM person WHERE age < 50")
    connection.execute("SELECT count(*) FROM person WHERE age >= 40")
    assert spent(connection) == 0.2


def test_a_filter_pair_of_disjoint_counts_costs_one(connect: Connect) -> None:
    """Both aggregates get the whole epsilon, since no record is in both."""
    connection = connect()
    low, count = connection.execute(
        "SELECT dp_interval_low(f), count(*) FILTER (WHERE sex = 'F') AS f, "
        "count(*) FILTER (WHERE sex = 'M') FROM person"
    ).fetchall()[0][:2]
    assert count - low == 30  # the same as for one count at epsilon 0.1
    assert spent(connection) == 0.1


def test_a_statement_costs_epsilon_however_many_aggregates(connect: Connect) -> None:
    connection = connect()
    connection.execute("SELECT count(*), sum(age), count(*) FILTER (WHERE age < 9) FROM person")
    assert spent(connection) == 0.1


def test_a_difference_is_one_query(connect: Connect) -> None:
    connection = connect()
    low, difference = connection.execute(
        "SELECT dp_interval_low(d), count(*) FILTER (WHERE sex = 'F') - "
        "count(*) FILTER (WHERE sex = 'M') AS d FROM person"
    ).fetchall()[0]
    assert difference - low == 30
    assert spent(connection) == 0.1


def test_sensitivity_follows_the_largest_value(connect: Connect) -> None:
    plan = connect().explain("SELECT sum(age) FROM person WHERE age < 50")
    assert "sensitivity 49 (add_remove)" in plan


def test_replace_prices_pairs_of_cells(connect: Connect) -> None:
    """Replacing a record moves two groups by one each, and a count of all not at all."""
    connection = connect(neighbours="replace")
    plan = connection.explain("SELECT sex, count(*) FROM person GROUP BY sex")
    assert "sensitivity 2 (replace)" in plan
    assert connection.execute("SELECT count(*) FROM person").fetchall() == [(3000,)]
    assert spent(connection) == 0
    connection.execute("SELECT count(*) FROM person WHERE age = 1")
    connection.execute("SELECT count(*) FROM person WHERE age = 2")
    assert spent(connection) == 0.2


def test_replace_with_an_incomplete_domain_does_not_publish_the_total(connect: Connect) -> None:
    connection = connect(neighbours="replace", attributes={"age": {"range": [0, 99]}})
    connection.execute("SELECT count(*) FROM person")
    assert spent(connection) == 0.1


def test_a_unit_of_several_rows_costs_as_many_times(connect: Connect) -> None:
    connection = connect(
        privacy_unit={"column": "age", "max_rows": 3}, attributes={"sex": {"values": ["F", "M"]}}
    )
    plan = connection.explain("SELECT count(*) FROM person")
    assert "sensitivity 3: 1 × 3 rows (add_remove), scale 30," in plan
    connection.execute("SELECT count(*) FROM person")
    assert spent(connection) == 0.1


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (1, "person: at most 1 row of each age is counted, and totals are too low where one has"),
        (3, "person: at most 3 rows of each age are counted, and totals are too low where one has"),
    ],
)
def test_a_session_is_told_once_that_not_all_rows_are_counted(
    connect: Connect, most: int, said: str
) -> None:
    connection = connect(
        privacy_unit={"column": "age", "max_rows": most}, attributes={"sex": {"values": ["F", "M"]}}
    )
    connection.execute("SELECT count(*) FROM person")
    assert [n.message for n in connection.notices[1:]] == [f"{said} more"]
    connection.execute("SELECT sex, count(*) FROM person GROUP BY sex")
    assert len(connection.notices) == 1


def test_max_rows_keeps_a_trend_and_the_share_of_each_ward(
    tmp_path: Path,
) -> None:
    """A unit's rows are in the order of time, there are more of them each year, and max_rows leaves
    out most.

    The oracle is the share max_rows / n of the rows of a unit that has n > max_rows, spread evenly:
    what a year or a ward is expected to keep. By Hoeffding's inequality the sum of what units keep,
    each between 0 and max_rows, is within √(units · max_rows² · ln(2 · 10⁸) / 2) of it with a
    probability of 1 − 10⁻⁸; the noise has an interval at 1 − 10⁻⁷.
    """
    units, most = 2000, 3
    years, wards = range(2020, 2026), range(5)
    # Unit i has 4 to 12 visits; the k-th from the end is in year 2025 − k(k + 1)/8, cut at 2020.
    visits = [
        (unit, max(2020, 2025 - k * (k + 1) // 8), (unit + k) % 5)
        for unit in range(units)
        for k in range(4 + unit % 9)[::-1]
    ]
    table = pa.table(dict(zip(("patient", "year", "ward"), zip(*visits, strict=True), strict=True)))
    rows = Counter(unit for unit, _, _ in visits)
    expected: Counter[tuple[str, int]] = Counter()
    for unit, year, ward in visits:
        for key in (("year", year), ("ward", ward)):
            expected[key] += min(1, Fraction(most, rows[unit]))
    policy = tallyveil.parse_policy(
        {
            "tables": {
                "visit": {
                    "budget": {"epsilon": 10},
                    "privacy_unit": {"column": "patient", "max_rows": most},
                    "attributes": {
                        "year": {"range": [years[0], years[-1]]},
                        "ward": {"values": list(wards)},
                    },
                }
            },
            "defaults": {"epsilon": 5, "confidence": 1 - 1e-7},
        },
        base=tmp_path,
    )
    spread = (units * most**2 * math.log(2e8) / 2) ** 0.5
    with tallyveil.connect(policy, source=table) as connection:
        for axis, values in (("year", years), ("ward", wards)):
            query = (
                f"SELECT {axis}, count(*) AS n, dp_interval_high(n) AS high"
                f" FROM visit GROUP BY {axis} ORDER BY {axis}"
            )
            answers = connection.execute(query).fetchall()
            assert [value for value, _, _ in answers] == list(values)
            for value, n, high in answers:
                assert abs(n - expected[axis, value]) < spread + (high - n)
            if axis == "year":
                trend = [n for _, n, _ in answers]
    # The years differ by far more than that, so a trend that is turned round would be noticed.
    assert expected["year", 2025] > expected["year", 2022] + 3 * spread
    assert trend[-1] > trend[2]


def test_more_precision_is_bought_and_less_is_free(connect: Connect) -> None:
    connection = connect()
    first = connection.execute("SELECT count(*) FROM person").fetchone()
    connection.execute("SET dp.epsilon = 0.3")
    better = connection.execute("SELECT count(*) FROM person").fetchone()
    assert spent(connection) == pytest.approx(0.4)
    connection.execute("SET dp.epsilon = 0.1")
    assert connection.execute("SELECT count(*) FROM person").fetchone() == better
    assert first is not None
    assert spent(connection) == pytest.approx(0.4)


def test_only_the_missing_groups_are_bought(connect: Connect) -> None:
    connection = connect()
    known = connection.execute("SELECT count(*) FROM person WHERE state = 'AK'").fetchone()
    groups = dict(
        connection.execute("SELECT state, count(*) FROM person GROUP BY state").fetchall()
    )
    assert known == (groups["AK"],)
    assert spent(connection) == 0.1


def test_refused_for_budget_leaves_it_as_it_was(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 0.25})
    connection.execute("SELECT count(*) FROM person")
    connection.execute("SET dp.epsilon = 0.2")
    with pytest.raises(tallyveil.BudgetExceeded) as caught:
        connection.execute("SELECT count(*) FROM person WHERE age = 3")
    assert (caught.value.sqlstate, caught.value.requested) == ("53400", 0.2)
    assert caught.value.remaining == pytest.approx(0.15)
    assert caught.value.remaining <= 0.15
    assert spent(connection) == 0.1
    ask(connection, "SELECT count(*) FROM person WHERE age = 3", epsilon=0.15)


def test_two_aggregating_queries_in_one_statement_are_paid_together(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 0.25})
    connection.execute(
        "SELECT state, count(*) FROM person GROUP BY state "
        "UNION ALL SELECT 'all', count(*) FROM person"
    )
    assert spent(connection) == 0.1


def test_a_target_without_a_default_epsilon(connect: Connect) -> None:
    connection = connect(defaults={"half_width": 40, "confidence": 0.9})
    for sql in (
        "SELECT dp_interval_low(n), count(*) AS n, dp_interval_high(n) FROM person",
        "WITH c AS (SELECT count(*) AS n FROM person) "
        "SELECT dp_interval_low(n), *, dp_interval_high(n) FROM (SELECT * FROM c) t",
    ):
        low, count, high = connection.execute(sql).fetchall()[0]
        assert (count - low, high - count) == (40, 40)


@pytest.mark.parametrize("epsilon", ["1e-15", "1e-30", "1e14"])
def test_an_epsilon_beyond_all_noise_is_refused(connect: Connect, epsilon: str) -> None:
    connection = connect()
    connection.execute(f"SET dp.epsilon = {epsilon}")
    with pytest.raises(tallyveil.Error) as caught:
        connection.execute("SELECT count(*) FROM person")
    assert caught.value.sqlstate == "22023"
    assert spent(connection) == 0


def test_the_smallest_cost_is_a_picoepsilon(connect: Connect) -> None:
    connection = connect(limits={"least_cost": 0})
    ask(connection, "SELECT count(*) FROM person", epsilon="1e-12")
    assert spent(connection) == 1e-12


def test_the_example_of_the_mathematics(connect: Connect) -> None:
    """BAYES eq. 20 and 22 by SQL: B = (0.1, 0.275, 0.25, 0.375), the system's cost 0.375."""
    connection = connect(
        attributes={"cell": {"range": [1, 4], "column": "age", "clamp": True, "nullable": True}}
    )
    history: list[tuple[Any, float]] = [
        ("cell = 1", 0.05),
        ("cell IN (2, 3)", 0.1),
        ("cell IN (2, 3, 4)", 0.1),
    ]
    for predicate, epsilon in history:
        ask(connection, f"SELECT count(*) FROM person WHERE {predicate}", epsilon=epsilon)
    assert spent(connection) == 0.2


def test_replace_does_not_publish_how_many_records_pass_a_filter(connect: Connect) -> None:
    """Exchanging a record can move it across the filter, so the filtered total is confidential."""
    connection = connect(neighbours="replace", **{"from": "SELECT * FROM people WHERE age < 40"})
    connection.execute("SELECT count(*) FROM person")
    assert spent(connection) == 0.1


def test_replace_refuses_a_view_that_may_filter(connect: Connect, source: Any) -> None:
    source.execute("CREATE VIEW young AS SELECT * FROM people WHERE age < 40")
    with pytest.raises(tallyveil.Error, match="is a view, and may filter"):
        connect(neighbours="replace", **{"from": "young"})


def test_replace_with_a_unit_column_does_not_publish_the_total(connect: Connect) -> None:
    unit = {"column": "age", "max_rows": 1}
    connection = connect(neighbours="replace", privacy_unit=unit)
    connection.execute("SELECT count(*) FROM person")
    assert spent(connection) == 0.1


def test_columns_without_groups_are_no_part_of_what_is_bought(connect: Connect) -> None:
    """No declared record has such a key: that question has no rows, and the others keep theirs."""
    connection = connect()
    rows = connection.execute(
        "SELECT sex, count(*) FROM person WHERE false GROUP BY sex UNION ALL "
        "SELECT 'all', count(*) FROM person"
    ).fetchall()
    assert [key for key, _ in rows] == ["all"]
    assert connection.execute("SELECT count(*) FROM person").fetchall() == [(rows[0][1],)]
    assert spent(connection) == 0.1


@pytest.mark.parametrize(("where", "last"), [("false", 0), ("age = -5", 0.1)])
def test_a_question_without_groups_is_answered_and_costs_nothing(
    connect: Connect, where: str, last: float
) -> None:
    every = "SELECT sex, count(*) AS n FROM person GROUP BY sex HAVING count(*) > 0"
    empty = every.replace("GROUP BY", f"WHERE {where} GROUP BY")
    beside = f"SELECT * FROM ({every}) AS a JOIN ({empty}) AS b ON a.sex = b.sex"
    other = empty + " AND count(*) <> (SELECT count(*) FROM person)"
    connection = connect()
    for query, total in ((empty, 0), (beside, 0.1), (other, 0.1 + last)):
        assert connection.execute(query).fetchall() == []
        assert spent(connection) == total


@pytest.mark.parametrize("ratio", ["count(*) / 0", "count(*) % (1 - 1)"])
def test_what_was_paid_for_is_answered_though_a_constant_is_zero(
    connect: Connect, ratio: str
) -> None:
    connection = connect()
    session = connection._gate.session("analyst")
    (parsed,) = session.parse(f"SELECT {ratio}, count(*) FROM person")
    ((none, count),) = session.execute(parsed).rows
    assert none is None
    assert isinstance(count, int)
    (free,) = session.parse("SELECT 1 / 0")
    with pytest.raises(tallyveil.Error) as caught:
        session.execute(free)
    assert caught.value.sqlstate == "22012"
    session.close()
