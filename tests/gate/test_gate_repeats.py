"""What was bought once is free again, whatever rows were bought for it and at any precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallyveil
from tests.gate.one_ledger import on_one_ledger

RECORD = "i * 3 % 8 AS a, i * 5 % 6 AS b, i % 3 AS g"
ATTRIBUTES = {"a": {"range": [0, 7]}, "b": {"range": [0, 5]}, "g": {"range": [0, 2]}}
RHO = {"rho": 1e6, "delta": 1e-9}
EXACT = [{"sql": "SELECT g, count(*) FROM person GROUP BY g"}]


def asked_thrice(connection: tallyveil.Connection, sql: str) -> None:
    found = []
    for _ in range(3):
        rows = sorted(map(repr, connection.execute(sql).fetchall()))
        found.append((rows, connection.execute("SELECT spent FROM dp.budget").fetchall()))
    assert found[0][0]
    assert found == [found[0]] * 3


@pytest.mark.parametrize(
    ("keys", "sets", "epsilon", "confidence"),
    [
        ("a, g", "(a), (g)", 4, 0.95),  # the answer to a group itself has the narrower interval,
        ("a, b, g", "(a), (b), (g)", 2, 0.95),  # and the greater variance
        ("a, b, g", "(a), (b), (g)", 0.05, 0.5),
        ("a, b, g", "(g, a), (a, b)", 4.5, 0.95),
    ],
)
def test_groupings_with_narrow_intervals_are_bought_once(
    tmp_path: Path, keys: str, sets: str, epsilon: float, confidence: float
) -> None:
    with on_one_ledger(tmp_path, "person", RECORD, ATTRIBUTES) as opened:
        connection = opened({"epsilon": 1e6})
        connection.execute(f"SET dp.epsilon = {epsilon}")
        connection.execute(f"SET dp.confidence = {confidence}")
        sql = f"SELECT {keys}, count(*) FROM person GROUP BY GROUPING SETS ({sets})"
        asked_thrice(connection, sql)


@pytest.mark.parametrize("rho", [0.5, 1, 5])
def test_noise_of_less_than_a_record_is_bought_once_beside_exact_counts(
    tmp_path: Path, rho: float
) -> None:
    more: dict[str, Any] = {"neighbours": "replace", "invariants": EXACT}
    with on_one_ledger(tmp_path, "person", RECORD, ATTRIBUTES) as opened:
        connection = opened(RHO, **more)
        connection.execute(f"SET dp.rho = {rho}")
        asked_thrice(
            connection,
            "SELECT a // 2 AS k, count(*) FROM person WHERE a < 4 AND g = 0 GROUP BY k",
        )


EARLIER = [
    "SELECT b, e, g, count(*) FROM person GROUP BY GROUPING SETS ((b), (e), (e, g))",
    "SELECT b, e, count(*) FROM person GROUP BY GROUPING SETS ((), (e, b))",
]
WIDER = {"e": {"range": [0, 15]}, "f": {"range": [0, 11]}} | ATTRIBUTES


def test_groups_bought_beside_a_known_total_are_the_same_elsewhere(tmp_path: Path) -> None:
    """The estimates after a purchase take too much work together, and are made anew."""
    sql = "SELECT a, f, count(*) AS n, dp_stddev(n) FROM person GROUP BY GROUPING SETS ((a, f), ())"
    with on_one_ledger(tmp_path, "person", f"{RECORD}, i * 7 % 16 AS e, i % 12 AS f", WIDER) as at:
        connection = at({"rho": 1e6, "delta": 1e-9})
        for before in EARLIER:
            connection.execute(before).fetchall()
        bought = sorted(map(repr, connection.execute(sql).fetchall()))
        assert sorted(map(repr, connection.execute(sql).fetchall())) == bought
        elsewhere = at({"rho": 1e6, "delta": 1e-9})
        assert sorted(map(repr, elsewhere.execute(sql).fetchall())) == bought
