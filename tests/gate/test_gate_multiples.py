"""Multiples of a row that one statement asks: charged once, and reported in proportion.

The price and the precision of a statement with multiples are those of the statement that asks each
row once, at the precision that the most demanding multiple needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

import tallyveil
from tallyveil.gate import Gate
from tests.gate.asking import ask, spent
from tests.gate.many_sessions import PATIENCE
from tests.pairs import alternately, one_in, pairs

JOINTLY, GROUPS = 90, 110  # rows that are estimated jointly, and a few more
BUDGETS: dict[str, Any] = {
    "epsilon": {"epsilon": 1000.0},
    "rho": {"rho": 1000.0, "delta": 1e-6},
}

Connect = Callable[..., tallyveil.Connection]


@pytest.fixture
def opened(
    database: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connect]:
    """Each connection has a ledger of its own, unless it is named."""
    monkeypatch.setattr("tallyveil.knowledge.estimator._ROWS", JOINTLY)
    source = database.execute(
        "CREATE TABLE people AS SELECT i % 3 AS a, i % 7 % 4 AS b, i % 11 % 3 AS d,"
        f" i % {GROUPS} AS g FROM range(3000) t(i)"
    )
    held: list[tallyveil.Connection] = []
    numbers = itertools.count()

    def make(measure: str = "epsilon", ledger: str | None = None, **table: Any) -> Any:
        keys = {"a": 2, "b": 3, "d": 2, "g": GROUPS - 1}
        attributes = {name: {"range": [0, last]} for name, last in keys.items()}
        own = {"from": "people", "budget": BUDGETS[measure], "attributes": attributes} | table
        policy = {
            "ledger": ledger or f"{next(numbers)}.sqlite",
            "tables": {"person": own},
            "defaults": {measure: 0.1},
        }
        gate = Gate(tallyveil.parse_policy(policy, base=tmp_path), source, time_limit=PATIENCE)
        held.append(tallyveil.Connection(gate))
        return held[-1]

    yield make
    for one in held:
        one.close()


class Asked(NamedTuple):
    """A statement, one that asks each of its rows once, and by group each aggregate's multiple of
    the first one."""

    sql: str
    once: str
    times: list[Callable[[int], Any]]


def asked(items: str, once: str, *times: Any, rest: str = "", keys: str = "0") -> Asked:
    names = items.split("; ")
    shown = ", ".join(
        f"{item} AS n{k}, dp_interval_low(n{k}), dp_interval_high(n{k})"
        for k, item in enumerate(names)
    )
    each = [(one if callable(one) else lambda _, own=one: own) for one in (1, *times)]
    return Asked(
        f"SELECT {keys}, {shown} FROM person{rest}",
        f"SELECT {keys}, {once} AS n, dp_interval_low(n), dp_interval_high(n) FROM person{rest}",
        each,
    )


STATEMENTS = [
    asked("count(*); sum(2)", "count(*)", 2),
    asked("sum(2); count(*)", "count(*)", Fraction(1, 2)),
    asked("sum(2); sum(3)", "count(*)", Fraction(3, 2)),
    asked("count(*); sum(-1)", "count(*)", -1),
    asked("count(*); sum(0.25); sum(-5)", "count(*)", Fraction(1, 4), -5),
    asked(
        "count(*) FILTER (WHERE a = 1); sum(CASE WHEN a = 1 THEN 3 END)",
        "count(*) FILTER (WHERE a = 1)",
        3,
    ),
    asked("count(*); sum(a)", "count(*)", lambda a: a, rest=" GROUP BY a", keys="a"),
    asked("sum(d); sum(-7 * d)", "sum(d)", -7, rest=" GROUP BY a, b", keys="a"),
    asked("sum(b - 1.5); sum(3 - 2 * b)", "sum(b - 1.5)", -2),
    asked("count(*); sum(2)", "count(*)", 2, rest=" GROUP BY ROLLUP (a)", keys="a"),
    asked("count(*); sum(g)", "count(*)", lambda g: g, rest=" GROUP BY g", keys="g"),
    asked("sum(2); sum(3)", "count(*)", Fraction(3, 2), rest=" GROUP BY g", keys="g"),
]
IDS = [one.sql.split(" AS n")[0] + " …" + str(n) for n, one in enumerate(STATEMENTS)]


def check(one: Asked, rows: list[tuple[Any, ...]], exact: bool = True) -> None:
    """The values are in proportion, and so are the intervals up to the rounding of their ends."""
    for key, *row in rows:
        parts = [tuple(map(Fraction, row[n : n + 3])) for n in range(0, len(row), 3)]
        value, low, high = parts[0]
        for (other, below, above), times in zip(parts, one.times, strict=True):
            factor = Fraction(times(key)) if key is not None else Fraction(times(0))
            assert other == value * factor
            room = 2 * (1 + abs(factor))
            assert abs((above - below) - abs(factor) * (high - low)) <= room


@pytest.mark.parametrize(
    ("number", "source", "measure"),
    [
        *pairs(range(len(STATEMENTS) - 2), ["auto", "fresh"], BUDGETS),
        (len(STATEMENTS) - 2, "auto", "epsilon"),
        (len(STATEMENTS) - 1, "fresh", "rho"),
    ],
)
def test_a_row_is_charged_once_for_a_cost(
    opened: Connect, number: int, source: str, measure: str
) -> None:
    one = STATEMENTS[number]
    connection, other = opened(measure), opened(measure)
    rows = ask(connection, one.sql, source=source, strategy="direct")
    alone = ask(other, one.once, source=source, strategy="direct")
    assert spent(connection) == pytest.approx(spent(other), rel=1e-9)
    check(one, rows)
    factor = 2 if "sum(2) AS n0" in one.sql else 1
    for (_, _, low, high, *_), (_, _, least, most) in zip(rows, alone, strict=True):
        assert abs((high - low) - factor * (most - least)) <= 2 * factor


@pytest.mark.parametrize("number", one_in(2, range(len(STATEMENTS) - 1)))
def test_it_is_free_when_it_is_asked_again(opened: Connect, number: int) -> None:
    one = STATEMENTS[number]
    connection = opened(ledger="again.sqlite")
    ask(connection, one.sql)
    before, again = spent(connection), opened(ledger="again.sqlite")
    check(one, ask(again, one.sql))
    check(one, ask(again, one.sql, source="history"))
    assert spent(again) == before


TARGETS = [
    # the statement, and one that asks each row once, as precisely as the target needs
    ("count(*), sum(2)", "sum(2)", ""),
    ("sum(2), count(*)", "sum(2)", ""),
    ("count(*), sum(2), sum(3)", "sum(3)", ""),
    ("count(*), sum(0.5)", "count(*)", ""),
    ("count(*) FILTER (WHERE a = 1), sum(CASE WHEN a = 1 THEN 3 END)", "sum(3)", " WHERE a = 1"),
    ("count(*), sum(a)", "sum(CASE WHEN a = 0 THEN 1 ELSE a END)", " GROUP BY a"),
    ("sum(-b), sum(4 * b)", "sum(4 * b)", " GROUP BY d"),
]


@pytest.mark.parametrize(
    ("case", "measure", "neighbours"),
    one_in(2, pairs(TARGETS, BUDGETS, ["add_remove", "replace"])),
)
def test_a_row_is_charged_once_for_a_half_width(
    opened: Connect, case: tuple[str, str, str], measure: str, neighbours: str
) -> None:
    items, once, rest = case
    kind = {"neighbours": neighbours}
    connection, other = opened(measure, **kind), opened(measure, **kind)
    whole = rest if "GROUP" in rest or "a = 1 THEN" not in items else ""
    ask(connection, f"SELECT {items} FROM person{whole}", half_width=30)
    ask(other, f"SELECT {once} FROM person{rest}", half_width=30)
    assert spent(connection) == pytest.approx(spent(other), rel=1e-6)


def test_rows_that_aggregates_share_are_charged_once(opened: Connect) -> None:
    """The row of a = 1 is in both columns, the others in one each."""
    connection, other = opened(), opened()
    items = "count(*) FILTER (WHERE a < 2), count(*) FILTER (WHERE a > 0)"
    ask(connection, f"SELECT a, {items} FROM person GROUP BY a", half_width=30)
    ask(other, "SELECT a, count(*) FROM person GROUP BY a", half_width=30)
    assert spent(connection) == spent(other)


@pytest.mark.parametrize(("number", "coverage"), [*enumerate(["once", "always", "once"] * 3)])
def test_a_fresh_purchase_is_one_purchase(opened: Connect, number: int, coverage: str) -> None:
    """Each asking is charged once, and its answers come from that purchase alone."""
    one = STATEMENTS[number]
    connection = opened()
    first = ask(connection, one.sql, source="fresh", coverage=coverage)
    cost = spent(connection)
    second = ask(connection, one.sql, source="fresh", coverage=coverage)
    assert spent(connection) == pytest.approx(2 * cost)
    if coverage == "once":
        check(one, first)
        check(one, second)


def test_all_multiples_have_the_narrowest_interval_of_more_rows_than_have_laws(
    opened: Connect,
) -> None:
    """Earlier answers are combined: of the cube's rows 64 get an interval by their law, others a
    bound."""
    connection = opened()
    sets = "GROUPING SETS ((b, d, a), (d, a))"
    earlier = f"SELECT sum(CASE WHEN a <> 0 THEN 3 ELSE d END) FROM person GROUP BY {sets}"
    ask(connection, earlier, epsilon=0.0363)
    four = "SELECT sum(4) FROM person WHERE d <= b GROUP BY CUBE (a, b)"
    ask(connection, four, source="fresh", half_width=195)
    ask(connection, "SELECT count(*) FROM person WHERE a <> 2", source="auto", epsilon=0.05345)
    sql = (
        "SELECT b, sum(0.1 * b) AS x, dp_interval_low(x), dp_interval_high(x), sum(0.1 * b)"
        " FILTER (WHERE b <= 0), count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
        " WHERE d <> 2 OR b = 2 GROUP BY CUBE (d, b, a)"
    )
    compared = 0
    for b, x, low, high, _, n, least, most in ask(connection, sql, source="history"):
        if b and n is not None:
            compared += 1
            assert x == Fraction(b, 10) * n
            assert float(high - low) * 10 / b == pytest.approx(float(most - least), abs=22)
    assert compared > 30


@pytest.mark.parametrize(
    ("setting", "statements"),
    [(("epsilon", 0.1), STATEMENTS[::2]), (("half_width", 30), STATEMENTS[1::2])],
    ids=["cost", "half-width"],
)
def test_what_is_forecast_is_charged(
    opened: Connect, setting: tuple[str, object], statements: list[Asked]
) -> None:
    connection = opened()
    for one in statements:
        connection.execute(f"SET dp.{setting[0]} = {setting[1]}")
        lines = connection.explain(one.sql).splitlines()
        before = spent(connection)
        ask(connection, one.sql)
        charged = spent(connection) - before
        [cost] = [line for line in lines if line.startswith("Cost: ")]
        forecast = 0.0 if cost == "Cost: nothing" else float(cost.split()[2])
        assert charged <= forecast + 1e-9  # other records may have been charged more before


@pytest.mark.parametrize(
    ("one", "mechanism"),
    alternately(
        [STATEMENTS[0], STATEMENTS[6]],
        ["auto", "laplace", "imaged", "projected", "conditioned"],
    ),
)
def test_with_exact_counts(opened: Connect, one: Asked, mechanism: str) -> None:
    table: dict[str, Any] = {
        "neighbours": "replace",
        "invariants": [{"sql": "SELECT d, count(*) FROM person GROUP BY d"}],
    }
    connection, other = opened(**table), opened(**table)
    rest = " WHERE b = 1 GROUP BY a" if "GROUP" in one.sql else " WHERE b = 1"
    sql, once = (s.replace(" GROUP BY a", "") + rest for s in (one.sql, one.once))
    rows = ask(connection, sql, mechanism=mechanism)
    ask(other, once, mechanism=mechanism)
    assert spent(connection) == pytest.approx(spent(other))
    check(one, rows)
