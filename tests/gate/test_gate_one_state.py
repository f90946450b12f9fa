"""What is known of a row depends on the ledger alone: all processes that share it know the same.

Two gates on one ledger stand for two processes. The process that charged has cached estimates; the
other makes them again from the ledger. Sessions of one gate may ask at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.gate import Gate
from tallyveil.knowledge.estimator import Estimator
from tests.gate.asking import ask, spent
from tests.gate.many_sessions import PATIENCE
from tests.pairs import pairs

Open = Callable[..., tallyveil.Connection]

SUMS = "sum(a) AS x, sum(b) AS y"
ENDS = (
    "dp_interval_low(x), dp_interval_high(x), dp_interval_low(y), dp_interval_high(y),"
    " dp_stddev(x), dp_stddev(y) FROM person"
)
# More than 64 laws of errors each: intervals after these come from bounds.
MANY_LAWS = {
    "cube": f"SELECT a, d, b, {SUMS}, {ENDS} GROUP BY CUBE (a, d, b)",
    "other order": f"SELECT d, b, a, {SUMS}, {ENDS} GROUP BY CUBE (d, b, a)",
    "part": f"SELECT a, d, b, {SUMS}, {ENDS} WHERE d <> 1 GROUP BY CUBE (a, d, b)",
    "count": "SELECT a, d, b, sum(a + b) AS n, count(*), dp_interval_low(n), dp_interval_high(n),"
    " dp_interval_low(count(*)), dp_interval_high(count(*)) FROM person GROUP BY CUBE (a, d, b)",
    "few": f"SELECT a, b, {SUMS}, {ENDS} GROUP BY CUBE (a, b)",
    "after others": "SELECT b, count(*) FILTER (WHERE d <> b OR (a < 2 AND d > 0)) FROM person"
    " WHERE d <> 0 GROUP BY b; SELECT d, a, count(*), sum(2 * a) FROM person WHERE b > 1 GROUP BY"
    " d, a; SELECT b, a, d, count(*) AS n, sum(b) FILTER (WHERE b IN (0, 3)) AS m,"
    " dp_interval_low(n), dp_interval_high(n), dp_interval_low(m), dp_interval_high(m) FROM person"
    " GROUP BY CUBE (b, a, d)",
}

RELATIONS = ["add_remove", "replace"]


def in_turn(statements: dict[str, Any], first: int = 0, slow: Sequence[str] = ()) -> list[Any]:
    """Each of them with one of the relations, so that both meet."""
    return [
        pytest.param(
            RELATIONS[(first + n) % 2],
            sql,
            id=name,
            marks=[pytest.mark.slow] if name in slow else [],
        )
        for n, (name, sql) in enumerate(statements.items())
    ]


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Each connection has a gate of its own, or ``beside`` the last one its gate; on one ledger."""
    source = duckdb.connect()
    source.execute(
        "CREATE TABLE people AS SELECT i % 3 AS a, i % 7 % 4 AS b, i % 11 % 3 AS d"
        " FROM range(3000) t(i)"
    )
    table = {
        "from": "people",
        "budget": {"epsilon": 1000.0},
        "neighbours": request.param,
        "attributes": {name: {"range": [0, last]} for name, last in (("a", 2), ("b", 3), ("d", 2))},
    }
    keys = {"tables": {"person": table}, "defaults": {"epsilon": 0.1}}
    policy = tallyveil.parse_policy(keys, base=tmp_path)
    gates: list[Gate] = []
    held: list[tallyveil.Connection] = []

    def make(*, beside: bool = False) -> tallyveil.Connection:
        if not beside:
            gates.append(Gate(policy, source, time_limit=PATIENCE))
        held.append(tallyveil.Connection(gates[-1]))
        return held[-1]

    yield make
    for one in held:
        one.close()
    source.close()


def rows(connection: tallyveil.Connection, sql: str) -> list[tuple[Any, ...]]:
    """Those of the last statement, in one order. Standard deviations are computed in two ways, and
    rounded differently."""
    *before, sql = sql.split(";")
    for other in before:
        ask(connection, other)
    found = ask(connection, sql)
    known = [
        tuple(float(f"{one:.9g}") if isinstance(one, float) else one for one in row)
        for row in found
    ]
    return sorted(known, key=str)


@pytest.mark.parametrize(
    ("opened", "sql"),
    in_turn(MANY_LAWS, slow=("other order", "count", "part", "after others")),
    indirect=["opened"],
)
def test_the_process_that_charged_knows_what_any_other_knows(opened: Open, sql: str) -> None:
    buyer = opened()
    bought = rows(buyer, sql)
    charged = spent(buyer)
    assert rows(opened(), sql) == bought
    assert rows(buyer, sql) == bought
    assert spent(buyer) == charged


@pytest.mark.parametrize(
    ("opened", "sql"),
    in_turn(MANY_LAWS, 1, slow=("other order", "count", "cube")),
    indirect=["opened"],
)
def test_what_one_process_finds_out_is_known_to_the_one_that_charged(
    opened: Open, sql: str
) -> None:
    """A statement of one row has few laws, so its interval is narrower than the bound reported."""
    buyer = opened()
    rows(buyer, sql)
    one = f"SELECT {SUMS}, {ENDS} WHERE b = 3 AND d = 1"
    found = rows(opened(), one)
    charged = spent(buyer)
    again = rows(buyer, sql)
    assert rows(buyer, one) == found
    assert rows(opened(), sql) == again
    assert spent(buyer) == charged


