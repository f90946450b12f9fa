"""Counts that are not negative and still add up: to each other, and to what is public."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tallyveil
from tests.gate.asking import Connect, ask
from tests.pairs import alternately

BY_STATE = "SELECT state, count(*) FROM person GROUP BY state"
BY_SEX = "SELECT sex, count(*) FROM person GROUP BY sex"
STATES = {"AL": 1000, "AK": 1000, "WY": 1000, "other": 0, None: 0}
SEXES = {"F": 1500, "M": 1500, "other": 0}
APART = "The rows need not add up"


def exact(*sql: str) -> dict[str, Any]:
    return {"neighbours": "replace", "invariants": [{"sql": one} for one in sql]}


def hints(connection: tallyveil.Connection) -> str:
    return " ".join(notice.hint or "" for notice in connection.notices)


@pytest.mark.parametrize("answers", ["auto", "fresh"])
def test_groups_of_a_published_total(connect: Connect, answers: str) -> None:
    """Of 101 ages of two states nobody is in, a third at least would be negative."""
    connection = connect({"epsilon": 0.1, "nonnegative": True}, **exact(BY_STATE))
    connection.execute(f"SET dp.source = {answers}")
    sql = (
        "SELECT state, age, count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
        " GROUP BY state, age"
    )
    found = connection.execute(sql).fetchall()
    totals: Counter[str | None] = Counter()
    for state, _, n, low, high in found:
        assert 0 <= low <= n <= high
        totals[state] += n
    assert dict(totals) == STATES
    assert sum(n == 0 for _, _, n, _, _ in found) > 100
    assert APART not in hints(connection)


def test_cells_of_two_published_margins(connect: Connect) -> None:
    connection = connect({"epsilon": 0.01, "nonnegative": True}, **exact(BY_STATE, BY_SEX))
    found = connection.execute("SELECT state, sex, count(*) FROM person GROUP BY 1, 2").fetchall()
    assert min(n for _, _, n in found) >= 0
    for state, total in STATES.items():
        assert sum(n for own, _, n in found if own == state) == total
    for sex, total in SEXES.items():
        assert sum(n for _, own, n in found if own == sex) == total


def test_groups_and_their_noisy_totals(connect: Connect) -> None:
    connection = connect({"epsilon": 0.05, "nonnegative": True})
    sql = "SELECT state, age, grouping(state, age), count(*) FROM person GROUP BY ROLLUP (1, 2)"
    found = connection.execute(sql).fetchall()
    assert min(n for *_, n in found) >= 0
    states = {state: n for state, _, level, n in found if level == 1}
    (total,) = (n for _, _, level, n in found if level == 3)
    for state, n in states.items():
        assert sum(m for own, _, level, m in found if level == 0 and own == state) == n
    assert sum(states.values()) == total


@pytest.mark.parametrize(
    ("groups", "answers", "value"),
    alternately(
        ["ROLLUP (state)", "CUBE (state, sex)"],
        ["auto", "fresh"],
        ["count(*)", "sum(-3), count(*)"],
    ),
)
def test_groups_and_their_totals_are_the_same_in_every_process(
    connect: Connect, groups: str, answers: str, value: str
) -> None:
    """When they are bought, when they are asked again, and at another gate on the ledger."""
    keys = "state, sex" if "sex" in groups else "state"
    ends = "dp_interval_low(count(*)), dp_interval_high(count(*)), count(*)"
    budget, settings = {"epsilon": 100}, {"nonnegative": "on", "source": answers}
    first = connect(budget=budget)
    for age in range(78, 80):  # of each age there are no more than 7 records in a group
        sql = (
            f"SELECT grouping({keys}), {keys}, {value}, {ends} FROM person WHERE age = {age}"
            f" GROUP BY {groups}"
        )
        bought = Counter(ask(first, sql, **settings))
        spent = first.budget()[0]["spent"]
        levels: Counter[int] = Counter()
        for level, *_, low, high, n in bought.elements():
            assert 0 <= low <= n <= high
            levels[level] += n
        assert len(set(levels.values())) == 1
        for connection in (first, connect(budget=budget)):
            again = ask(connection, sql, **settings | {"source": "auto"})
            assert Counter(again) == bought
            assert connection.budget()[0]["spent"] == spent


def test_totals_of_more_groups_than_are_moved_together_are_their_sums(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rounding.ROWS", "adding_up.ROWS", "nearest_integers._ROWS"):
        monkeypatch.setattr(f"tallyveil.knowledge.sums.{name}", 500)
    connection = connect({"epsilon": 0.1, "nonnegative": True}, attributes=long(99))
    keys = "state, n, sex"
    found = connection.execute(
        f"SELECT grouping(sex), {keys}, count(*) FROM person"
        " GROUP BY GROUPING SETS ((state, n, sex), (state, n))"
    ).fetchall()
    groups: Counter[tuple[Any, ...]] = Counter()
    totals = {(state, n): count for total, state, n, _, count in found if total}
    for total, state, n, _, count in found:
        assert count >= 0
        groups[state, n] += 0 if total else count
    assert dict(groups) == totals
    assert APART not in hints(connection)


def test_the_answer_that_is_remembered_stays_as_it_was(connect: Connect) -> None:
    connection = connect({"epsilon": 0.05}, **exact(BY_STATE))
    sql = "SELECT state, age, count(*) FROM person GROUP BY state, age ORDER BY 1, 2"
    plain = connection.execute(sql).fetchall()
    assert min(n for *_, n in plain) < 0
    raised = ask(connection, sql, nonnegative="on")
    assert min(n for *_, n in raised) == 0
    assert connection.execute(sql).fetchall() == raised
    assert ask(connection, sql, nonnegative="off") == plain
    assert connection.budget()[0]["spent"] == 0.05


@pytest.mark.parametrize(
    ("invariants", "nonnegative"),
    [
        ((), False),
        ((BY_STATE,), True),
        pytest.param((), True, marks=pytest.mark.slow),
        pytest.param((BY_STATE,), False, marks=pytest.mark.slow),
    ],
)
def test_more_than_a_hundred_aggregates_add_up(
    connect: Connect, invariants: tuple[str, ...], nonnegative: bool
) -> None:
    keys = exact(*invariants) if invariants else {}
    connection = connect({"epsilon": 0.1, "nonnegative": nonnegative}, **keys)
    each = [f"count(*) FILTER (WHERE age = {n})" for n in range(100)]
    sql = f"SELECT {', '.join(each)}, count(*) FILTER (WHERE age IS NULL), count(*) FROM person"
    (found,) = connection.execute(f"{sql} WHERE state = 'AL'").fetchall()
    assert sum(found[:-1]) == found[-1]
    assert not invariants or found[-1] == 1000
    assert not nonnegative or min(found) >= 0
    assert APART not in hints(connection)


def long(most: int) -> dict[str, Any]:
    return {
        "state": {"values": ["AL", "AK", "WY"], "other": True, "nullable": True},
        "n": {"range": [0, most], "clamp": True, "nullable": True, "column": "age"},
        "sex": {"values": ["F", "M"], "other": True},
    }


@pytest.mark.parametrize("nonnegative", [False, True])
def test_tens_of_thousands_of_groups_agree(connect: Connect, nonnegative: bool) -> None:
    connection = connect(
        {"epsilon": 0.1, "nonnegative": nonnegative}, **exact(BY_STATE), attributes=long(4_400)
    )
    connection.execute("SET dp.source = fresh")
    sql = "SELECT state, n, count(*) FROM person GROUP BY state, n"
    totals: Counter[str | None] = Counter()
    least = 0
    for state, _, count in connection.execute(sql).fetchall():
        totals[state] += count
        least = min(least, count)
    assert dict(totals) == STATES
    assert (least == 0) is nonnegative
    assert APART not in hints(connection)


def test_what_is_too_much_to_add_up_is_said(connect: Connect) -> None:
    """Together the two grouping sets tell more cells apart than are looked at."""
    connection = connect({"epsilon": 0.1}, **exact(BY_STATE), attributes=long(8_999))
    sql = "SELECT state, n, sex, count(*) FROM person GROUP BY GROUPING SETS ((1, 2), (2, 3), (3))"
    connection.execute(sql)
    assert APART in hints(connection)
