"""What statements at the edge of what is answered cost: processor seconds of this process, and how
many milliseconds of the processor lie between two looks at their deadline (`looks`).

Each is described and then executed, as drivers do, and nothing is known of it unless its name
says so; the least of REPEATS times counts. A statement of up to 100,000 groups is meant to take at
most 2 s.

    make bench NAME=cliffs
    REPEATS=5 ONLY="500 filters" make bench NAME=cliffs
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import duckdb

from bench.looks import looking, warm_memory
from bench.measure import report
from tallyveil import TallyveilError, parse_policy
from tallyveil.gate import Gate
from tallyveil.proxy.housekeeping import short_pauses

__all__ = ["EXACT", "STATEMENTS", "TOGETHER", "Taken", "opened", "statement", "taken"]

_PATIENCE: Final = 60.0  # seconds: what counts is the time of this process, whatever others do
REPEATS = int(os.environ.get("REPEATS", "3"))


def _joined(pattern: str, count: int, by: str) -> str:
    return by.join(pattern.replace("{k}", str(k)) for k in range(count))


_FILTERS: Final = ", ".join(
    f"count(*) FILTER (WHERE a > {k} AND c < {1 + k % 9})" for k in range(500)
)
_WIDE_FILTERS: Final = ", ".join(
    f"count(*) FILTER (WHERE a > {k} AND c < {1 + k % 9} AND d <> {k % 100})" for k in range(489)
)
_RANGES: Final = ", ".join(
    f"sum(CASE WHEN a BETWEEN {k} AND {9 * k + 50} THEN 1 ELSE 0 END)" for k in range(200)
)
_CASES: Final = _joined("WHEN a = {k} AND b > {k} THEN {k}", 500, " ")
_OF_TWO: Final = _joined(
    "WHEN a = {k} AND b > {k} THEN a + {k} WHEN a = {k} AND b = {k} THEN b", 250, " "
)
_BRANCHES: Final = _joined("WHEN a = {k} AND b > {k} THEN b + 1", 500, " ")
_DECIDED: Final = _joined("WHEN a = {k} AND b > {k} THEN b % 2 = 1", 500, " ")
_CHOSEN: Final = _joined("sum(CASE WHEN a = {k} THEN b ELSE 0 END)", 300, ", ")
_COUNTED: Final = "q{k} AS (SELECT d, count(*) AS n FROM t WHERE d <> {k} AND c <> {n} GROUP BY d)"

_FROM: Final = "SELECT {k}, d, count(*) FROM t WHERE d >= {k} AND c <> {k} % 10 GROUP BY d"
_UP_TO: Final = "SELECT {k}, d, count(*) FROM t WHERE d <= {k} AND c = {k} % 10 GROUP BY d"
_JOINED: Final = (
    "WITH "
    + _joined(_COUNTED, 60, ", ")
    + " SELECT q0.d, "
    + _joined("q{k}.n", 60, ", ")
    + " FROM q0 "
    + " ".join(f"JOIN q{k} USING (d)" for k in range(1, 60))
)

# {n} makes each one another statement, which nothing is known of.
STATEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "500 filters": f"SELECT {_FILTERS} FROM t WHERE b > {{n}}",
        "489 filters of three attributes": f"SELECT {_WIDE_FILTERS} FROM t WHERE b > {{n}}",
        "200 BETWEENs": f"SELECT {_RANGES} FROM t WHERE b > {{n}}",
        "3,000 ORs": "SELECT count(*) FROM t WHERE c > {n} OR " + _joined("a = {k}", 3000, " OR "),
        "2,000 ORs of ANDs": "SELECT count(*) FROM t WHERE a = {n} OR "
        + _joined("a = {k} AND b = {k}", 2000, " OR "),
        "1,500 ORs of days": "SELECT count(*) FROM t WHERE a = {n} OR "
        + _joined("(a = {k} AND day = DATE '2020-01-01' + {k})", 1500, " OR "),
        "300 ORs of LIKE": "SELECT count(*) FROM t WHERE a = {n} OR "
        + _joined("CAST(a AS text) LIKE '%{k}' AND b = {k}", 300, " OR "),
        "CASE of 500": f"SELECT CASE {_CASES} ELSE {{n}} END AS part, count(*) FROM t GROUP BY 1",
        "sum of a CASE of 500": f"SELECT sum(CASE {_BRANCHES} ELSE a END) FROM t WHERE c > {{n}}",
        "sum of a CASE of 500 for two attributes": f"SELECT sum(CASE {_OF_TWO} END) FROM t "
        "WHERE c > {n}",
        "sum of a CASE of 500, in groups": f"SELECT c, sum(CASE {_BRANCHES} ELSE a END) "
        "FILTER (WHERE a > 3 OR b < {n}) FROM t GROUP BY c",
        "condition that is a CASE of 500": "SELECT count(*) FROM t "
        f"WHERE c > {{n}} AND CASE {_DECIDED} ELSE a > 9 END",
        "300 sums of CASE": f"SELECT {_CHOSEN} FROM t WHERE c > {{n}}",
        "90 common tables": "WITH q0 AS (SELECT a, b FROM t), "
        + ", ".join(f"q{k} AS (SELECT * FROM q{k - 1})" for k in range(1, 90))
        + " SELECT count(*) FROM q89 WHERE a > {n}",
        "60 common tables joined": _JOINED,
        "60 common tables joined, 200 answers known": _JOINED,
        "100 sides of UNION ALL": _joined(
            "SELECT {k}, d, count(*) FROM t WHERE a > {k} AND c <> {n} GROUP BY d",
            100,
            " UNION ALL ",
        ),
        "product over 4,000,000 cells": "SELECT sum(a * b + {n}) FROM t",
        "remainder over 4,000,000 cells": "SELECT sum((a + b + {n}) % 1000) FROM t",
        "root over 4,000,000 cells": "SELECT sum(sqrt(a * b + {n})) FROM t",
        "100,000 groups of 4,000,000 cells": "SELECT a * b % 99991, count(*) FROM t "
        "WHERE c > {n} GROUP BY 1",
        "variance over 4,000,000 cells": "SELECT variance(a + {n} * b) FROM t",
        "EXPLAIN over 4,000,000 cells": "EXPLAIN SELECT sum(a * b + {n}), count(*) FROM t",
        "ROLLUP over 4,000,000 cells": "SELECT a * b % 999, count(*) FROM t WHERE c > {n} "
        "GROUP BY ROLLUP (1)",
        "remainder over 4,000,000 cells, 1,000 answers known": "SELECT sum((a + b + {n}) % 1000) "
        "FROM t",
        "two sums": "SELECT sum(a + {n}), sum(b) FROM t",
        "100,000 groups": "SELECT a, d, count(*) FROM t WHERE b > {n} AND d < 50 GROUP BY a, d",
        "100,000 groups, sorted": "SELECT a, d, count(*) FROM t WHERE b > {n} AND d < 50 "
        "GROUP BY a, d ORDER BY 3 DESC",
        "CUBE of 112,000 rows": "SELECT a, c, d, count(*) FROM t WHERE b > {n} AND a < 100 "
        "GROUP BY CUBE (a, c, d)",
        "ROLLUP of 102,000 rows": "SELECT a, d, count(*) FROM t WHERE b > {n} AND d < 50 "
        "GROUP BY ROLLUP (a, d)",
        "100,000 groups of three counts": "SELECT a, d, count(*), count(*) FILTER (WHERE b < 50), "
        "count(*) FILTER (WHERE c < 5) FROM t WHERE b > {n} AND d < 50 GROUP BY a, d",
        "20,000 groups under ten totals": "SELECT c, a, count(*) FROM t GROUP BY c, a",
        "100,000 groups under 2,000 totals": "SELECT a, b / 40, count(*) FROM t GROUP BY 1, 2",
        "EXPLAIN of a ROLLUP of 1,400 rows under forty totals": "EXPLAIN SELECT a / 50, b / 60, "
        "count(*) FROM t GROUP BY ROLLUP (1, 2)",
        "ROLLUP of 10,000 rows under ten totals": "SELECT c, d, b / 220, count(*) FROM t "
        "GROUP BY ROLLUP (1, 2, 3)",
        "20,000 groups of five counts": "SELECT a, c, "
        + ", ".join(f"count(*) FILTER (WHERE b > {k})" for k in range(5))
        + " FROM t WHERE d <> {n} GROUP BY a, c",
    }
)

_EACH: Final = "SELECT a, count(*) FROM t WHERE a < 1000 GROUP BY a"

# What is asked before a statement, which then bears on it.
BEFORE: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "60 common tables joined, 200 answers known": (
            _joined(_FROM, 100, " UNION ALL "),
            _joined(_UP_TO, 100, " UNION ALL "),
        ),
        "remainder over 4,000,000 cells, 1,000 answers known": (_EACH,),
    }
)

# What is exact where a statement's noise is drawn together; its answer is not known before.
EXACT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "20,000 groups under ten totals": "SELECT c, count(*) FROM t GROUP BY c",
        "100,000 groups under 2,000 totals": "SELECT a, count(*) FROM t GROUP BY a",
        "EXPLAIN of a ROLLUP of 1,400 rows under forty totals": "SELECT a / 50, count(*) FROM t "
        "GROUP BY 1",
        "ROLLUP of 10,000 rows under ten totals": "SELECT c, count(*) FROM t GROUP BY c",
    }
)
TOGETHER: Final = ("SET dp.mechanism = conditioned", "SET dp.source = fresh")


@dataclass(frozen=True)
class Taken:
    """``rows`` is None where it was refused, with ``sqlstate`` and the reason."""

    seconds: float
    rows: int | None
    sqlstate: str | None
    refusal: str | None
    gaps: Mapping[str, float]


def opened(base: Path, neighbours: str = "add_remove", exact: str | None = None) -> Gate:
    with duckdb.connect(":memory:") as source:
        source.execute(
            "CREATE TABLE t AS SELECT i % 2000 AS a, i * 7 % 2000 AS b, i % 10 AS c, i % 100 AS d, "
            "DATE '2020-01-01' + (i % 2000)::int AS day FROM range(20000) r(i)"
        )
        sizes = {"a": 2000, "b": 2000, "c": 10, "d": 100}
        days = {"range": [dt.date(2020, 1, 1), dt.date(2025, 6, 22)]}
        numbers = {name: {"range": [0, size - 1]} for name, size in sizes.items()}
        table = {
            "attributes": {**numbers, "day": days},
            "neighbours": neighbours if exact is None else "replace",
            "invariants": [] if exact is None else [{"sql": exact}],
            "budget": {"epsilon": 10**5},
        }
        declared = {"tables": {"t": table}, "defaults": {"epsilon": 1.0}}
        return Gate(parse_policy(declared, base=base), source, time_limit=_PATIENCE)


def statement(name: str, number: int) -> str:
    """The statement of this name; ``number`` makes it another one."""
    return STATEMENTS[name].replace("{n}", str(number))


def taken(gate: Gate, sql: str, settings: Sequence[str] = ()) -> Taken:
    """How long this process computes for the statement, after some settings."""
    session, rows, sqlstate, refusal = gate.session("analyst"), None, None, None
    for setting in settings:
        (parsed,) = session.parse(setting)
        session.execute(parsed)
    start = time.process_time()
    with looking(session) as looks:
        try:
            (parsed,) = session.parse(sql)
            session.describe(parsed)
            rows = len(session.execute(parsed).rows)
        except TallyveilError as error:
            sqlstate, refusal = error.sqlstate, error.message
    seconds = time.process_time() - start
    session.close()
    return Taken(seconds, rows, sqlstate, refusal, looks.milliseconds())


def main() -> None:
    only = os.environ.get("ONLY")
    warm_memory()
    for name in STATEMENTS if only is None else [only]:
        with tempfile.TemporaryDirectory() as directory, short_pauses():
            exact = EXACT.get(name)
            gate, settings = opened(Path(directory), exact=exact), TOGETHER if exact else ()
            for before in BEFORE.get(name, ()):
                taken(gate, before)
            asked = [statement(name, 3 + number) for number in range(REPEATS)]
            times = [taken(gate, sql, settings) for sql in asked]
            gate.close()
        best = min(times, key=lambda one: one.seconds)
        report(
            bench="cliffs",
            statement=name,
            cpu_s=round(best.seconds, 2),
            rows=best.rows,
            sqlstate=best.sqlstate,
            **best.gaps,
        )


if __name__ == "__main__":
    main()