CELLS = "SELECT a, b, d, count(*) FROM person GROUP BY a, b, d"
LIMITS = "dp_interval_low(n), dp_interval_high(n)"
# What is known of these rows combines their own answers with those of the cells.
COMBINED = {
    "one row": f"SELECT count(*) AS n, {LIMITS} FROM person WHERE b + d < 3",
    "groups": f"SELECT a, count(*) AS n, {LIMITS} FROM person WHERE b + d < 3 GROUP BY a",
    "sums": f"SELECT a, sum(b) AS n, {LIMITS} FROM person WHERE d < 2 GROUP BY ROLLUP (a)",
}


@pytest.mark.parametrize(
    ("opened", "name", "looked"),
    pairs(RELATIONS, COMBINED, ["before", "after"]),
    indirect=["opened"],
)
def test_a_purchase_during_a_look_is_seen_as_a_whole_or_not_at_all(
    opened: Open, monkeypatch: pytest.MonkeyPatch, name: str, looked: str
) -> None:
    """Another session buys the same rows while this one makes estimates of them. Its answer must
    not be found without its combination with others."""
    connection, sql = opened(), COMBINED[name]
    ask(connection, CELLS)
    others = [opened(beside=True)]
    bought: list[list[tuple[Any, ...]]] = []
    at = Estimator.at

    def interrupted(*parameters: Any) -> Any:
        found = at(*parameters) if looked == "after" else None
        if others:
            bought.append(rows(others.pop(), sql))
        return found or at(*parameters)

    monkeypatch.setattr(Estimator, "at", interrupted)
    found = rows(connection, sql)
    assert bought == [found]
    charged = spent(connection)
    assert rows(connection, sql) == found
    assert rows(opened(), sql) == found
    assert spent(connection) == charged


# What others buy meanwhile: the same rows, or one row that tells about the others.
BOUGHT = {name: (sql, sql) for name, sql in COMBINED.items()} | {
    "one of two": (
        "SELECT count(*) FILTER (WHERE b + d < 3) AS n, count(*) FILTER (WHERE b + d < 4) AS m,"
        f" {LIMITS}, dp_interval_low(m), dp_interval_high(m) FROM person",
        "SELECT count(*) FROM person WHERE b + d < 3",
    ),
    "one of three": (COMBINED["groups"], "SELECT count(*) FROM person WHERE b + d < 3 AND a = 1"),
    "a sum of all": (COMBINED["groups"], COMBINED["one row"]),
}


@pytest.mark.parametrize(("opened", "statements"), in_turn(BOUGHT), indirect=["opened"])
def test_what_history_tells_during_a_purchase_is_of_one_moment(
    opened: Open, monkeypatch: pytest.MonkeyPatch, statements: tuple[str, str]
) -> None:
    """It is what was known before, or what is known after."""
    connection, (sql, bought) = opened(), statements
    ask(connection, CELLS)
    known = opened(beside=True)
    known.execute("SET dp.source = history")
    before, others, at = rows(known, sql), [connection], Estimator.at

    def interrupted(*parameters: Any) -> Any:
        found = at(*parameters)
        if others:
            other = others.pop()
            assert rows(other, bought) == rows(other, bought)
        return found

    monkeypatch.setattr(Estimator, "at", interrupted)
    meanwhile = rows(known, sql)
    after = rows(known, sql)
    assert after != before
    assert meanwhile in (before, after)


# What is known of these rows combines their own answers with those of the cells.
CLOSELY = {
    "one row": "SELECT count(*) FROM person WHERE b + d < 3",
    "groups": "SELECT a, count(*) FROM person WHERE b + d < 2 GROUP BY a",
    "sums": "SELECT a, sum(b) FROM person WHERE d < 2 GROUP BY a",
}


@pytest.mark.parametrize(
    ("opened", "name", "other"),
    pairs(RELATIONS, CLOSELY, ["process", "thread"]),
    indirect=["opened"],
)
def test_an_interval_bought_with_the_help_of_history_is_bought_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch, name: str, other: str
) -> None:
    """The buyer has received its answers, and not reported yet what follows from them and history.
    A statement about so much history finds less by itself, and waits for that report."""
    monkeypatch.setattr("tallyveil.knowledge.estimator._WORK", 60)
    one, sql = opened(), CLOSELY[name]
    ask(one, CELLS)
    ask(one, "SELECT b, d, count(*) FROM person GROUP BY b, d")
    two = opened(beside=other == "thread")
    for each in (one, two):
        each.execute("SET dp.half_width = 40")
    answered, waited_for = threading.Event(), threading.Event()
    knowledge = one._gate.decision.knowledge["person"]
    after = knowledge.after

    def reports(*arguments: Any, **keywords: Any) -> Any:
        if not answered.is_set():
            answered.set()
            waited_for.wait(PATIENCE)
        return after(*arguments, **keywords)

    def pause() -> None:
        waited_for.set()
        first.join(0.01)

    take = two._gate.decision.reservations._take

    def taken(*arguments: Any) -> Any:
        other = take(*arguments)
        if other is not None:
            waited_for.set()
        return other

    monkeypatch.setattr(knowledge, "after", reports)
    monkeypatch.setattr(two._gate.decision.others, "_pause", pause)
    monkeypatch.setattr(two._gate.decision.reservations, "_take", taken)
    first = threading.Thread(target=rows, args=(one, sql))
    first.start()
    assert answered.wait(PATIENCE)
    charged = spent(one)
    rows(two, sql)
    waited_for.set()
    first.join(PATIENCE)
    assert spent(one) == charged
