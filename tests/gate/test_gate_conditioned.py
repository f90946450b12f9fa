"""Noise that is drawn given that it agrees with what is exact: ``dp.mechanism = conditioned``."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import tallyveil
from tallyveil.accountant import Accountant, Charge
from tallyveil.accountant.budgets import pricing
from tallyveil.accountant.store import event_codec as codec
from tallyveil.errors import BudgetExceeded, FeatureNotSupported, StatementTooComplex
from tallyveil.knowledge import Answers
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tests.gate.asking import Connect, ask, spent
from tests.pairs import alternately

BY_STATE = "SELECT state, count(*) FROM person GROUP BY state"
GROUPS = (
    "SELECT state, age % 3 AS part, count(*) AS n, dp_interval_low(n) AS low,"
    " dp_interval_high(n) AS high, dp_stddev(n) AS deviation FROM person"
    " WHERE state IN ('AL', 'AK', 'WY') AND age IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"
)
"""Nine groups, three in each of three states."""

ATTRIBUTES: dict[str, Any] = {
    "state": {"values": ["AL", "AK", "WY"]},
    "age": {"range": [0, 79]},
    "sex": {"values": ["F", "M"]},
}


def conditioned(connect: Connect, *, epsilon: float = 1.0, **table: Any) -> tallyveil.Connection:
    declared: dict[str, Any] = {
        "neighbours": "replace",
        "attributes": ATTRIBUTES,
        "invariants": [{"sql": BY_STATE}],
        "budget": {"epsilon": 1000.0},
        "defaults": {"epsilon": epsilon},
    }
    connection = connect(**declared | table)
    connection.execute("SET dp.mechanism = conditioned")
    return connection


def exact_counts() -> dict[tuple[str, int], int]:
    found: Counter[tuple[str, int]] = Counter()
    for i in range(3000):
        found[["AL", "AK", "WY"][i % 3], i % 80 % 3] += 1
    return found


def test_it_is_charged_before_it_is_drawn(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash in between keeps the charge; the same is bought again, within the budget."""
    connection = conditioned(connect, budget={"epsilon": 2.0})

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Accountant, "record", crash)
        with pytest.raises(KeyboardInterrupt):
            connection.execute(GROUPS)
    again = conditioned(connect, budget={"epsilon": 2.0})
    assert spent(again) == pytest.approx(1)
    ask(again, GROUPS, source="fresh")
    assert spent(again) == pytest.approx(2)
    with pytest.raises(BudgetExceeded):
        again.execute(GROUPS)
    assert spent(again) == pytest.approx(2)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Charge]:
    """What the ledger keeps of each release."""
    found, encoded = list[Charge](), codec.encode_charge

    def encode(charge: Charge, relation: Any) -> bytes:
        written = encoded(charge, relation)
        found.append(codec.decode_charge("person", "", written))
        return written

    monkeypatch.setattr(pricing, "encode_charge", encode)
    return found


def test_no_two_tables_that_agree_differ_by_more_than_is_charged(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, recorded: list[Charge]
) -> None:
    """By brute force, from what the ledger records of a statement: whatever the answer, it is at
    most e^cost times as likely from another table with these totals, one exchange away. And what
    is released is drawn from that very law."""
    kept = Conditioned.draw
    drawn: list[list[int]] = []

    def draw(noise: Conditioned) -> list[int]:
        drawn.append(kept(noise))
        return drawn[-1]

    monkeypatch.setattr(Conditioned, "draw", draw)
    connection = conditioned(connect)
    rows = connection.execute(GROUPS).fetchall()
    cost, truth = spent(connection), exact_counts()
    noise = [n - truth[state, part] for state, part, n, *_ in rows]
    assert sorted(noise) == sorted(drawn[0])
    event = recorded[-1]
    assert event.joint is not None
    parents, [scale] = event.joint.parents, event.scales
    assert len(parents) == 12
    for total in range(9, 12):
        assert parents.count(total) == 3
    law = {
        values: math.exp(-sum(map(abs, values)) / scale)
        for values in itertools.product(range(-7, 8), repeat=3)
        if not sum(values)
    }
    losses = [0.0]
    for values, chance in law.items():
        for i, j in itertools.permutations(range(3), 2):
            moved = tuple(v + (n == i) - (n == j) for n, v in enumerate(values))
            if moved in law:
                losses.append(abs(math.log(chance / law[moved])))
    assert max(losses) == pytest.approx(cost)


