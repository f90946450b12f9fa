"""Budgets of ρ, and of ε with a δ: what is spent, which noise answers, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallyveil
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, ErrorLaw
from tallyveil.mechanisms import Adjacency, StatementCalibration, statement_scales
from tallyveil.mechanisms.zcdp import epsilon_of, rho_for
from tallyveil.workload.workload import Column, Workload
from tests.gate.asking import Connect, ask, spent

RHO = {"rho": 0.1, "delta": 1e-6}


def half(connection: tallyveil.Connection, where: str = "") -> float:
    query = f"SELECT dp_interval_high(n), count(*) AS n FROM person {where}"
    row = connection.execute(query).fetchone()
    assert row is not None
    return float(row[0] - row[1])


def test_costs_add_up_in_rho_and_are_told_in_epsilon(connect: Connect) -> None:
    connection = connect(budget=RHO, defaults={"rho": 0.01})
    for predicate in ("age < 50", "age >= 40", "age >= 90"):  # the last in no cell of the first
        connection.execute(f"SELECT count(*) FROM person WHERE {predicate}")
    (row,) = connection.budget()
    assert (row["unit"], row["budget"], row["delta"]) == ("rho", 0.1, 1e-6)
    assert row["spent"] == 0.02
    assert row["remaining"] == 0.08
    assert row["epsilon_spent"] == epsilon_of("0.02", "1e-6")
    assert row["epsilon_budget"] == pytest.approx(2.14194, abs=1e-5)
    units = connection.execute("SELECT unit, mechanism, cost FROM dp.history").fetchall()
    assert units == [("rho", "gaussian", 0.01)] * 3


def test_auto_takes_the_lesser_noise(connect: Connect) -> None:
    connection = connect(budget=RHO, defaults={"rho": 0.01})
    assert half(connection) == DiscreteGaussianLaw(math.sqrt(50)).half_width(0.95)
    connection.execute("SET dp.mechanism = laplace")
    connection.execute("SET dp.source = fresh")
    assert half(connection) == DiscreteLaplaceLaw(math.sqrt(50)).half_width(0.95)
    assert spent(connection) == 0.02


def test_a_target_is_met_at_the_lesser_cost(connect: Connect) -> None:
    connection = connect(budget=RHO, defaults={"half_width": 20})
    assert half(connection) == 20
    by_auto = spent(connection)
    connection.execute("SET dp.mechanism = laplace")
    connection.execute("SET dp.source = fresh")
    assert half(connection) == 20
    assert spent(connection) - by_auto > 2 * by_auto


def test_an_epsilon_private_release_costs_half_its_square(connect: Connect) -> None:
    connection = connect(budget=RHO, defaults={"epsilon": 0.1})
    assert half(connection) == 30
    assert spent(connection) == 0.005
    # Two counts of the same record, together of ε = 0.1, are two of ε = 0.05: 2 · 0.05²/2.
    connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE age < 50) FROM person WHERE age < 60"
    )
    assert spent(connection) == pytest.approx(0.0075)


def test_a_unit_of_several_rows_costs_the_square_of_their_number(connect: Connect) -> None:
    connection = connect(
        budget=RHO,
        defaults={"rho": 0.01},
        privacy_unit={"column": "age", "max_rows": 3},
        attributes={"sex": {"values": ["F", "M"]}},
    )
    assert half(connection) == DiscreteGaussianLaw(math.sqrt(9 * 50)).half_width(0.95)
    assert spent(connection) == pytest.approx(0.01)


def test_replace_moves_two_groups(connect: Connect) -> None:
    connection = connect(budget=RHO, defaults={"rho": 0.01}, neighbours="replace")
    plan = connection.explain("SELECT sex, count(*) FROM person GROUP BY sex")
    assert "L2 sensitivity 1.414213562 (replace), scale 10, " in plan
    assert "by gaussian" in plan
    assert "Cost: rho 0.01 of person's budget; 0.1 remains, 0.09 after" in plan
    connection.execute("SELECT sex, count(*) FROM person GROUP BY sex")
    assert spent(connection) == pytest.approx(0.01)


def test_a_budget_of_epsilon_and_delta_never_tells_more(connect: Connect) -> None:
    budget = {"epsilon": 1.0, "delta": 1e-9}
    connection = connect(budget=budget, defaults={"rho": 0.001})
    (row,) = connection.budget()
    assert row["epsilon_budget"] == 1.0
    assert epsilon_of(Fraction(str(row["budget"])), "1e-9") <= 1 + 1e-9
    connection.execute("SET dp.source = fresh")
    for _ in range(math.floor(row["budget"] / 0.001)):
        connection.execute("SELECT count(*) FROM person")
    with pytest.raises(tallyveil.BudgetExceeded) as refused:
        connection.execute("SELECT count(*) FROM person")
    (row,) = connection.budget()
    assert row["epsilon_spent"] <= 1
    assert "costs rho 0.001" in str(refused.value)
    assert "SET dp.rho to at most" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("policy", "settings", "says"),
    [
        ({}, ["SET dp.mechanism = gaussian"], "gaussian cannot answer this"),
        ({}, ["SET dp.mechanism = gaussian"], "it needs a delta"),
        *(
            ({}, [f"SET dp.mechanism = {name}"], f"{name} cannot answer this")
            for name in ("optimal", "extended", "correlated")
        ),
        ({}, ["SET dp.mechanism = optimal"], "its noise is gaussian, which needs a delta"),
        ({}, ["SET dp.rho = 0.01"], 'the budget of table "person" is of epsilon'),
        (
            {"budget": RHO},
            [
                "SET dp.epsilon = 1",
                "SET dp.delta = 1e-12",
                "SET dp.calibration = subspace",
                "SET dp.mechanism = gaussian",
            ],
            "constant of Lemma 13 is too small",
        ),
        ({"mechanisms": ["laplace"]}, ["SET dp.mechanism = geometric"], "not among"),
        (
            {"budget": RHO, "mechanisms": ["gaussian"]},
            ["SET dp.epsilon = 1"],
            "no mechanism of table",
        ),
    ],
)
def test_what_cannot_serve_says_why_and_what_can(
    connect: Connect, policy: dict[str, Any], settings: list[str], says: str
) -> None:
    connection = connect(**policy)
    for setting in settings:
        connection.execute(setting)
    for tried in (connection.execute, connection.explain):
        with pytest.raises(tallyveil.Error) as caught:
            tried("SELECT count(*) FROM person")
        assert says in f"{caught.value}"
        assert caught.value.hint
    assert spent(connection) == 0


def test_a_policy_restricts_the_choice(connect: Connect) -> None:
    connection = connect(budget=RHO, defaults={"rho": 0.01}, mechanisms=["geometric"])
    connection.execute("SELECT count(*) FROM person")
    assert connection.execute("SELECT mechanism FROM dp.history").fetchall() == [("geometric",)]


@pytest.mark.parametrize(
    ("defaults", "table", "says"),
    [
        ({"mechanism": "gumbel"}, {}, 'defaults.mechanism: there is no mechanism "gumbel"'),
        ({}, {"mechanisms": ["gumbel"]}, "tables.person.mechanisms: there is no mechanism"),
        ({}, {"mechanisms": ["gaussian"]}, "tables.person.mechanisms: gaussian needs a delta"),
    ],
)
def test_a_policy_with_a_wrong_mechanism_does_not_open(
    connect: Connect, defaults: dict[str, Any], table: dict[str, Any], says: str
) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect(defaults=defaults, **table)
    assert says in str(caught.value)


def test_history_is_compared_by_variance_over_mechanisms(connect: Connect) -> None:
    """σ = 10 and b = 10 have variances 100 and 200."""
    connection = connect(budget=RHO, defaults={"rho": 0.005})
    (first,) = connection.execute("SELECT count(*) FROM person").fetchall()
    assert ask(connection, "SELECT count(*) FROM person", mechanism="laplace") == [first]
    assert spent(connection) == 0.005
    connection.execute("SELECT count(*) FROM person WHERE age < 50")
    ask(connection, "SELECT count(*) FROM person WHERE age < 50", mechanism="gaussian")
    assert spent(connection) == pytest.approx(0.015)


def test_sums_over_mixed_mechanisms_have_the_mixed_interval(connect: Connect) -> None:
    """A total of one group known by Laplace noise and two bought with Gaussian noise."""
    connection = connect(budget={"rho": 10, "delta": 1e-6}, defaults={"rho": 0.01})
    ask(connection, "SELECT count(*) FROM person WHERE sex = 'F'", mechanism="laplace")
    connection.execute("SET dp.mechanism = gaussian")
    connection.execute("SET dp.rho = 0.005")
    rows = connection.execute(
        "SELECT sex, dp_interval_high(n), count(*) AS n FROM person GROUP BY ROLLUP (sex)"
    ).fetchall()
    widths = {sex: high - n for sex, high, n in rows}
    laplace, gaussian = DiscreteLaplaceLaw(math.sqrt(50)), DiscreteGaussianLaw(10.0)
    assert widths["F"] == laplace.half_width(0.95)
    assert widths["M"] == widths["other"] == gaussian.half_width(0.95)
    assert widths[None] == ErrorLaw.of_sum({laplace: 1, gaussian: 2}).half_width(0.95)


def test_a_ledger_of_epsilon_is_counted_anew_in_rho_and_not_back(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 1})
    connection.execute("SELECT count(*) FROM person")
    assert spent(connection) == 0.1
    connection.close()
    connection = connect(budget=RHO, defaults={"rho": 0.01})
    assert spent(connection) == pytest.approx(0.005)
    assert connection.execute("SELECT cost, unit FROM dp.history").fetchall() == [(0.1, "epsilon")]
    connection.execute("SELECT count(*) FROM person WHERE age < 9")
    connection.close()
    with pytest.raises(tallyveil.Error) as refused:
        connect(budget={"epsilon": 1})
    assert refused.value.sqlstate == "55000"
    assert "rho" in str(refused.value.hint)


def test_the_notice_speaks_in_the_policys_terms(connect: Connect) -> None:
    connection = connect(budget=RHO, defaults={"rho": 0.01})
    cursor = connection.execute("SELECT count(*) FROM person")
    (message,) = [notice.message for notice in cursor.notices]
    assert message.startswith("cost rho 0.01; interval ±14 at 95 %; 0.09 of rho 0.1 remains")
    assert message.endswith("epsilon 0.621693 of 2.14194 is spent at delta 1e-06")


def test_mechanisms_say_what_they_guarantee(connect: Connect) -> None:
    rows = dict(connect().execute("SELECT name, budgets FROM dp.mechanisms").fetchall())
    assert rows.pop("gaussian") == "rho"
    assert set(rows) >= {"laplace", "geometric", "fair"}
    assert set(rows.values()) == {"epsilon, rho"}


@pytest.mark.parametrize("calibration", ["zcdp", "analytic", "subspace"])
def test_gaussian_noise_for_epsilon_is_calibrated_by_the_rule_that_is_set(
    connect: Connect, calibration: StatementCalibration
) -> None:
    """σ is `statement_scales`', whose tests have the oracle, and the ledger charges 1/(2σ²)."""
    connection = connect(budget=RHO, defaults={"epsilon": 0.5})
    connection.execute("SET dp.mechanism = gaussian")
    connection.execute(f"SET dp.calibration = {calibration}")
    count = Workload("t", (Column.joint(("a",), (1,), 1, *np.zeros((2, 1), int), np.ones(1, int)),))
    (scale,) = statement_scales(count, "0.5", "1e-6", Adjacency("add_remove"), calibration)
    assert half(connection) == DiscreteGaussianLaw(scale).half_width(0.95)
    assert spent(connection) == pytest.approx(1 / (2 * scale**2), rel=1e-9)
    connection.execute("SET dp.delta = 1e-9")
    connection.execute("SET dp.source = fresh")
    (wider,) = statement_scales(count, "0.5", "1e-9", Adjacency("add_remove"), calibration)
    assert wider > scale
    cost = f"Cost: rho {math.ceil(10**12 / (2 * Fraction(wider) ** 2)) / 10**12:.10g} of"
    assert cost in connection.explain("SELECT count(*) FROM person")


def test_the_delta_of_gaussian_noise_is_the_budgets_or_the_one_that_is_set(
    connect: Connect,
) -> None:
    connection = connect(budget={"epsilon": 2, "delta": 1e-5}, defaults={"epsilon": 0.5})
    connection.execute("SET dp.mechanism = gaussian")
    wide = half(connection)
    connection.execute("SET dp.delta = 1e-5")
    assert half(connection) == wide
    assert connection.budget()[0]["spent"] == pytest.approx(float(rho_for("0.5", "1e-5")), rel=1e-9)


@pytest.mark.parametrize(
    "sql",
    [
        "SET dp.delta = 0",
        "SET dp.delta = 1",
        "SET dp.delta = nan",
        "SET dp.calibration = classic",
    ],
)
def test_a_wrong_calibration_changes_nothing(connect: Connect, sql: str) -> None:
    connection = connect(budget=RHO)
    with pytest.raises(tallyveil.Error, match="invalid value"):
        connection.execute(sql)
    shown = [connection.execute(f"SHOW dp.{name}").fetchall() for name in ("delta", "calibration")]
    assert shown == [[("",)], [("zcdp",)]]
