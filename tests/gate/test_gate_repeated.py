"""A statement that is repeated at the same settings is free.

It is free at once and after a restart, whatever was asked before, and whatever part of the
statement was known already.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.gate import Gate
from tallyveil.gate.deciding.choice import Choice
from tests.gate.asking import spent
from tests.pairs import one_in

Opened = Callable[..., tallyveil.Connection]
EPSILON: dict[str, Any] = {"budget": {"epsilon": 1000}}
RHO: dict[str, Any] = {"budget": {"rho": 1000, "delta": 1e-9}}
PAIR: dict[str, Any] = {"budget": {"epsilon": 1000, "delta": 1e-9}}
REPLACE: dict[str, Any] = {"neighbours": "replace"}
EXACT: dict[str, Any] = {"invariants": [{"sql": "SELECT a, count(*) FROM t GROUP BY a"}]}
RANGED = "'truncated_geometric(n=20)'"
TABLES = {
    "add_remove": EPSILON,
    "replace": EPSILON | REPLACE,
    "rho": RHO,
    "rho, replace": RHO | REPLACE,
    "epsilon and delta": PAIR,
    "invariants": EPSILON | REPLACE | EXACT,
    "rho, invariants": RHO | REPLACE | EXACT,
}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    source = duckdb.connect()
    source.execute(
        "CREATE TABLE t AS SELECT i % 3 AS a, i % 7 % 4 AS b, i % 11 % 3 AS d FROM range(3000) t(i)"
    )
    held: list[tallyveil.Connection] = []
    numbers = itertools.count()

    def make(ledger: str | None = None, **table: Any) -> tallyveil.Connection:
        attributes = {
            name: {"range": [0, last]} for name, last in zip("abd", (2, 3, 2), strict=True)
        }
        policy = {
            "ledger": ledger or f"{next(numbers)}.sqlite",
            "tables": {"t": {"attributes": attributes, "limits": {"least_cost": 1e-9}} | table},
            "defaults": {"epsilon": 0.1},
        }
        parsed = tallyveil.parse_policy(policy, base=tmp_path)
        # Other tests may keep the machine busy for longer than a statement may take.
        held.append(tallyveil.Connection(Gate(parsed, source.cursor(), time_limit=600)))
        return held[-1]

    yield make
    for one in held:
        one.close()
    source.close()


# What is asked before, and a statement of which a part is known then.
PARTS = {
    "a part that shares the cost in other proportions": (
        [
            "SELECT b, a, count(*) FROM t GROUP BY CUBE (b, a)",
            "SELECT b, sum(b) FILTER (WHERE a = 2) FROM t WHERE d <> 0 AND b <> 1 GROUP BY b",
        ],
        "SELECT b, sum(b) FILTER (WHERE d = 0) n FROM t WHERE a + b + d > 3 GROUP BY ROLLUP (b)",
    ),
    "sums of which one is known": (
        [
            "SELECT d, a, b, count(*) FILTER (WHERE b IN (3, 2)) FROM t WHERE b <> 2"
            " GROUP BY d, a, b",
            "SELECT d, b, sum(d), count(CASE WHEN b <> a THEN 1 END) FROM t GROUP BY d, b",
        ],
        "SELECT a, b, sum(CASE WHEN a = 0 THEN 3 ELSE d END), sum(b * 1.5)"
        " FILTER (WHERE d = 1 OR b <= a) FROM t WHERE a > 1 GROUP BY ROLLUP (a, b)",
    ),
    "one of two columns": (
        ["SELECT a, count(*) FROM t GROUP BY a"],
        "SELECT a, count(*), sum(b), sum(3 * b) FILTER (WHERE a = 0) FROM t GROUP BY ROLLUP (a)",
    ),
}


@pytest.mark.parametrize(
    ("case", "table", "mechanism"),
    [
        *one_in(2, itertools.product(PARTS, ["rho, replace", "invariants"], ["auto"])),
        *one_in(2, itertools.product(PARTS, ["epsilon and delta"], ["gaussian"])),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for others in ((["replace"], ["auto"]), (["rho, invariants"], ["gaussian"]))
            for case in itertools.product(PARTS, *others)
        ),
    ],
)
def test_the_part_bought_is_as_precise_as_all_would_be(
    opened: Opened, case: str, table: str, mechanism: str
) -> None:
    connection = opened(**TABLES[table])
    before, sql = PARTS[case]
    for one in before:
        connection.execute(one)
    connection.execute(f"SET dp.mechanism = {mechanism}")
    cursor = connection.execute(sql)
    found = re.match(r"cost epsilon ([0-9.]+) for", cursor.notices[0].message)
    assert found is None or 0.099 < float(found[1]) <= 0.1
    assert (found is None) == ("delta" in TABLES[table]["budget"])
    cost = spent(connection)
    connection.execute(sql)
    assert spent(connection) == cost


@pytest.mark.parametrize("mechanism", ["laplace", RANGED])
def test_a_part_that_is_too_cheap_costs_what_was_asked(opened: Opened, mechanism: str) -> None:
    connection = opened(**EPSILON, limits={"least_cost": 1e-4})
    for setting in (f"mechanism = {mechanism}", "epsilon = 1"):
        connection.execute(f"SET dp.{setting}")
    connection.execute("SELECT a, count(*) FROM t WHERE d = 0 GROUP BY a")
    connection.execute("SET dp.epsilon = 0.1")
    sql = "SELECT a, count(*), count(*) FILTER (WHERE b = 1) FROM t WHERE d = 0 GROUP BY a"
    message = connection.execute(sql).notices[0].message
    assert message.startswith("cost epsilon 0.1 for 3 of the 6")
    assert connection.execute(sql).notices[0].message.startswith("answered from history, free")


@pytest.mark.parametrize("mechanism", ["laplace", RANGED])
def test_where_a_part_might_cost_more_all_is_bought(
    opened: Opened, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds of the costs of large statements might be such. Answers that cannot be combined stay
    as they were."""
    monkeypatch.setattr(Choice, "part", lambda *_: None)
    connection = opened(**EPSILON)
    for setting in (f"mechanism = {mechanism}", "epsilon = 1"):
        connection.execute(f"SET dp.{setting}")
    known = connection.execute("SELECT count(*) FROM t WHERE d = 0 AND b = 1 GROUP BY a ORDER BY a")
    connection.execute("SET dp.epsilon = 0.1")
    sql = "SELECT count(*) FILTER (WHERE b = 1), count(*) FROM t WHERE d = 0 GROUP BY a ORDER BY a"
    cost, first = spent(connection), connection.execute(sql)
    assert first.notices[0].message.startswith("cost epsilon 0.1;")
    assert mechanism != RANGED or [row[:1] for row in first.fetchall()] == known.fetchall()
    assert spent(connection) == pytest.approx(cost + 0.1)
    assert connection.execute(sql).notices[0].message.startswith("answered from history, free")


