"""What Laplace noise that is drawn together costs once the budget is one of ρ."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tallyveil.mechanisms import Adjacency, AgentNoise
from tallyveil.mechanisms.units import from_units
from tallyveil.workload.workload import Column, Workload
from tests.gate.asking import Connect, ask

ORDERS = (1.001, 1.5, 2.0, 4.0, 16.0)
SOURCE: dict[str, Any] = {
    "neighbours": "replace",
    "attributes": {
        "state": {"values": ["AL", "AK", "WY"]},
        "age": {"range": [0, 79]},
        "sex": {"values": ["F", "M"]},
    },
}
EACH_SEX = "SELECT state, sex, count(*) FROM person GROUP BY 1, 2"
LEVELS = "SELECT state, sex, count(*) FROM person GROUP BY ROLLUP (state, sex)"


def rho(exponents: dict[tuple[int, ...], float], moved: tuple[int, ...]) -> float:
    """Of the law with chances e^{−x}, and the same moved: the greatest D_a / a."""
    whole = math.log(math.fsum(math.exp(-x) for x in exponents.values()))
    pairs = [
        (x, other)
        for values, x in exponents.items()
        if (other := exponents.get(tuple(map(int.__sub__, values, moved)))) is not None
    ]
    return max(
        (math.log(math.fsum(math.exp(-a * x + (a - 1) * y) for x, y in pairs)) - whole)
        / (a - 1)
        / a
        for a in ORDERS
    )


def spent_in_rho(connect: Connect, sql: str, invariant: str) -> float:
    """Of conditioned noise that was paid from a budget of epsilon, at epsilon 0.5."""
    own = SOURCE | {"invariants": [{"sql": invariant}]}
    connection = connect({"epsilon": 0.5}, budget={"epsilon": 10.0}, **own)
    ask(connection, sql, mechanism="conditioned")
    assert connection.execute("SELECT mechanism FROM dp.history").fetchall() == [("conditioned",)]
    connection.close()
    later = connect({"rho": 0.01}, budget={"rho": 10.0, "delta": 1e-6}, **own)
    return float(later.budget()[0]["spent"])


def test_two_counts_of_an_exact_total(connect: Connect) -> None:
    """u and −u, of which the chance of u is about e^{−2|u|/b}, with b = 4."""
    law = {(u, -u): 2 * abs(u) / 4.0 for u in range(-90, 91)}
    spent = spent_in_rho(connect, EACH_SEX, "SELECT state, count(*) FROM person GROUP BY 1")
    assert rho(law, (1, -1)) <= spent <= 0.5**2 / 2 * (1 + 1e-9)


def test_counts_and_their_noisy_sums_under_an_exact_total(connect: Connect) -> None:
    """A record that goes to another state moves two counts and two sums, each by as much: what
    is known of them together is that they cost epsilon 0.5."""
    spent = spent_in_rho(connect, LEVELS, "SELECT count(*) FROM person")
    assert spent == pytest.approx(0.5**2 / 2)


@pytest.mark.parametrize("max_rows", [1, 2])
def test_a_part_of_an_agent(max_rows: int) -> None:
    each = np.arange(2)
    own = Workload("t", (Column.joint(("sex",), (2,), 2, each, each, np.ones_like(each)),))
    relation = Adjacency("replace", max_rows, complete=True)
    loss = AgentNoise().loss(own, (4.0,), relation, "rho")
    law = {(u, -u): 2 * abs(u) / 4.0 for u in range(-90, 91)}
    worst = rho(law, (max_rows, -max_rows))
    assert worst <= float(from_units(loss.bound)) <= max_rows**2 * 0.5**2 / 2
    pure = AgentNoise().loss(own, (4.0,), relation, "epsilon")
    assert from_units(pure.bound) == max_rows * Fraction(1, 2)
