"""The plans of a table that grows: what they buy, and what is kept for them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallyveil
from tallyveil.cli.publishing import publish
from tallyveil.cli.serving.schedule import warn
from tallyveil.errors import BudgetExceeded, InsufficientPrivilege, PolicyError
from tallyveil.gate.growth.plans import lost_answers
from tests.gate.growing_visits import Visits, day, random_rows
from tests.pairs import alternately

PLAN = """
[tables.visits.plans.board]
by = ["kind"]
tiles = ["day", "week", "year"]
budget = {{ {} }}
"""
BY_DAY = "SELECT day, kind, count(*) FROM visits GROUP BY day, kind"


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    made = Visits(tmp_path)
    made.fill(random_rows(np.random.default_rng(1), 400, 16))
    return made


def declare(visits: Visits, budget: str = "epsilon = 3", plan: str = "epsilon = 1") -> None:
    visits.declare(budget=budget)
    policy = visits.folder / "policy.toml"
    policy.write_text(policy.read_text() + PLAN.format(plan))


def numbers(connection: tallyveil.Connection) -> tuple[float, float]:
    ((spent, remaining),) = connection.execute("SELECT spent, remaining FROM dp.budget").fetchall()
    return spent, remaining


@pytest.mark.parametrize(
    ("budget", "plan", "most"),
    [("epsilon = 3", "epsilon = 1", 1), ("rho = 3, delta = 1e-6", "rho = 1", 1)],
)
def test_each_row_is_bought_once_when_its_days_are_over(
    visits: Visits, budget: str, plan: str, most: float
) -> None:
    declare(visits, budget, plan)
    for through in (0, 1, 7, 15):
        visits.publish(through)
        visits.publish(through)
        with visits.open() as connection:
            rows = connection.execute("SELECT sql, analyst FROM dp.history").fetchall()
            ends = [int(sql.rpartition(" ")[2]) for sql, _ in rows]
            assert {analyst for _, analyst in rows} == {"plan board"}
            assert len({sql for sql, _ in rows}) == len(rows)
            assert max(ends) == through + 1
            assert {*range(1, through + 2)} == {*ends}
            spent, remaining = numbers(connection)
            assert spent <= most
            assert remaining == 2  # is kept from nobody
            connection.execute("SET dp.source = history")
            found = connection.execute(BY_DAY).fetchall()
            assert len(found) == 3 * (through + 1)
            assert all(n is not None for *_, n in found)


@pytest.mark.parametrize(
    ("kept", "neighbours"),
    alternately(
        [("epsilon = 3", "epsilon = 1"), ("rho = 3, delta = 1e-6", "rho = 1")],
        ["add_remove", "replace"],
    ),
)
def test_a_plan_spends_its_part_where_units_have_rows_of_several_days(
    visits: Visits, kept: tuple[str, str], neighbours: str
) -> None:
    budget, plan = kept
    unit = '{ column = "pid", max_rows = 2, per = "day", window = 3 }'
    visits.declare(unit=unit, budget=budget, more=f'neighbours = "{neighbours}"')
    policy = visits.folder / "policy.toml"
    policy.write_text(policy.read_text() + PLAN.format(plan))
    visits.publish(19)
    with visits.open() as connection:
        spent, remaining = numbers(connection)
        assert 0.99 < spent <= 1
        assert remaining == 2


def test_what_is_kept_for_a_plan_cannot_be_spent_by_others(visits: Visits) -> None:
    declare(visits)
    visits.publish(1)
    ask = "SELECT kind, count(*) FROM visits GROUP BY kind"
    with visits.open("SET dp.source = fresh", "SET dp.epsilon = 1") as connection:
        for left in (1, 0):
            connection.execute(ask)
            assert numbers(connection)[1] == left
        with pytest.raises(BudgetExceeded) as refused:
            connection.execute(ask)
        assert refused.value.remaining == 0
    visits.publish(15)
    with visits.open("SET dp.source = history") as connection:
        assert len(connection.execute(BY_DAY).fetchall()) == 3 * 16
        assert numbers(connection)[0] <= 3
        rows = connection.sql("SELECT count(*) FROM dp.history WHERE analyst = 'plan board'")
        assert rows.fetchall() == [(16,)]


def test_the_same_is_kept_after_a_restart(visits: Visits) -> None:
    """Also where a summary of the ledger is read, and where plans are declared later."""
    visits.declare(budget="epsilon = 3")
    visits.publish(1)
    ask = "SELECT count(*) FROM visits"
    with visits.open("SET dp.source = fresh", "SET dp.epsilon = 1.5") as connection:
        connection.execute(ask)
        connection._gate.accountant.summarise(0)
    declare(visits)
    for _ in range(2):
        with visits.open("SET dp.source = fresh", "SET dp.epsilon = 1") as connection:
            assert numbers(connection)[1] == 0.5
            with pytest.raises(BudgetExceeded):
                connection.execute(ask)
            connection._gate.accountant.summarise(0)


def test_a_row_whose_answer_was_lost_is_not_bought_again(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallyveil.accountant import Accountant

    declare(visits)
    record = Accountant.record

    def lost(self: Accountant, *given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Accountant, "record", lost)
    with pytest.raises(KeyboardInterrupt):
        visits.publish(0)
    monkeypatch.setattr(Accountant, "record", record)
    told = [*publish(visits.folder / "policy.toml", str(day(0)), report=False)]
    lost = [f"plan board, day {day(0)}"]
    assert told[-1].document == {"table": "visits", "lost": lost}
    assert told[-1].lines == [
        f"visits: answers that were charged and lost, and are not bought again: 1 ({lost[0]})"
    ]
    said: set[tuple[str, str]] = set()
    with visits.open() as connection:
        gate = connection._gate
        warn(gate, dt.datetime(2026, 1, 2, tzinfo=dt.UTC), lost_answers(gate), said)
    assert said == {("visits", f"charged, and lost: {lost[0]}")}
    visits.publish(1)
    with visits.open("SET dp.source = history") as connection:
        bought = connection.execute("SELECT sql FROM dp.history").fetchall()
        assert len(bought) == 2
        first = f"SELECT count(*) FROM visits WHERE kind = 0 AND day = '{day(0)}'"
        second = f"SELECT count(*) FROM visits WHERE kind = 0 AND day = '{day(1)}'"
        assert connection.execute(first).fetchall() == [(None,)]
        assert connection.execute(second).fetchall() != [(None,)]


def test_a_row_that_was_refused_is_tried_again(
    visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tallyveil.errors import LedgerError
    from tallyveil.gate.deciding.decision import Decision

    declare(visits)
    buy = Decision.buy

    def refused(self: Decision, offer: Any, analyst: str) -> None:
        if offer.charge.sql.endswith("day 1"):
            raise LedgerError("not now")
        buy(self, offer, analyst)

    monkeypatch.setattr(Decision, "buy", refused)
    visits.publish(1)
    monkeypatch.setattr(Decision, "buy", buy)
    visits.publish(1)
    with visits.open() as connection:
        bought = connection.execute("SELECT sql FROM dp.history ORDER BY charge_id").fetchall()
        assert [sql[-5:] for (sql,) in bought] == ["day 2", "day 1"]


def test_plans_spend_no_more_than_is_kept_for_them(visits: Visits) -> None:
    """However they are renamed or changed."""
    declare(visits)
    visits.publish(3)
    policy = visits.folder / "policy.toml"
    text = policy.read_text()
    for changed in (
        text.replace("plans.board", "plans.other"),
        text.replace('["day", "week", "year"]', '["week"]'),
    ):
        policy.write_text(changed)
        visits.publish(10)
        with visits.open() as connection:
            spent, remaining = numbers(connection)
            assert spent <= 1
            assert remaining == 2
    with visits.open() as connection:
        each = connection._gate.accountant.spending()
        assert all(one.spent <= 1 for one in each)


def test_nobody_can_act_as_a_plan(visits: Visits) -> None:
    declare(visits)
    with pytest.raises(InsufficientPrivilege, match='"plan board" is the name of a plan'):
        tallyveil.connect(visits.folder / "policy.toml", user="plan board")


def test_plans_have_no_more_than_the_budget(visits: Visits) -> None:
    declare(visits, "epsilon = 1", "epsilon = 1.5")
    with pytest.raises(PolicyError, match="add up to at most 1"):
        visits.open()


def test_a_plan_has_a_plain_name(visits: Visits) -> None:
    visits.declare()
    policy = visits.folder / "policy.toml"
    plan = '[tables.visits.plans."../up"]\nbudget = { epsilon = 1 }\n'
    policy.write_text(policy.read_text() + plan)
    with pytest.raises(PolicyError, match="expected a name of letters, digits and _"):
        visits.open()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ('by = ["day"]\nbudget = { epsilon = 1 }', "attributes of the table but its days"),
        ('by = ["sex"]\nbudget = { epsilon = 1 }', "attributes of the table but its days"),
        ("budget = { rho = 1 }", "expected epsilon, as its table counts"),
        ('tiles = ["month"]\nbudget = { epsilon = 1 }', "expected a list of tiles"),
        ('tiles = ["day", "day"]\nbudget = { epsilon = 1 }', "each once"),
        ("", "budget"),
        ("tiles = []", "expected a list of tiles"),
    ],
)
def test_mistaken_plans_are_refused(visits: Visits, plan: str, message: str) -> None:
    visits.declare()
    policy = visits.folder / "policy.toml"
    policy.write_text(policy.read_text() + f"[tables.visits.plans.board]\n{plan}\n")
    with pytest.raises(PolicyError, match=message):
        visits.open()


def test_a_plan_that_was_changed_is_bought_anew_as_far_as_its_part_reaches(visits: Visits) -> None:
    """And the custodian is told, in a line for each plan, what was not."""
    declare(visits)
    assert len(visits.publish(2)) == 1
    policy = visits.folder / "policy.toml"
    text = policy.read_text()
    for changed in (text.replace('by = ["kind"]', "by = []"), text.replace(".board]", ".other]")):
        policy.write_text(changed)
        _, line = visits.publish(3)
        plan = "other" if ".other]" in changed else "board"
        assert f"rows of plan {plan} not bought: the budget of table" in line
        with visits.open() as connection:
            assert numbers(connection) == pytest.approx((1, 2))
