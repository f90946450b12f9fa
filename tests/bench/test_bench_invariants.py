"""The measurements of exact counts run, and agree with references by another program."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench import invariants

PREFIXES = np.tril(np.ones((8, 8)))
ONE, EIGHT = np.ones((1, 4)), np.ones((1, 8))


def test_the_least_trace_is_that_of_a_semidefinite_program() -> None:
    for rows, exact, expected in (
        (np.eye(4)[:1], ONE, 0.25),
        (np.eye(4)[:3], ONE, 1.61603),
        (np.eye(4), ONE, 2.25),
        (PREFIXES, EIGHT, 6.57352),
        (np.eye(12), invariants.margins(3, 4), 3),
    ):
        trace, within = invariants.least_trace(rows, exact)
        assert trace <= expected * (1 + 1e-5) <= trace * within * (1 + 1e-4)


def test_the_smallest_ball_is_that_of_the_references() -> None:
    for rows, exact, expected in (
        (np.eye(4)[:3], ONE, 2 / 3),
        (np.eye(4), ONE, 3 / 4),
        (PREFIXES[:7], EIGHT, 1.75),
        (np.eye(12), invariants.margins(3, 4), 1 / 2),
    ):
        assert invariants.smallest_ball(rows, exact) == pytest.approx(expected, rel=1e-3)


def test_the_slope_of_errors_that_grow_is_found() -> None:
    sizes = np.array([10.0, 100.0, 1000.0])
    found, error = invariants.slope(sizes, np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]))
    assert found == pytest.approx(2)
    assert error == pytest.approx(0)


def test_what_invariants_buy_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "truths", lambda: {f"{n % 3:02d}{n:03d}": 9 for n in range(12)})
    invariants.bought()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["plain"] == 12
    assert lines[0]["bound"] == 3 * 9 / 4
    for line in lines:
        assert line["plain"] >= line["projected"] >= line["charged"] >= line["bound"] - 1e-6
