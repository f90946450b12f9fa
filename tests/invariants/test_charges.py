"""Charges, over all pairs of small tables that agree on the invariants."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.mechanisms import Adjacency, Measure, Neighbours
from tallyveil.mechanisms.losses.privacy_loss import privacy_loss
from tallyveil.mechanisms.units import UNIT
from tests.matrices import column

ROWS = {
    "one cell": [[1, 0, 0, 0]],
    "all cells": np.eye(4, dtype=np.int64).tolist(),
    "prefixes": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]],
    "weights": [[3, -1, 0, 2]],
}
INVARIANTS = {
    "total": [[1, 1, 1, 1]],
    "two groups": [[1, 1, 0, 0], [0, 0, 1, 1]],
    "both margins of 2×2": [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]],
    "one group": [[1, 1, 0, 0]],
}


@pytest.mark.parametrize("declared", INVARIANTS)
@pytest.mark.parametrize("asked", ROWS)
def test_no_two_tables_that_agree_are_told_apart_better_than_is_charged(
    asked: str, declared: str
) -> None:
    """In ε: Laplace noise of scale b tells x from x' by Σ_i |w_i(x − x')|/b, which is reached far
    out, and Gaussian noise by Σ_i (w_i(x − x'))²/(2σ²) in ρ. Of tables that agree and hold as many
    records, that is at most as many times the charge under replace as records are exchanged, and in
    ρ its square; of all that agree, under add_remove, as records are moved.
    """
    rows, exact, scale = np.array(ROWS[asked]), np.array(INVARIANTS[declared]), Fraction(7)
    tables = [np.array(x) for x in itertools.product(range(3), repeat=4)]
    agreeing = [d for x, y in itertools.combinations(tables, 2) if not (exact @ (d := x - y)).any()]
    assert agreeing
    measures: tuple[tuple[Measure, int, Fraction], ...] = (
        ("epsilon", 1, 1 / scale),
        ("rho", 2, 1 / (2 * scale**2)),
    )
    relations: tuple[Neighbours, ...] = ("add_remove", "replace")
    for measure, power, rate in measures:
        charge = {
            relation: Fraction(
                privacy_loss(
                    [column(ROWS[asked])],
                    [rate],
                    Adjacency(relation, complete=True),
                    measure,
                ).bound,
                UNIT,
            )
            for relation in relations
        }
        for d in agreeing:
            loss = rate * sum(abs(int(v)) ** power for v in rows @ d)
            moved = int(np.abs(d).sum())
            assert loss <= charge["add_remove"] * moved**power
            if not d.sum():
                assert loss <= charge["replace"] * Fraction(moved, 2) ** power


def test_what_is_charged_under_replace_is_reached_by_tables_that_agree() -> None:
    """So that nothing is charged for nothing: one cell of a group whose total is known."""
    loss = privacy_loss(
        [column([[1, 0, 0, 0]])], [Fraction(1, 7)], Adjacency("replace", complete=True), "epsilon"
    )
    assert Fraction(loss.bound, UNIT) - Fraction(1, 7) < Fraction(1, 10**10)