@pytest.mark.parametrize("confidence", [0.8, pytest.param(0.95, marks=pytest.mark.slow)])
def test_intervals_cover_and_answers_are_unbiased(connect: Connect, confidence: float) -> None:
    """60 statements of nine groups. Those of a state depend on each other, those of two do not:
    at 5 deviations of the mean of a state's three the false alarm is below 1e-6 for each."""
    connection = conditioned(connect, epsilon=0.5)
    connection.execute("SET dp.source = fresh")
    connection.execute(f"SET dp.confidence = {confidence}")
    truth, statements = exact_counts(), 60
    held, errors, squares = Counter[str](), Counter[int](), 0.0
    for _ in range(statements):
        for state, part, n, low, high, deviation in connection.execute(GROUPS).fetchall():
            held[state] += low <= truth[state, part] <= high
            errors[part] += n - truth[state, part]
            squares += (n - truth[state, part]) ** 2 / deviation**2
    number = 3 * statements
    for state in held:
        room = 5 * math.sqrt(statements * 9 * confidence * (1 - confidence))
        assert held[state] >= number * confidence - room
    for part in errors:
        assert abs(errors[part]) <= 5.5 * deviation * math.sqrt(number)
    # The mean of 540 squares of a law of kurtosis below 6, three of which depend on each other.
    assert squares / (3 * number) == pytest.approx(1, abs=6 * math.sqrt(5 * 3 / (3 * number)))
    assert spent(connection) == pytest.approx(statements / 2)


@pytest.mark.parametrize(
    "mechanism", ["imaged", pytest.param("conditioned", marks=pytest.mark.slow)]
)
def test_two_groups_of_a_known_total_have_no_bias(connect: Connect, mechanism: str) -> None:
    """Half of the differences of two imaged groups lie half-way between whole numbers. 150
    statements of three states; 5.5 deviations of the mean are a false alarm below 1e-7."""
    connection = conditioned(connect, epsilon=2.0)
    connection.execute(f"SET dp.mechanism = {mechanism}")
    connection.execute("SET dp.source = fresh")
    sql = "SELECT state, sex, count(*) FROM person GROUP BY 1, 2"
    off = []
    for _ in range(150):
        answers = {(state, sex): n for state, sex, n in connection.execute(sql).fetchall()}
        for state in ("AL", "AK", "WY"):
            assert answers[state, "F"] + answers[state, "M"] == 1000
            off.append(answers[state, "F"] - 500)
    spread = math.sqrt(sum(one * one for one in off) / len(off))
    assert abs(sum(off) / len(off)) <= 5.5 * spread / math.sqrt(len(off))


