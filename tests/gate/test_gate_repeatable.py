"""Which results are the same again while settings and ledger stand still, and may be kept."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import tallyveil
from tallyveil.gate import Gate
from tallyveil.gate.session import GateSession

_POLICY = {
    "tables": {
        "person": {
            "budget": {"epsilon": 10},
            "attributes": {"age": {"range": [0, 9]}, "sex": {"values": ["F", "M"]}},
        }
    }
}


@pytest.fixture
def session() -> Iterator[GateSession]:
    with duckdb.connect() as source:
        source.execute("CREATE TABLE person AS SELECT range AS age, 'F' AS sex FROM range(10)")
        gate = Gate(tallyveil.parse_policy(_POLICY), source)
    session = gate.session("alice", "db")
    yield session
    session.close()
    gate.close()


@pytest.mark.parametrize(
    ("sql", "repeatable"),
    [
        ("SELECT count(*) FROM person", True),
        ("SELECT sex, count(*) FROM person GROUP BY sex ORDER BY 2 LIMIT 1", True),
        ("SELECT count(*) + 0.5 FROM person", True),
        ("SELECT sex, count(*) FROM person GROUP BY sex HAVING count(*) > 1", True),
        ("SELECT 1", True),
        ("SELECT count(*), now() FROM person", False),
        ("SELECT count(*), current_user FROM person", False),
        ("SELECT * FROM dp.budget", False),
    ],
)
def test_what_is_repeatable(session: GateSession, sql: str, repeatable: bool) -> None:
    (statement,) = session.parse(sql)
    assert session.execute(statement).repeatable is repeatable
