"""Statements of all kinds of decisions, and what is bought for them: run by itself, it prints that.

The counts are about cells with as many records each, and noise decides nothing, so that two
processes buy the same unless what they compute differs.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import duckdb

import tallyveil
from tallyveil.gate import Gate

__all__ = ["SESSIONS"]

_ROWS: Final = (
    "SELECT ['u', 'v', 'w'][1 + i % 3] AS a, ['p', 'q'][1 + i // 3 % 2] AS b, i // 6 % 8 AS n"
    " FROM range(4800) t(i)"
)
_DOMAIN: Final = {
    "a": {"values": ["u", "v", "w"]},
    "b": {"values": ["p", "q"]},
    "n": {"range": [0, 7]},
}
_WIDE: Final = {
    "from": "SELECT i % 32 AS n, i // 32 % 3 AS a, i // 96 % 4 AS b FROM range(3840) t(i)",
    "neighbours": "add_remove",
    "attributes": {"n": {"range": [0, 31]}, "a": {"range": [0, 2]}, "b": {"range": [0, 3]}},
}
_RANGES: Final = ", ".join(
    f"count(*) FILTER (WHERE n BETWEEN {one} AND {one + 9})" for one in range(9)
)
_WHOLE: Final = [
    f"SELECT {', '.join(f'count(*) FILTER (WHERE n < {one})' for one in range(1, 33))} FROM t",
    "SELECT a, b, n // 4, count(*) FROM t GROUP BY CUBE (a, b, n // 4)",
    "SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)",
    f"SELECT a, {_RANGES} FROM t GROUP BY a",
    "SELECT n, sum(count(*)) OVER (ORDER BY n) FROM t WHERE a < 2 GROUP BY n",
    "SET dp.half_width = 30",
    f"SELECT {', '.join(f'count(*) FILTER (WHERE n < {one})' for one in range(4, 32, 2))} FROM t"
    " WHERE b > 0",
]
_PREFIXES: Final = ", ".join(f"count(*) FILTER (WHERE n < {one})" for one in range(1, 8))

SESSIONS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "rho": (
        {"budget": {"rho": 100.0, "delta": 1e-6}, "exact": ["a"], "defaults": {"rho": 0.01}},
        [
            f"SELECT {_PREFIXES} FROM t WHERE a = 'v'",
            "SET dp.mechanism = optimal",
            "SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)",
            "SET dp.mechanism = correlated",
            "SELECT a, n, count(*) FROM t GROUP BY ROLLUP (a, n)",
            "SET dp.mechanism = extended",
            "SELECT sum(n), count(*), sum(n * n) FROM t WHERE a <> 'w'",
            "SELECT avg(n), dp_interval_low(avg(n)) < 3, dp_stddev(sum(n)) FROM t WHERE a <> 'w'",
            "SET dp.mechanism = auto",
            "SET dp.half_width = 9.5",
            "SELECT b, count(*), sum(n) FROM t WHERE n > 2 GROUP BY b",
            "SET dp.mechanism = conditioned",
            "SELECT a, n, count(*) FROM t WHERE b = 'p' OR n > 3 GROUP BY a, n",
            "RESET ALL",
            "SET dp.epsilon = 2",
            "SET dp.mechanism = gaussian",
            "SET dp.calibration = analytic",
            "SELECT b, n, count(*) FROM t WHERE n > 4 GROUP BY CUBE (b, n)",
            "SET dp.calibration = subspace",
            "SELECT n, count(*) FROM t WHERE a = 'u' AND b = 'q' GROUP BY n",
        ],
    ),
    "epsilon": (
        {"budget": {"epsilon": 100.0}, "exact": ["a", "b"], "defaults": {"epsilon": 0.05}},
        [
            "SELECT a, b, count(*) FROM t GROUP BY a, b",
            "SET dp.half_width = 25",
            "SELECT n, count(*) FROM t GROUP BY n",
            "SELECT b, sum(n), count(*) FROM t WHERE n % 2 = 0 GROUP BY CUBE (a, b)",
            "SET dp.half_width = 12",
            "SELECT count(*) FROM t WHERE n BETWEEN 2 AND 5",
            "SET dp.mechanism = conditioned",
            "SELECT a, n, count(*) FROM t GROUP BY a, n",
        ],
    ),
    "whole statements in rho": (
        {"budget": {"rho": 100.0, "delta": 1e-6}, "defaults": {"rho": 1}, "table": _WIDE},
        _WHOLE,
    ),
    "whole statements in epsilon": (
        {"budget": {"epsilon": 100.0}, "defaults": {"epsilon": 1}, "table": _WIDE},
        _WHOLE,
    ),
}


def _of_decisions(plan: str) -> str:
    """An EXPLAIN without the width of an average that is known: it follows from noisy answers."""
    return "\n".join(one for one in plan.splitlines() if not one.startswith("Averages and"))


def bought(name: str) -> Iterator[tuple[str, str]]:
    """The statements of a session, each with what it is charged and what EXPLAIN says before."""
    about, statements = SESSIONS[name]
    exact = about.get("exact", [])
    table = {
        "from": _ROWS,
        "neighbours": "replace",
        "budget": about["budget"],
        "attributes": _DOMAIN,
        "invariants": [{"sql": f"SELECT {key}, count(*) FROM t GROUP BY {key}"} for key in exact],
        **about.get("table", {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        declared = {"tables": {"t": table}, "defaults": about["defaults"]}
        policy = tallyveil.parse_policy(declared, base=Path(folder))
        connection = tallyveil.Connection(Gate(policy, duckdb.connect()))
        for sql in statements:
            if sql.startswith("SELECT"):
                yield f"EXPLAIN {sql}", _of_decisions(connection.explain(sql))
            connection.execute(sql)
            with sqlite3.connect(policy.ledger) as opened:
                rows = opened.execute("SELECT mechanism, cost, columns FROM charge").fetchall()
            yield sql, " ".join(f"{m} {c} {sha256(r).hexdigest()[:12]}" for m, c, r in rows)
        connection.close()


if __name__ == "__main__":
    print(json.dumps({name: list(bought(name)) for name in sys.argv[1:] or SESSIONS}))
