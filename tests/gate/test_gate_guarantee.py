"""The guarantee that is reported is one that holds, whatever the policy was before."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import tallyveil
from tallyveil.errors import BudgetExceeded
from tallyveil.mechanisms.zcdp import epsilon_of
from tests.gate.asking import Connect, ask

COUNT = "SELECT count(*) FROM person"


def guarantee(connection: tallyveil.Connection) -> str:
    ((said,),) = connection.execute("SELECT guarantee FROM dp.budget").fetchall()
    return str(said)


def lowered(connect: Connect, budget: dict[str, float], **table: Any) -> str:
    """The guarantee once epsilon 0.9 of 1 was spent and the budget was lowered to ``budget``."""
    connection = connect(budget={"epsilon": 1.0}, **table)
    ask(connection, COUNT + " WHERE age < 40", epsilon=0.9)
    connection.close()
    return guarantee(connect(budget=budget, **table))


def test_a_lowered_budget_does_not_undo_what_was_spent(connect: Connect) -> None:
    assert lowered(connect, {"epsilon": 0.3}).endswith("by a factor of at most exp(0.9)")


def test_a_budget_lowered_to_what_was_not_spent_holds(connect: Connect) -> None:
    assert lowered(connect, {"epsilon": 0.95}).endswith("by a factor of at most exp(0.95)")


def test_what_was_spent_counts_in_the_units_of_another_budget(connect: Connect) -> None:
    said = lowered(connect, {"epsilon": 0.3, "delta": 1e-6})
    assert "the answers are 0.405-zCDP: but for 1e-06" in said
    exponent = Fraction(said.rpartition("exp(")[2].rstrip(")"))
    assert 0 <= exponent - Fraction(epsilon_of("0.405", "1e-6")) < Fraction(1, 10**4)


def test_so_it_does_where_invariants_leave_the_total_open(connect: Connect) -> None:
    women = [{"sql": COUNT + " WHERE sex = 'F'"}]
    said = lowered(connect, {"epsilon": 0.3}, neighbours="add_remove", invariants=women)
    assert "at most exp(n 0.9)" in said


def test_the_notice_reports_it_too(connect: Connect) -> None:
    women: dict[str, Any] = {"invariants": [{"sql": COUNT + " WHERE sex = 'F'"}]}
    assert "exp(n 0.9)" in lowered(connect, {"epsilon": 0.3}, **women)
    connection = connect(budget={"epsilon": 0.3}, **women)
    ask(connection, COUNT + " WHERE age < 40", source="history")
    assert any("at most exp(n 0.9);" in notice.message for notice in connection.notices)


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ({"epsilon": 2.000004}, "at most exp(2.00001)"),
        ({"epsilon": 2}, "at most exp(2)"),
        ({"epsilon": 123456.5}, "at most exp(123457)"),
        ({"rho": 0.2000004, "delta": 1.000004e-6}, "0.200001-zCDP: but for 1.00001e-06"),
        ({"epsilon": 2.000004, "delta": 1e-6}, "at most exp(2.00001)"),
    ],
)
def test_its_numbers_are_rounded_up(connect: Connect, budget: dict[str, float], says: str) -> None:
    assert says in guarantee(connect(budget=budget))


def test_a_refusal_rounds_costs_up_and_the_rest_down(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 1.23456789})
    with pytest.raises(BudgetExceeded) as refused:
        ask(connection, COUNT + " WHERE age < 40", epsilon=2.000004)
    assert "costs epsilon 2.00001, and 1.23456 remains" in str(refused.value)


def test_a_plan_rounds_costs_up_and_the_rest_down(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 1.999999999999})
    plan = ask(connection, f"EXPLAIN {COUNT} WHERE age < 40", epsilon="0.11111111111")
    assert any(
        "Cost: epsilon 0.1111111112 of person's budget; 1.999999999 remains, 1.888888888 after"
        in line
        for (line,) in plan
    )


def test_the_hint_of_a_refusal_is_accepted(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 1.1})
    ask(connection, COUNT + " WHERE age < 40", epsilon=1)
    with pytest.raises(BudgetExceeded) as refused:
        ask(connection, COUNT + " WHERE age < 30", epsilon=1)
    assert "SET dp.epsilon to at most 0.1" in str(refused.value.hint)
    ask(connection, COUNT + " WHERE age < 30", epsilon=0.1)
