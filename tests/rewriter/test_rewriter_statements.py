"""Texts into statements: where one ends, and where a mistake is."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp

from tallyveil.errors import (
    FeatureNotSupported,
    InvalidEncoding,
    SQLSyntaxError,
    StatementTooComplex,
)
from tallyveil.rewriter import Dialect, parse_query, split

SPLITS = [
    ("select 1", ["select 1"]),
    ("select 1; select 2;", ["select 1", "select 2"]),
    (" ;; select 1 ;; ", ["select 1"]),
    ("", []),
    ("-- nothing\n/* at all */", []),
    ("select ';'; select \";\"", ["select ';'", 'select ";"']),
    ("select $$;$$; select $a$;$$;$a$", ["select $$;$$", "select $a$;$$;$a$"]),
    ("select 1 -- ; no end\n+ 1; select 2", ["select 1 -- ; no end\n+ 1", "select 2"]),
    ("select /* ; /* ; */ ; */ 1; select 2", ["select /* ; /* ; */ ; */ 1", "select 2"]),
    ("select 'it''s;'", ["select 'it''s;'"]),
]


@pytest.mark.parametrize(("text", "expected"), SPLITS)
def test_split(text: str, expected: list[str]) -> None:
    pieces = split(text, "postgres")
    assert [piece.sql for piece in pieces] == expected
    for piece in pieces:
        assert text[piece.offset :].startswith(piece.sql)


def test_question_marks_are_numbered_where_they_stand() -> None:
    (piece,) = split("select '?', \"?\", ? -- ?\n, ?::int from t where a = ?", "duckdb")
    assert piece.sql == "select '?', \"?\", $1 -- ?\n, $2::int from t where a = $3"


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
@pytest.mark.parametrize(
    "text",
    [
        "select f(a,$1,$2)",
        "select $1+$2",
        "select a in ($1,$2,$1)",
        "select $1,'$',$2",
        "select ?,?",
    ],
)
def test_parameters_need_no_spaces_between_them(text: str, dialect: Dialect) -> None:
    (piece,) = split(text, dialect)
    tree = parse_query(piece.sql, dialect)
    spaced = piece.sql.replace(",", " , ").replace("+", " + ")
    assert tree == parse_query(spaced, dialect)
    assert len(list(tree.find_all(exp.Parameter, exp.Placeholder))) == piece.sql.count("$") - (
        "'" in text
    )


def test_a_string_in_dollars_stays_one_beside_parameters() -> None:
    tree = parse_query("select $1 + 1, $a$it's $1,$2$a$", "postgres")
    assert [node.name for node in tree.find_all(exp.Parameter)] == ["1"]


MISTAKES = [
    ("select count(* from person", 16),
    ("select\n  count(*)\nfrom person where", 36),
    ("select 1 from person )", 22),
    ("select 'x", 8),
    ('select "x', 8),
    ("select /* x", 8),
    ("select count(*) fro person", 21),
    ("select 1 from person where (age = 3", 36),
]


@pytest.mark.parametrize(("sql", "position"), MISTAKES)
@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_a_mistake_is_pointed_at(sql: str, position: int, dialect: Dialect) -> None:
    """Where a statement ends too early, DuckDB points at its last word."""
    with pytest.raises(SQLSyntaxError) as caught:
        parse_query(sql, dialect)
    last = len(re.split(r"[^\w]", sql)[-1])
    early = dialect == "duckdb" and position > len(sql)
    assert caught.value.position == position - (last if early else 0)


@pytest.mark.parametrize("sql", ["", "  ", "-- x", ";"])
def test_nothing_is_no_query(sql: str) -> None:
    with pytest.raises(SQLSyntaxError):
        parse_query(sql, "postgres")


def test_two_statements_are_not_one() -> None:
    with pytest.raises(SQLSyntaxError, match="one statement"):
        parse_query("select 1; select 2", "postgres")


@pytest.mark.parametrize("word", ["INSERT", "COPY", "ATTACH", "PRAGMA", "CALL", "foo", "42"])
def test_only_queries_are_parsed(word: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FeatureNotSupported, match=f"{word.upper()} is not answered"):
        parse_query(f"{word} x", "postgres")
    assert caplog.records == []


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
@pytest.mark.parametrize(
    ("operator", "words"),
    [("~~", "LIKE"), ("!~~", "NOT LIKE"), ("~~*", "ILIKE"), ("!~~*", "NOT ILIKE")],
)
def test_the_operators_of_like_are_read_as_its_words(
    operator: str, words: str, dialect: Dialect
) -> None:
    sql = "SELECT count(*) FROM person WHERE NOT state {} 'A%' AND married"
    assert parse_query(sql.format(operator), dialect) == parse_query(sql.format(words), dialect)


def test_bounds() -> None:
    with pytest.raises(StatementTooComplex, match="characters"):
        split("select '" + "x" * 200_000 + "'", "postgres")
    with pytest.raises(StatementTooComplex, match="words"):
        split("select " + "1," * 10_001 + "1", "postgres")
    with pytest.raises(InvalidEncoding, match="NUL"):
        split("select '\0'", "postgres")