def test_narrow_intervals_are_reached_by_more_rows_than_have_laws(opened: Opened) -> None:
    """Rows beyond the laws of a statement get bounds, and have to reach the target by these."""
    connection = opened(**RHO)
    connection.execute(
        "SELECT b, sum(3), sum(a), sum(3) FILTER (WHERE a < 1 OR d IN (0, 2)) FROM t"
        " GROUP BY ROLLUP (b)"
    )
    connection.execute("SET dp.half_width = 5")
    connection.execute("SELECT count(*) FROM t GROUP BY CUBE (b, d, a)")
    connection.execute("SET dp.mechanism = laplace")
    sql = (
        "SELECT b, d, a, sum(3) FILTER (WHERE a <> 0), count(*) FILTER (WHERE a + b + d > 3)"
        " FROM t GROUP BY CUBE (b, d, a)"
    )
    message = connection.execute(sql).notices[0].message
    halves = [float(half) for half in re.findall(r"±([0-9.]*[0-9])", message)]
    assert halves
    assert max(halves) <= 5
    assert connection.execute(sql).notices[0].message.startswith("answered from history, free")


@pytest.mark.parametrize(("table", "first"), [*zip(TABLES, itertools.cycle([True, False]))])
def test_the_rest_is_bought_beside_a_column_without_rows(
    opened: Opened, table: str, first: bool
) -> None:
    """No cell meets b = 17, so one of the two columns has no rows."""
    connection = opened(**TABLES[table])
    connection.execute("SET dp.epsilon = 20")
    branches = ["WHERE b = 17", ""] if first else ["", "WHERE b = 17"]
    sql = " UNION ALL ".join(
        f"SELECT a, count(*) AS n FROM t {one} GROUP BY a HAVING count(*) > 0" for one in branches
    )
    rows = connection.execute(sql).fetchall()
    assert sorted(a for a, _ in rows) == [0, 1, 2]
    assert all(abs(n - 1_000) < 50 for _, n in rows)
    cost = spent(connection)
    assert connection.execute(sql).fetchall() == rows
    assert spent(connection) == cost


