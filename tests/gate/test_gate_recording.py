"""What the ledger records has a least price and a bound, in the policy's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyveil.errors import InvalidParameterValue, PolicyError, RecordingLimitExceeded
from tallyveil.gate import Gate
from tallyveil.policy import parse_policy
from tallyveil.policy.limits import Limits

Open = Callable[..., Gate]


@pytest.fixture
def opened(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> Iterator[Open]:
    """Gates on one ledger, over made-up people."""
    source = database.execute(
        "CREATE TABLE people AS SELECT i % 100 AS age, i % 7 AS day FROM range(999) t(i)"
    )
    gates = []

    def run(budget: Any = None, analysts: Any = None, **table: Any) -> Gate:
        declared = {
            "from": "people",
            "budget": budget or {"epsilon": 3.0},
            "attributes": {"age": {"range": [0, 99]}, "day": {"range": [0, 6]}},
        }
        keys: dict[str, Any] = {"tables": {"person": declared | table}}
        if analysts:
            keys["analysts"] = analysts
        gates.append(Gate(parse_policy(keys, base=tmp_path), source))
        return gates[-1]

    yield run
    for gate in gates:
        gate.close()


def ask(gate: Gate, sql: str, user: str = "alice", **settings: Any) -> Any:
    with closing(gate.session(user)) as session:
        for name, value in settings.items():
            session.query(f"SET dp.{name} = '{value}'")
        return session.query(sql)


def charges(gate: Gate) -> int:
    return len(gate.accountant.history())


@pytest.mark.parametrize(
    ("budget", "setting", "least"),
    [
        ({"epsilon": 3.0}, "epsilon", "3e-06"),
        ({"rho": 0.5, "delta": 1e-9}, "rho", "5e-07"),
        ({"epsilon": 7}, "epsilon", "7e-06"),
        ({"epsilon": 1e6}, "epsilon", "0.0001"),
    ],
)
def test_no_statement_is_recorded_at_next_to_no_cost(
    opened: Open, budget: Any, setting: str, least: str
) -> None:
    gate = opened(budget)
    query = "SELECT age, day, count(*) FROM person GROUP BY age, day"
    for sql in (query, f"EXPLAIN {query}"):
        with pytest.raises(InvalidParameterValue, match=f"{setting} {least}") as refused:
            ask(gate, sql, **{setting: 1e-9, "source": "fresh"})
        assert f"SET dp.{setting} = {least}" in (refused.value.hint or "")
        assert "limits.least_cost" in (refused.value.hint or "")
    assert charges(gate) == 0
    ask(gate, query, **{setting: least, "source": "fresh"})
    assert charges(gate) == 1


@pytest.mark.parametrize("budget", [{"epsilon": 3.0}, {"rho": 0.5, "delta": 1e-9}])
def test_a_target_that_costs_less_than_the_least_is_bought_at_the_least(
    opened: Open, budget: Any
) -> None:
    gate = opened(budget)
    (least,) = {3.0: [3e-6], 0.5: [5e-7]}[next(iter(budget.values()))]
    _, result = ask(gate, "SELECT age, count(*) FROM person GROUP BY age", half_width=1e9)
    spent = gate.accountant.balance("person").spent
    assert least <= float(spent) < 1.001 * least
    (notice,) = result.notices
    assert "the least a statement costs, for more precision than dp.half_width asks" in (
        notice.message
    )
    ask(gate, "SELECT count(*) FROM person", half_width=1e9)
    assert gate.accountant.balance("person").spent == spent


def test_a_cheap_top_up_is_bought_at_the_least_cost_and_no_wider_than_asked(opened: Open) -> None:
    gate = opened(limits={"least_cost": 0.03})
    query = "SELECT count(*) FROM person"
    ask(gate, query, half_width=20)
    before = float(gate.accountant.balance("person").spent)
    interval = "SELECT dp_interval_high(count(*)) - dp_interval_low(count(*)) FROM person"
    table, result = ask(gate, interval, half_width=19.5)
    assert table.column(0)[0].as_py() <= 39
    spent = float(gate.accountant.balance("person").spent) - before
    assert spent == pytest.approx(0.09, rel=1e-6)
    assert spent > 0.09 - 1e-12
    assert "the least a statement costs" in result.notices[0].message
    # What costs more than the least is bought as it is asked.
    _, result = ask(gate, query, half_width=5)
    assert "least" not in result.notices[0].message


def test_a_policy_may_allow_tiny_costs(opened: Open) -> None:
    gate = opened(limits={"least_cost": 0})
    ask(gate, "SELECT count(*) FROM person", epsilon=1e-9)
    assert charges(gate) == 1


def test_a_policy_may_ask_for_more(opened: Open) -> None:
    gate = opened(limits={"least_cost": 0.01})
    with pytest.raises(InvalidParameterValue, match=r"the least .* is epsilon 0\.03"):
        ask(gate, "SELECT count(*) FROM person", epsilon=0.02)
    ask(gate, "SELECT count(*) FROM person", epsilon=0.03)


def test_what_costs_nothing_has_no_least_cost(opened: Open) -> None:
    gate = opened(neighbours="replace", attributes={"age": {"range": [0, 99], "other": True}})
    assert ask(gate, "SELECT count(*) FROM person", epsilon=1e-9)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"rows": 150}, 'room for 50 more of table "person"'),
        ({"analyst_rows": 150}, 'room for 50 more of analyst "alice" about table "person"'),
    ],
)
def test_rows_are_recorded_up_to_a_limit(opened: Open, limits: Any, words: str) -> None:
    gate = opened(limits=limits)
    query = "SELECT age, count(*) FROM person WHERE day = {} GROUP BY age"
    ask(gate, query.format(0))
    remaining = gate.accountant.balance("person")
    for sql in (query.format(1), f"EXPLAIN {query.format(1)}"):
        with pytest.raises(RecordingLimitExceeded) as refused:
            ask(gate, sql)
        assert refused.value.sqlstate == "53400"
        assert "100 rows" in refused.value.message
        assert words in refused.value.message
        assert f"limits.{next(iter(limits))}" in (refused.value.hint or "")
    assert gate.accountant.balance("person") == remaining
    assert charges(gate) == 1
    # History stays free, and what is left may be used.
    ask(gate, query.format(0))
    ask(gate, "SELECT count(*) FROM person WHERE day = 1 AND age < 20")
    assert charges(gate) == 2


def test_the_limits_of_analysts_are_their_own(opened: Open) -> None:
    gate = opened(limits={"analyst_rows": 100})
    query = "SELECT age, count(*) FROM person WHERE day = {} GROUP BY age"
    ask(gate, query.format(0))
    ask(gate, query.format(1), user="bob")
    for user in ("alice", "bob"):
        with pytest.raises(RecordingLimitExceeded, match=f'analyst "{user}"'):
            ask(gate, query.format(2), user=user)


def test_bytes_are_recorded_up_to_a_limit(opened: Open) -> None:
    gate = opened(limits={"megabytes": 1, "least_cost": 0})
    long = "x" * 190_000
    for n in range(5):
        ask(
            gate,
            f"SELECT count(*) FROM person WHERE age < {n + 1} AND '{long}' <> ''",
            epsilon=1e-6,
        )
    with pytest.raises(RecordingLimitExceeded, match="bytes") as refused:
        ask(gate, f"SELECT count(*) FROM person WHERE age < 50 AND '{long}' <> ''", epsilon=1e-6)
    assert "limits.megabytes" in (refused.value.hint or "")
    ask(gate, "SELECT count(*) FROM person WHERE age < 50", epsilon=1e-6)


def test_limits_count_what_is_in_the_ledger(opened: Open) -> None:
    gate = opened()
    ask(gate, "SELECT age, count(*) FROM person GROUP BY age")
    rooms = [gate.accountant.room("person", name) for name in (None, "alice", "bob")]
    assert [room.held.rows for room in rooms] == [100, 100, 0]
    assert rooms[0].held == rooms[1].held
    again = opened(limits={"rows": 100})
    other = again.accountant.room("person", "alice")
    assert (other.held, other.left.rows) == (rooms[1].held, 0)
    with pytest.raises(RecordingLimitExceeded):
        ask(again, "SELECT count(*) FROM person WHERE age < 3", source="fresh")
    again = opened(limits={"rows": 101})
    ask(again, "SELECT count(*) FROM person WHERE age < 3", source="fresh")


def test_dp_budget_says_how_much_is_left_to_record(opened: Open) -> None:
    gate = opened(analysts={"alice": {"budget": {"epsilon": 1}}, "bob": {"budget": {"epsilon": 1}}})
    ask(gate, "SELECT age, count(*) FROM person GROUP BY age")
    query = "SELECT analyst, rows_left, bytes_left FROM dp.budget ORDER BY analyst NULLS FIRST"
    for user, rows in (("alice", 100), ("bob", 0)):
        left = 2_000_000 - rows
        table, _ = ask(gate, query, user=user)
        found = [tuple(row.values()) for row in table.to_pylist()]
        assert [row[:2] for row in found] == [(None, left), (user, left)]
        assert 250_000_000 < found[0][2] <= 256_000_000


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("least_cost", -1, "a share of the budget"),
        ("least_cost", 0.5, "a share of the budget"),
        ("least_cost", "1e-6", "a share of the budget"),
        ("rows", 0, "a whole number of rows"),
        ("rows", 1.5, "a whole number of rows"),
        ("analyst_rows", True, "a whole number of rows"),
        ("megabytes", 10**7, "a whole number of megabytes"),
        ("analyst_megabytes", None, "a whole number of megabytes"),
    ],
)
def test_a_wrong_limit_is_named(opened: Open, key: str, value: Any, expected: str) -> None:
    with pytest.raises(PolicyError, match=rf"tables\.person\.limits\.{key} = .*{expected}"):
        opened(limits={key: value})


def test_an_unknown_limit_is_named(opened: Open) -> None:
    with pytest.raises(PolicyError, match=r"limits\.row: unknown key; did you mean rows"):
        opened(limits={"row": 5})


def test_limits_are_sensible_if_nothing_is_said(opened: Open) -> None:
    assert opened().policy.tables["person"].limits == Limits()
    assert Limits().least(Fraction(3)) == Fraction(3, 10**6)
    for wrong in ({"rows": 0}, {"least_cost": Fraction(2)}, {"least_cost": Fraction(-1)}):
        with pytest.raises(ValueError, match=r"rows|budget"):
            Limits(**wrong)
