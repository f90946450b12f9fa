"""Sums of a statement's rows whose noise was drawn in several draws that are alike."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tallyveil
from tests.gate.asking import Connect, ask

ATTRIBUTES: dict[str, Any] = {
    "state": {"values": ["AL", "AK", "WY"]},
    "age": {"range": [0, 79]},
    "sex": {"values": ["F", "M"]},
}


@pytest.fixture
def connection(connect: Connect) -> tallyveil.Connection:
    made = connect(
        {"epsilon": 0.5},
        neighbours="replace",
        attributes=ATTRIBUTES,
        invariants=[{"sql": "SELECT state, count(*) FROM person GROUP BY state"}],
        budget={"epsilon": 100.0},
    )
    made.execute("SET dp.mechanism = conditioned")
    return made


@pytest.mark.parametrize("group", ["sex", "age % 3"])
def test_a_sum_over_states_is_as_far_off_as_three_draws(
    connection: tallyveil.Connection, group: str
) -> None:
    """A group of each of three states: neither exact nor of the noise of one."""
    rows = connection.execute(
        f"SELECT state, {group} AS part, count(*) AS n, dp_stddev(n) AS d, dp_interval_low(n) AS a,"
        " dp_interval_high(n) AS b FROM person GROUP BY CUBE (1, 2)"
    ).fetchall()
    [alone] = {round(d, 9) for state, part, _, d, *_ in rows if None not in (state, part)}
    over_states = [row for row in rows if row[0] is None and row[1] is not None]
    assert len(over_states) == (2 if group == "sex" else 3)
    for _, _, n, deviation, low, high in over_states:
        assert deviation == pytest.approx(math.sqrt(3) * alone)
        assert n - low >= 1.9 * deviation
        assert high - n >= 1.9 * deviation
    for state, part, n, deviation, low, high in rows:
        if part is None:
            total = 3000 if state is None else 1000
            assert (n, deviation, low, high) == (total, 0, total, total)


def test_what_is_combined_with_other_answers_is_of_its_own_draw(
    connection: tallyveil.Connection,
) -> None:
    """After other noise for the same rows, and the same again: estimates whose weights are alike
    in each state, and sums of them."""
    groups = "SELECT state, sex, count(*) AS n FROM person GROUP BY 1, 2"
    connection.execute("SET dp.source = fresh")
    for mechanism in ("conditioned", "laplace", "conditioned"):
        ask(connection, groups, mechanism=mechanism)
    connection.execute("SET dp.source = history")
    rows = connection.execute(
        "SELECT state, sex, count(*) AS n, dp_stddev(n) AS d FROM person GROUP BY CUBE (1, 2)"
    ).fetchall()
    [alone] = {round(d, 9) for state, sex, _, d in rows if None not in (state, sex)}
    sums = [d for state, sex, _, d in rows if state is None and sex is not None]
    assert sums == pytest.approx([math.sqrt(3) * alone] * 2, rel=1e-6)
