"""The guide's table of statements: what it says is answered is, and what it says to write instead
of the others too."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import TallyveilError
from tallyveil.gate import Gate
from tallyveil.rewriter import Dialect
from tests.gate.many_sessions import PATIENCE

GUIDE = Path(__file__).parents[2] / "docs" / "analyst.md"
_ROW = re.compile(r"^\| [^|`]*\| `((?:[^`])+)` \| ((?:yes|no)\b.*) \|$", re.MULTILINE)
ROWS = [(statement, answer) for statement, answer in _ROW.findall(GUIDE.read_text())]
_WRITTEN = re.compile(r"`(SELECT [^`]+)`")

_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "person": {
        "state": {"values": ["CA", "NY", "TX"]},
        "age": {"range": [0, 115]},
        "sex": {"values": ["F", "M"], "nullable": True},
        "income": {"bins": [0, 15000, 30000, 60000, 120000], "clamp": True},
    },
    "stay": {
        "ward": {"values": ["A", "B", "C"]},
        "nights": {"range": [0, 30], "clamp": True},
        "admitted": {"range": [dt.date(2026, 1, 1), dt.date(2026, 12, 31)]},
    },
}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    tables: dict[str, Any] = {
        "person": {"privacy_unit": {"column": "pid", "max_rows": 1}, "budget": {"epsilon": 1e6}},
        "stay": {"privacy_unit": {"column": "pid", "max_rows": 5}, "keys": {"pid": "person.pid"}},
    }
    keys = {
        "tables": {name: own | {"attributes": _ATTRIBUTES[name]} for name, own in tables.items()},
        "public": {"region": {"from": "region"}},
        "defaults": {"epsilon": 1},
    }
    policy = tallyveil.parse_policy(keys, base=tmp_path_factory.mktemp("guide"))
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE person AS SELECT i AS pid, ['CA', 'NY', 'TX'][1 + i % 3] AS state,"
            " i % 90 AS age, ['F', 'M'][1 + i % 2] AS sex, (i * 37) % 130000 AS income"
            " FROM range(900) t(i)"
        )
        source.execute(
            "CREATE TABLE stay AS SELECT i // 3 AS pid, ['A', 'B', 'C'][1 + i % 3] AS ward, 1 + i %"
            " 20 AS nights, DATE '2026-01-01' + CAST(i % 365 AS INTEGER) AS admitted FROM"
            " range(1800) t(i)"
        )
        source.execute(
            "CREATE TABLE region AS FROM (VALUES ('CA', 'west'), ('NY', 'east')) t(state, region)"
        )
        opened = Gate(policy, source, time_limit=PATIENCE)
        yield opened
        opened.close()


def answered(gate: Gate, sql: str, dialect: Dialect = "postgres") -> bool:
    with closing(gate.session("alice", "people", dialect)) as session:
        table, _ = session.query(sql)
    return table is not None


def test_the_table_is_read() -> None:
    assert len(ROWS) >= 60
    assert sum(answer.startswith("yes") for _, answer in ROWS) > 40


@pytest.mark.parametrize(("statement", "answer"), ROWS, ids=[one for one, _ in ROWS])
def test_each_statement_is_answered_or_refused(gate: Gate, statement: str, answer: str) -> None:
    before = gate.accountant.balance("person").spent
    dialect: Dialect = "duckdb" if "DuckDB" in answer else "postgres"
    if answer.startswith("yes"):
        assert answered(gate, statement, dialect)
        return
    with pytest.raises(TallyveilError) as refused:
        answered(gate, statement, dialect)
    assert refused.value.hint
    assert gate.accountant.balance("person").spent == before
    for instead in _WRITTEN.findall(answer):
        assert answered(gate, instead)
