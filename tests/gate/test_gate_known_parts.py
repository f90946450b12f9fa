"""A total that was reported as a sum stays known by itself, whatever its parts are known from."""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.knowledge import estimator
from tests.gate.asking import Connect, ask
from tests.pairs import one_in

ATTRIBUTES = {
    "a": {"values": ["p", "q", "r"]},
    "b": {"range": [0, 7]},
    "c": {"range": [0, 3]},
}
BUDGET = {"rho": 50.0, "delta": 1e-6}

RHO = 0.0005
SIGMA = math.sqrt(1 / (2 * RHO))

BOUGHT, HISTORY = {"rho": 0.004}, {"source": "history"}
BY_B = "GROUP BY c, a, b < 5"
PARTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "answers": [("GROUP BY c, a", BOUGHT)],
    "answers of two charges": [
        ("WHERE a = 'p' GROUP BY c, a", BOUGHT),
        ("WHERE a <> 'p' GROUP BY c, a", BOUGHT),
    ],
    "answers, and the rest is bought": [("WHERE a <> 'p' GROUP BY c, a", BOUGHT)],
    "estimates": [(BY_B, BOUGHT), ("GROUP BY c, a", HISTORY)],
    "estimates, and the rest is bought": [
        (f"WHERE a <> 'p' {BY_B}", BOUGHT),
        ("WHERE a <> 'p' GROUP BY c, a", HISTORY),
    ],
    "estimates and answers": [
        (f"WHERE a <> 'p' {BY_B}", BOUGHT),
        ("WHERE a <> 'p' GROUP BY c, a", HISTORY),
        ("WHERE a = 'p' GROUP BY c, a", BOUGHT),
    ],
}


def told(connection: tallyveil.Connection, keys: str, by: str, **settings: object) -> Any:
    """The intervals and standard deviations of the groups by their keys."""
    connection.execute("RESET ALL")
    ends = "dp_interval_low(n), dp_interval_high(n), dp_stddev(n)"
    rows = ask(connection, f"SELECT {keys}, count(*) AS n, {ends} FROM person {by}", **settings)
    return {row[:3]: row[-3:] for row in rows}


@pytest.mark.parametrize("parts", one_in(2, PARTS.values()), ids=PARTS)
def test_a_sum_stays_known_whatever_its_parts_are_known_from(
    connect: Connect,
    source: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    parts: list[tuple[str, dict[str, Any]]],
) -> None:
    """In another process too; what is as good as the cost would buy is not charged for again."""
    source.execute(
        "CREATE TABLE many AS SELECT ['p', 'q', 'r'][1 + i % 3] AS a, i % 8 AS b,"
        " i // 3 % 4 AS c FROM range(3000) t(i)"
    )
    table: dict[str, Any] = {"from": "many", "attributes": ATTRIBUTES, "budget": BUDGET}
    connection = connect(defaults={"rho": RHO}, **table)
    for groups, settings in parts:
        select = BY_B if BY_B in groups else "GROUP BY c, a"
        ask(connection, f"SELECT {select[9:]}, count(*) FROM person {groups}", **settings)
        connection.execute("RESET ALL")
    monkeypatch.setattr(estimator, "_WORK", 1)  # as when too much was answered since
    rows = told(connection, "a, b, c", "GROUP BY CUBE (a, c, b)", rho=RHO)
    connection.close()
    again = connect(defaults={"rho": RHO}, **table)
    spent, as_good = again.budget(), True
    for settings in ({"source": "history"}, {"rho": RHO}):
        for keys, by in (("NULL, NULL, c", "GROUP BY c"), ("a, NULL, NULL", "GROUP BY a")):
            for group, (low, high, deviation) in told(again, keys, by, **settings).items():
                before = rows[group]
                as_good &= before[2] <= SIGMA * (1 + 1e-9)
                assert deviation <= before[2] * (1 + 1e-9)
                assert high - low <= before[1] - before[0] + 1
    assert not as_good or again.budget() == spent
