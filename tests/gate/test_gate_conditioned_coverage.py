"""Intervals of noise drawn together, beside other answers about the same rows, and after a restart.

The groups of 400 states of known totals are as many independent draws of three groups in one
statement. That an interval at 95 % holds fewer of 400 truths than `LEAST` has probability 10⁻⁸, and
all of these tests together have a false alarm in fewer than 10⁻⁶ of all runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from scipy import stats

import tallyveil
from tests.gate.asking import ask

STATES: Final = 400
LEAST: Final = int(stats.binom.ppf(1e-8, STATES, 0.95))
GROUPS: Final = "SELECT state, part, count(*) FROM person GROUP BY 1, 2"
FINER: Final = "SELECT state, part, sex, count(*) FROM person GROUP BY 1, 2, 3"
SINGLE: Final = "SELECT state, count(*) FROM person WHERE part = 0 GROUP BY 1"
PAIR: Final = "SELECT state, count(*) FROM person WHERE part <> 1 GROUP BY 1"
ASKED: Final = (
    "SELECT state, part, count(*) AS n, dp_interval_low(n) AS low, dp_interval_high(n) AS high,"
    " dp_stddev(n) AS deviation FROM person GROUP BY 1, 2"
)
TOGETHER: Final = "SET dp.mechanism = conditioned"
PLAIN: Final = "SET dp.mechanism = auto"
FRESH: Final = "SET dp.source = fresh"
BETTER: Final = "SET dp.half_width = 4"

MIXTURES: Final = {
    "by itself": [TOGETHER, GROUPS],
    "topped up by its like": [TOGETHER, GROUPS, BETTER, GROUPS],
    "topped up by independent noise": [TOGETHER, GROUPS, PLAIN, BETTER, GROUPS],
    "topping up independent noise": [GROUPS, TOGETHER, BETTER, GROUPS],
    "before single answers": [TOGETHER, GROUPS, PLAIN, FRESH, SINGLE, PAIR],
    "after a single answer": [SINGLE, TOGETHER, FRESH, GROUPS],
    "at two levels": [TOGETHER, FRESH, FINER, GROUPS],
}

Open = Callable[..., tallyveil.Connection]


@pytest.fixture
def people(
    database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> tuple[dict[tuple[int, int], int], Open]:
    """The truth, and a gate over it: the same ledger each time."""
    source = database.execute(
        f"CREATE TABLE people AS SELECT i // 60 AS state, (i * i + i // 7) % 3 AS part,"
        f" i % 2 AS sex, i // 2 AS pid FROM range({60 * STATES}) t(i)"
    )
    counts = source.execute("SELECT state, part, count(*) FROM people GROUP BY 1, 2").fetchall()

    def opened(measure: str, **table: Any) -> tallyveil.Connection:
        declared: dict[str, Any] = {
            "from": "people",
            "neighbours": "replace",
            "budget": {"epsilon": 100.0} if measure == "epsilon" else {"rho": 9.0, "delta": 1e-6},
            "attributes": {
                "state": {"range": [0, STATES - 1]},
                "part": {"range": [0, 2]},
                "sex": {"range": [0, 1]},
            },
            "invariants": [{"sql": "SELECT state, count(*) FROM person GROUP BY state"}],
        }
        cost = {"epsilon": 0.5, "rho": 0.05}[measure]
        keys = {"tables": {"person": declared | table}, "defaults": {measure: cost}}
        connection = tallyveil.connect(tallyveil.parse_policy(keys, base=tmp_path), source=source)
        connection.execute("SET dp.confidence = 0.95")
        return connection

    return {(state, part): n for state, part, n in counts}, opened


CASES: Final = [
    ("by itself", "rho", 2),
    ("topped up by its like", "epsilon", 2),
    ("topping up independent noise", "epsilon", 1),
    ("before single answers", "epsilon", 1),
    ("at two levels", "epsilon", 1),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            ("by itself", "epsilon", 1),
            ("topped up by its like", "rho", 1),
            ("topped up by independent noise", "epsilon", 1),
            ("after a single answer", "epsilon", 1),
        )
    ),
]


@pytest.mark.parametrize(("mixture", "measure", "max_rows"), CASES)
def test_intervals_hold_the_truth_and_a_restart_tells_the_same(
    people: tuple[dict[tuple[int, int], int], Open], mixture: str, measure: str, max_rows: int
) -> None:
    truth, opened = people
    unit = {"privacy_unit": {"column": "pid", "max_rows": max_rows}} if max_rows > 1 else {}
    found = []
    for statements in (MIXTURES[mixture], []):
        connection = opened(measure, **unit)
        for statement in statements:
            connection.execute(statement)
        # What is best by an interval need not be by the variance.
        connection.execute("RESET dp.half_width")
        found.append(ask(connection, ASKED, source="history"))
        connection.close()
    assert sorted(found[0]) == sorted(found[1])
    sums = dict.fromkeys(range(STATES), 0)
    held, squares = [0] * 3, [0.0] * 3
    for state, part, n, low, high, deviation in found[0]:
        sums[state] += n
        held[part] += low <= truth[state, part] <= high
        squares[part] += (n - truth[state, part]) ** 2 / (deviation**2 + 1 / 4) / STATES
    assert set(sums.values()) == {60}
    assert min(held) >= LEAST
    # Of laws with fourth moments below 6 squared variances, and whole numbers add ¼ at most.
    assert max(squares) <= 1 + 6 * (5 / STATES) ** 0.5
    assert min(squares) >= 0.6 * (1 - 6 * (5 / STATES) ** 0.5)
