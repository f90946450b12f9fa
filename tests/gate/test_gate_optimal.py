"""Rows that are bought in the place of those asked, where counts are exact."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import tallyveil
from tallyveil.accountant import Accountant
from tallyveil.errors import FeatureNotSupported
from tests.gate.asking import Connect, ask, spent

WOMEN = "SELECT count(*) FROM person WHERE sex = 'F'"
AGES = range(5, 65, 5)
PREFIXES = (
    f"SELECT {', '.join(f'count(*) FILTER (WHERE age < {age})' for age in AGES)}, count(*)"
    " FROM person WHERE sex = 'F'"
)
RHO: dict[str, Any] = {
    "neighbours": "add_remove",
    "invariants": [{"sql": WOMEN}],
    "budget": {"rho": 10.0, "delta": 1e-6},
    "defaults": {"rho": 0.01},
}


def errors(connection: tallyveil.Connection, sql: str = PREFIXES) -> list[float]:
    """What EXPLAIN says of squared errors: as asked, as charged, at best, and the bound."""
    pattern = r": (.*) as asked, (.*) as charged, (.*) by .* than (.*)"
    (found,) = re.findall(pattern, connection.explain(sql))
    return [float(number) for number in found]


def test_prefixes_cost_what_is_asked_and_are_told_at_the_least_error(connect: Connect) -> None:
    """Asked again they are free and the same, also once more is known and in another session; and
    the last one agrees with the exact count."""
    connection = connect(**RHO)
    connection.execute("SET dp.mechanism = gaussian")
    plain, charged, best, bound = errors(connection)
    assert bound <= best < bound * 1.02 < charged / 2 < plain / 4
    connection.execute("SET dp.mechanism = optimal")
    assert "Saved by invariants of person: rho" in connection.explain(PREFIXES)
    told = connection.execute(PREFIXES).fetchall()
    assert told[0][-1] == 1500
    assert spent(connection) == pytest.approx(0.01)
    connection.execute("SELECT age, count(*) FROM person WHERE sex = 'F' GROUP BY age")
    before = spent(connection)
    again = connect(**RHO)
    for mechanism in ("optimal", "auto"):
        for one in (connection, again):
            one.execute(f"SET dp.mechanism = {mechanism}")
            assert "Cost: nothing" in one.explain(PREFIXES)
    assert again.execute(PREFIXES).fetchall()[0][-1] == 1500
    assert spent(again) == before
    assert ask(again, PREFIXES, source="fresh", mechanism="optimal") != told
    assert spent(again) == pytest.approx(before + 0.01)


def test_errors_are_those_that_are_announced(connect: Connect) -> None:
    """Of 20 fresh answers of 12 rows the mean of the squared errors is within 45 %, which is more
    than 5 standard errors, once what rounding adds is taken off."""
    connection = connect(**RHO)
    connection.execute("SET dp.mechanism = gaussian")
    _, _, expected, _ = errors(connection)
    rows = np.array(
        [ask(connection, PREFIXES, mechanism="optimal", source="fresh")[0][:-1] for _ in range(20)]
    )
    off = rows.astype(np.float64) - rows.mean(axis=0)
    found = 0.02 * ((off**2).sum() / 19 - len(AGES) / 12)
    assert found == pytest.approx(expected, rel=0.45)


def test_auto_takes_it_where_it_costs_less_and_is_no_less_precise(connect: Connect) -> None:
    connection = connect(**RHO)
    connection.execute("SET dp.source = fresh")
    counts = [f"count(*) FILTER (WHERE age < {age}) AS c{age}" for age in AGES]
    ends = [f"dp_interval_high(c{age}) - dp_interval_low(c{age})" for age in AGES]
    sql = (
        f"SELECT {', '.join(ends)}"
        f" FROM (SELECT {', '.join(counts)} FROM person WHERE sex = 'F') AS t"
    )
    widths, costs = [], [0.0]
    for mechanism in ("auto", "projected"):
        widths.append(ask(connection, sql, mechanism=mechanism)[0])
        costs.append(spent(connection) - sum(costs))
    assert all(one <= other for one, other in zip(*widths, strict=True))
    assert costs[1] < costs[2] / 6


def test_a_group_by_is_bought_as_it_is_asked(connect: Connect) -> None:
    connection = connect(**RHO)
    sql = "SELECT age > 60, count(*) FROM person WHERE sex = 'F' GROUP BY 1"
    _, charged, best, _ = errors(connection, sql)
    assert charged <= best * 1.02
    connection.execute(sql)
    assert connection.execute("SELECT count(*) FROM dp.history").fetchall() == [(1,)]
    assert sum(n for _, n in ask(connection, sql, source="history")) == 1500


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_two_tables_that_agree_are_told_apart_better_than_is_charged(
    connect: Connect, neighbours: str
) -> None:
    """As recorded in the ledger, for all tables of up to 2 records in a cell that have the same
    number of women; under replace, of those of as many records."""
    attributes = {"sex": {"values": ["F", "M"]}, "age": {"bins": [0, 20, 40, 120], "clamp": True}}
    connection = connect(**RHO | {"neighbours": neighbours, "attributes": attributes})
    connection.execute("SET dp.mechanism = optimal")
    sql = (
        "SELECT count(*) FILTER (WHERE age < 20), count(*) FILTER (WHERE age < 40),"
        " count(*) FILTER (WHERE age >= 20) FROM person WHERE sex = 'F'"
    )
    connection.execute(sql)
    cost = spent(connection)
    accountant: Accountant = connection._gate.accountant
    releases, _ = accountant.learned("person", 0, 0)
    ((answer,),) = (release.answers for release in releases)
    (factor,) = answer.column.factors
    rows = np.zeros((factor.height, factor.size))
    rows[factor.rows, factor.cells] = factor.coefficients
    women = rows.any(axis=0)
    assert women.sum() >= 2
    rows = rows[:, women]
    worst = 0.0
    tables = [np.array(x) for x in itertools.product(range(3), repeat=int(women.sum()))]
    for x, y in itertools.combinations(tables, 2):
        if not (x - y).sum():
            moved = np.abs(x - y).sum() / (1 if neighbours == "add_remove" else 2)
            told = ((rows @ (x - y)) ** 2).sum() / (2 * answer.scale**2)
            worst = max(worst, told / (cost * moved**2))
    assert 1 / 8 < worst <= 1


def test_correlated_noise_costs_the_same_and_is_less_precise(connect: Connect) -> None:
    connection = connect(**RHO)
    each = ", ".join(f"count(*) FILTER (WHERE age < {age}) AS n{age}" for age in AGES)
    whole = " + ".join(f"dp_stddev(n{age})" for age in AGES)
    sql = f"SELECT {whole} FROM (SELECT {each} FROM person WHERE sex = 'F') AS t"
    connection.execute("SET dp.source = fresh")
    found = {}
    for mechanism in ("optimal", "correlated"):
        before = spent(connection)
        found[mechanism] = ask(connection, sql, mechanism=mechanism)[0][0]
        assert spent(connection) - before == pytest.approx(0.01, rel=0.02)
    assert found["correlated"] > found["optimal"] * 1.1


@pytest.mark.parametrize("state", ["AL", "WY"])
def test_groups_of_one_of_several_totals(connect: Connect, state: str) -> None:
    """Records of other states bear nothing, and the states together are everybody."""
    exact = [{"sql": "SELECT state, count(*) FROM person GROUP BY state"}]
    connection = connect(**RHO | {"neighbours": "replace", "invariants": exact})
    connection.execute("SET dp.mechanism = optimal")
    sql = f"SELECT sex, count(*) FROM person WHERE state = '{state}' GROUP BY sex"
    assert sum(count for _, count in connection.execute(sql).fetchall()) == 1000
    assert spent(connection) == pytest.approx(0.01)


def test_what_it_is_not_for(connect: Connect) -> None:
    """Nothing is charged."""
    connection = connect(**RHO)
    connection.execute("SET dp.mechanism = optimal")
    connection.execute("SET dp.half_width = 10")
    with pytest.raises(FeatureNotSupported, match="needs a target that is a cost"):
        connection.execute(PREFIXES)
    connection.execute("RESET dp.half_width")
    many = "SELECT state, age, sex, count(*) FROM person GROUP BY 1, 2, 3"
    with pytest.raises(FeatureNotSupported, match="too many"):
        connection.execute(many)
    control = {"min_half_width": 3.0, "confidence": 0.9}
    watched = connect(**RHO | {"inference_control": control, "from": "people"})
    watched.execute("SET dp.mechanism = optimal")
    with pytest.raises(FeatureNotSupported, match="inference control"):
        watched.execute(PREFIXES)
    assert spent(connection) == spent(watched) == 0