class Asking:
    """Random statements and settings."""

    def __init__(self, seed: str, keys: int) -> None:
        self._random = random.Random(seed)
        self._keys = keys

    def condition(self) -> str:
        one = self._random.choice
        return one(
            [
                f"{one('abd')} {one(['=', '<', '<=', '<>'])} {one('0123')}",
                f"{one('abd')} {one(['=', '<', '<='])} {one('abd')}",
                f"a < {one('12')} OR d IN (0, {one('12')})",
                "a + b + d > 3",
            ]
        )

    def aggregate(self) -> str:
        one = self._random.choice
        values = one(["count(*)", "count(*)", f"sum({one('abd')})", "sum(b - d)", "sum(3)"])
        return values + one(["", "", f" FILTER (WHERE {self.condition()})"])

    def statement(self) -> str:
        one = self._random.choice
        keys = ", ".join(self._random.sample("abd", one(range(1, self._keys + 1))))
        group = one(["{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"]).format(keys)
        columns = [
            f"{self.aggregate()} x{n}, dp_interval_low(x{n}), dp_interval_high(x{n})"
            for n in range(one([1, 1, 2, 3]))
        ]
        where = one(["", f" WHERE {self.condition()}"])
        return f"SELECT {keys}, {', '.join(columns)} FROM t{where} GROUP BY {group}"

    def setting(self) -> str:
        one = self._random.choice
        return one(
            [
                f"dp.half_width = {one([2, 5, 10, 20, 25, 60, 150])}",
                f"dp.half_width = {one([2, 5, 10, 20, 25, 60, 150])}",
                f"dp.epsilon = {one(['0.02', '0.05', '0.1', '0.3'])}",
                f"dp.confidence = {one(['0.9', '0.95', '0.99'])}",
                f"dp.coverage = {one(['once', 'always'])}",
                f"dp.mechanism = {one(['auto', 'laplace'])}",
            ]
        )

    def before(self) -> list[str]:
        """Settings and a statement."""
        count = self._random.choice([0, 1, 1, 2])
        return [*(f"SET {self.setting()}" for _ in range(count)), self.statement()]


def repeat(opened: Opened, table: str, seed: str, statements: int, keys: int = 3) -> None:
    """Ask random statements twice each, and the last one again after a restart."""
    asking, settings = Asking(f"{table} {seed}", keys), list[str]()
    connection = opened("kept.sqlite", **TABLES[table])
    for _ in range(statements):
        *chosen, sql = asking.before()
        for setting in chosen:
            connection.execute(setting)
        settings += chosen
        connection.execute(sql)
        cost = spent(connection)
        connection.execute(sql)
        assert spent(connection) == cost, (seed, settings, sql)
    again = opened("kept.sqlite", **TABLES[table])
    for setting in settings:
        again.execute(setting)
    again.execute(sql)
    assert spent(again) == cost, (seed, settings, sql)


@pytest.mark.parametrize("table", TABLES)
def test_any_statement_repeated_is_free(opened: Opened, table: str) -> None:
    repeat(opened, table, "first", 3, keys=2)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(10))
@pytest.mark.parametrize("table", TABLES)
def test_any_statement_repeated_is_free_long(opened: Opened, table: str, trial: int) -> None:
    """Begins elsewhere each day."""
    repeat(opened, table, f"{int(time.time() // 86_400)} {trial}", 6)
