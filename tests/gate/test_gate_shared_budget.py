"""The one budget of tables that share a unit: charged, refused, shown, shared out and kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.cli.spending import budget as shown_budget
from tallyveil.errors import BudgetExceeded, LedgerMismatch
from tallyveil.gate import Gate
from tests.gate.asking import ask
from tests.gate.shared_units import Unit, tables

VISITS, PERSONS = "SELECT count(*) FROM visit", "SELECT count(*) FROM person"
JOINED = "SELECT p.sex, count(*) AS n FROM visit v JOIN person p USING (pid) GROUP BY p.sex"


def unit(most: int) -> dict[str, Any]:
    return {"privacy_unit": {"column": "pid", "max_rows": most}}


PERSON = unit(1) | {"budget": {"epsilon": 1}, "attributes": {"sex": {"values": ["F", "M"]}}}
VISIT = unit(2) | {"keys": {"pid": "person.pid"}, "attributes": {"day": {"range": [1, 3]}}}
BOTH = {"visit": VISIT, "person": PERSON}


@pytest.fixture
def source(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    tables(database, [Unit((("F", 1),), (("a", 1), ("b", 2)))] * 50)
    return database


@contextmanager
def opened(
    source: duckdb.DuckDBPyConnection, base: Path, declared: Any, user: str = "", **keys: Any
) -> Iterator[tallyveil.Connection]:
    policy = tallyveil.parse_policy({"tables": declared} | keys, base=base)
    with tallyveil.Connection(Gate(policy, source), user) as connection:
        yield connection


def spent(connection: tallyveil.Connection) -> list[float]:
    return [float(row["spent"]) for row in connection.budget()]


def test_what_one_table_spends_the_others_lack(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    with opened(source, tmp_path, BOTH) as connection:
        ask(connection, VISITS, epsilon=0.5)
        ask(connection, JOINED, epsilon=0.25)
        assert spent(connection) == [0.75, 0.75]
        ask(connection, PERSONS, epsilon=0.125)
        assert spent(connection) == [0.875, 0.875]
        for sql in (VISITS, PERSONS, JOINED):
            with pytest.raises(BudgetExceeded) as refused:
                ask(connection, sql, epsilon=0.25, source="fresh")
            message = refused.value.message
            assert message.startswith('the budget of tables "visit" and "person" does not allow')
            assert "0.125 remains" in message
        assert connection.explain(PERSONS).endswith(
            "Cost: epsilon 0.25 of visit and person's budget; 0.125 remains: it would be refused"
        )
        ask(connection, "SELECT count(*) FROM person WHERE sex = 'F'", epsilon=0.125)
        assert connection.notices[0].message.endswith("0 of 1 remains for visit and person")
    with opened(source, tmp_path, BOTH) as again:
        assert spent(again) == [1, 1]
        ask(again, JOINED, source="history")
        with pytest.raises(BudgetExceeded):
            ask(again, VISITS, epsilon=0.01, source="fresh")
        guarantee = [row["guarantee"] for row in again.budget()]
    assert set(guarantee) == {
        "for any two versions of visit and person that differ in the presence of one pid, the"
        " probability of any answers differs by a factor of at most exp(1)"
    }


def test_a_statement_over_both_is_charged_for_both_or_not_at_all(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    both = f"SELECT ({VISITS}) AS v, ({PERSONS}) AS p"
    with opened(source, tmp_path, BOTH) as connection:
        ask(connection, both, epsilon=0.25)
        assert spent(connection) == [0.5, 0.5]
        assert "cost epsilon 0.5;" in connection.notices[0].message
        with pytest.raises(BudgetExceeded, match=r"costs epsilon 0\.75, and 0\.5 remains"):
            ask(connection, both, epsilon=0.375, source="fresh")
        assert spent(connection) == [0.5, 0.5]


def test_shares_are_of_the_one_budget(source: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    shares = {"analysts": {"ann": {"budget": {"epsilon": 0.5}}, "bob": {"budget": {"epsilon": 1}}}}
    with opened(source, tmp_path, BOTH, "ann", **shares) as connection:
        ask(connection, VISITS, epsilon=0.25)
        with pytest.raises(BudgetExceeded, match='analyst "ann" in the budget of tables "visit"'):
            ask(connection, PERSONS, epsilon=0.375)
        ask(connection, PERSONS, epsilon=0.25)
        assert [row["spent"] for row in connection.budget() if row["analyst"]] == [0.5, 0.5]
    with (
        opened(source, tmp_path, BOTH, "bob", **shares) as connection,
        pytest.raises(BudgetExceeded, match='the budget of tables "visit" and "person"'),
    ):
        ask(connection, PERSONS, epsilon=0.75, source="fresh")


def test_a_table_that_was_charged_to_the_budget_cannot_be_dropped_from_the_policy(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    with opened(source, tmp_path, BOTH) as connection:
        ask(connection, VISITS, epsilon=1)
    with (
        pytest.raises(LedgerMismatch, match='charges of table "visit" to the budget of "person"'),
        opened(source, tmp_path, {"person": PERSON}),
    ):
        pass
    alone = {name: {**BOTH[name], "budget": {"epsilon": 1}} for name in BOTH}
    alone["visit"].pop("keys")
    with (
        pytest.raises(LedgerMismatch, match='another declaration of table "visit"'),
        opened(source, tmp_path, alone),
    ):
        pass


def test_a_process_that_does_not_know_a_table_stops_when_its_budget_is_charged_for_it(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    with opened(source, tmp_path, {"person": PERSON}) as old:
        ask(old, PERSONS, epsilon=0.25)
        with opened(source, tmp_path, BOTH) as new:
            assert spent(new) == [0.25, 0.25]
            ask(old, PERSONS, epsilon=0.25, source="fresh")
            assert spent(new) == [0.5, 0.5]
            ask(new, VISITS, epsilon=0.5)
            assert spent(new) == [1, 1]
        for _ in range(2):
            with pytest.raises(BudgetExceeded, match="and 0 remains"):
                ask(old, PERSONS, epsilon=0.25, source="fresh")
        assert [row["remaining"] for row in old.budget()] == [0]


def test_two_processes_cannot_spend_it_twice(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    with opened(source, tmp_path, BOTH) as first, opened(source, tmp_path, BOTH) as second:
        ask(first, VISITS, epsilon=0.75)
        with pytest.raises(BudgetExceeded):
            ask(second, PERSONS, epsilon=0.5)
        ask(second, PERSONS, epsilon=0.25)
        assert spent(first) == spent(second) == [1, 1]


@pytest.mark.parametrize("charged", [[VISITS], [PERSONS], [VISITS, PERSONS]])
def test_the_shell_shows_the_one_budget(
    source: duckdb.DuckDBPyConnection, tmp_path: Path, charged: list[str]
) -> None:
    with opened(source, tmp_path, BOTH) as connection:
        for sql in charged:
            ask(connection, sql, epsilon=0.25)
    path = tmp_path / "policy.toml"
    path.write_text("\n".join(["ledger = 'tallyveil.ledger.sqlite'", *_toml(BOTH)]))
    output = shown_budget(path)
    assert [row["spent"] for row in output.document] == [0.25 * len(charged)] * 2
    assert any(line.startswith("visit and person have one budget") for line in output.lines)


def _toml(declared: Any) -> Iterator[str]:
    for name, table in declared.items():
        for key, value in table.items():
            yield f"tables.{name}.{key} = {_inline(value)}"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)