def test_an_answer_that_ran_into_the_limit_after_its_charge_is_free_when_asked_again(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise is drawn and recorded; working out its intervals takes longer than is left."""
    connection = conditioned(connect, budget={"epsilon": 1.0})

    def late(*_: Any) -> None:
        raise StatementTooComplex("it took longer than the time limit")

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "intervals", late)
        with pytest.raises(StatementTooComplex):
            connection.execute(GROUPS)
    assert spent(connection) == pytest.approx(1)
    found = connection.execute(GROUPS).fetchall()
    assert connection.execute(GROUPS).fetchall() == found
    sums: Counter[str] = Counter()
    for state, _, n, *_ in found:
        sums[state] += n
    assert set(sums.values()) == {1000}
    assert spent(connection) == pytest.approx(1)
    assert connection.execute("SELECT count(*) FROM dp.history").fetchall() == [(1,)]


def test_groups_bought_beside_known_ones_agree_with_what_is_exact(connect: Connect) -> None:
    """One part of each state is known, so that two are bought, or none but what history lacks."""
    connection = conditioned(connect)
    connection.execute("SELECT state, count(*) FROM person WHERE age % 3 = 0 GROUP BY 1")
    truth = exact_counts()
    connection.execute("SET dp.confidence = 0.999999")
    sums: Counter[str] = Counter()
    for state, part, n, low, high, _ in connection.execute(GROUPS).fetchall():
        assert low <= truth[state, part] <= high
        sums[state] += n
    assert sums == {"AL": 1000, "AK": 1000, "WY": 1000}


def test_the_k_norm_mechanism_draws_by_the_moves_that_keep_what_is_exact(
    connect: Connect, recorded: list[Charge]
) -> None:
    """The noise of the nine groups has weights e^(−ε‖u‖), ‖u‖ the least number of moves of a record
    within a state that u is made of: a linear program, over what the ledger records."""
    connection = conditioned(connect)
    rows = ask(connection, GROUPS, mechanism="knorm")
    sums: Counter[str] = Counter()
    for state, _, n, *_ in rows:
        sums[state] += n
    assert sums == {"AL": 1000, "AK": 1000, "WY": 1000}
    assert spent(connection) == pytest.approx(1)
    event, cells = recorded[-1], np.eye(9, dtype=int)
    assert event.joint is not None
    around = event.joint.parents
    pairs = [(i, j) for i, j in itertools.permutations(range(9), 2) if around[i] == around[j]]
    moves = np.array([cells[i] - cells[j] for i, j in pairs])
    assert len(moves) == 18
    for times in np.random.default_rng(1).integers(-3, 4, (20, 18)):
        noise = times @ moves
        norm = optimize.linprog(np.ones(18), A_eq=moves.T, b_eq=noise).fun
        assert abs(noise).sum() / event.scales[0] == pytest.approx(spent(connection) * norm)


PAIRS = (
    "SELECT state, sex, count(*) AS n, dp_interval_high(n) - n AS half FROM person"
    " WHERE sex IS NOT NULL GROUP BY state, sex"
)


@pytest.mark.parametrize(
    ("half", "sql"),
    alternately([7, 40], [PAIRS, PAIRS.replace("BY state, sex", "BY ROLLUP (state, sex)")]),
)
def test_a_half_width_is_met_by_what_is_drawn_and_not_by_far(
    connect: Connect, sql: str, half: int
) -> None:
    """Of two counts of a known total the noise spreads half as far as noise by itself."""
    connection = conditioned(connect)
    lines = [row[0] for row in ask(connection, "EXPLAIN " + sql, half_width=half)]
    assert any(" if drawn independently), interval ±" in line for line in lines)
    halves = {row[-1] for row in connection.execute(sql).fetchall()} - {0}
    assert max(halves) <= half
    assert max(halves) >= half - max(1, half // 20)
    cost = spent(connection)
    connection.execute(sql)
    assert spent(connection) == cost
    # Independent noise is wider by what the estimates gain from the exact counts.
    ask(connection, sql, mechanism="auto", source="fresh")
    assert cost < 0.8 * (spent(connection) - cost)


@pytest.mark.parametrize("name", ["projected", "imaged", "extended", "conditioned", "auto"])
def test_a_half_width_is_met_by_all_mechanisms(connect: Connect, name: str) -> None:
    budget = {"epsilon": 1000.0} if name == "imaged" else {"rho": 1000.0, "delta": 1e-9}
    connection = conditioned(connect, budget=budget, defaults={"half_width": 30})
    connection.execute(f"SET dp.mechanism = {name}")
    for sql in (PAIRS, GROUPS.replace("dp_stddev(n) AS deviation", "dp_interval_high(n) - n AS h")):
        halves = {row[-1] for row in connection.execute(sql).fetchall()} - {0}
        assert max(halves) <= 30
        assert max(halves) >= 28 or name != "conditioned"


def test_it_is_refused_before_anything_is_worked_out(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = conditioned(connect)
    for name in ("cost", "best", "price"):
        monkeypatch.setattr(Accountant, name, lambda *_: pytest.fail("too late"))
    with pytest.raises(FeatureNotSupported, match="nested or disjoint"):
        connection.execute(
            "SELECT count(*) FILTER (WHERE age < 30), count(*) FILTER (WHERE age > 20) FROM person"
        )


def test_rows_have_intervals_of_their_own(connect: Connect) -> None:
    """In one state two groups, in the other two 30 and 40."""
    connection = conditioned(connect)
    found = connection.execute(
        "SELECT state, part, count(*) AS n, dp_interval_high(n) - dp_interval_low(n) FROM (SELECT"
        " state, CASE state WHEN 'AL' THEN age % 2 WHEN 'AK' THEN age % 30 ELSE age % 40 END AS"
        " part FROM person WHERE age IS NOT NULL) AS p GROUP BY ROLLUP (state, part)"
    ).fetchall()
    widths = {
        state: {w for s, p, _, w in found if s == state and p is not None}
        for state in ("AL", "AK", "WY")
    }
    assert all(len(own) == 1 for own in widths.values())
    assert max(widths["AL"]) < 0.7 * max(widths["AK"]) <= max(widths["WY"])
