"""What is done once: results that are the same again may be kept, and a text is read once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from sqlglot import exp
from sqlglot.tokenizer_core import Token

import tallyveil
from tallyveil.gate import Gate
from tallyveil.gate.session import GateSession
from tallyveil.rewriter import Dialect, Piece
from tallyveil.rewriter.sql import statement_text

_POLICY = {
    "tables": {
        "person": {
            "budget": {"epsilon": 10},
            "attributes": {"age": {"range": [0, 9]}, "sex": {"values": ["F", "M"]}},
        }
    }
}


@pytest.fixture
def session(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> Iterator[GateSession]:
    source = database.execute(
        "CREATE TABLE person AS SELECT range AS age, 'F' AS sex FROM range(10)"
    )
    gate = Gate(tallyveil.parse_policy(_POLICY, base=tmp_path), source)
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


def test_a_statement_is_read_once(session: GateSession, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    tokens, parse = statement_text._tokens, statement_text._parse

    def counted_tokens(sql: str, dialect: Dialect) -> list[Token]:
        read.append("tokens")
        return tokens(sql, dialect)

    def counted_parse(sql: str, dialect: Dialect, piece: Piece | None) -> exp.Expr:
        read.append("tree")
        return parse(sql, dialect, piece)

    monkeypatch.setattr(statement_text, "_tokens", counted_tokens)
    monkeypatch.setattr(statement_text, "_parse", counted_parse)
    (statement,) = session.parse("SELECT sex, count(*) FROM person WHERE age < 3 GROUP BY 1")
    session.describe(statement)
    session.execute(statement)
    session.execute(statement)
    assert read == ["tokens", "tree"]
