"""Numbers and strings as constants: each engine's own reading in its dialect, or a refusal."""

from __future__ import annotations

from typing import Any

import duckdb
import psycopg
import pytest
from sqlglot import exp

from tallyveil.errors import StatementError
from tallyveil.rewriter import Dialect, parse_query
from tallyveil.rewriter.sql.check import check
from tests.rewriter.world import World

CONSTANTS = [
    "1", "007", "1.5", "1.", ".5", "1e5", "1.5e-3", "1E+2", "1_000", "1_0.5_0", "1e1_0", "0x1F",
    "0X1f", "0x_1F", "0o17", "0O17", "0b101", "0b_1", "0xFFFFFFFFFFFFFFFFFF", "1__0", "1_", "0x",
    "0xg", "0b2", "0o8", "0x1.8", "1e", "1.5e", "1e+", "1..2", "1.2.3", "123abc", "123_abc",
    "1a.b", "1.a", ".5a", ".5_0", "0_x1", "1é", "1$", "1in", "1from", "1as a", "1e5and", "0x1Fz",
    "12 34", "1 a", "'a'", "'a' 'b'", "'a'\n'b'", "'a' /* c\n */ 'b'",
    "'a'\n'b' 'c'", "'it''s'", "''''", "'1' '2'", "'0x10'", "- 1", "-0x10",
    "1_0", str(2**127 - 1), f"0x{2**126:x}", f"{2**130}.5", "0" * 50,
]  # fmt: skip

# Of these PostgreSQL reads numbers and strings that are refused here.
OTHERS = {
    "1_000", "1_0.5_0", "1e1_0", "0x1F", "0X1f", "0x_1F", "0o17", "0O17", "0b101", "0b_1",
    "0xFFFFFFFFFFFFFFFFFF", ".5_0", "'a'\n'b'", "-0x10", "1_0", f"0x{2**126:x}",
}  # fmt: skip

ESCAPED = [
    r"E''", r"E'''\''", r"E'\b\f\n\r\t\v\\'", r"E'\8\q\x\xg\_'", r"E'\101\1010\60'",
    r"E'\x41\x411'",
    r"e'\xc3\xa9\303\251é'", r"E'\xff'", r"E'\777'", r"E'\xc3'", r"E'a\0b'", r"E'\x00'", r"E'\400'",
    r"E'\u00e9\U0001F600'", r"E'\ud83d\ude00'", r"E'\ud83d'", r"E'\ud83dx\ude00'", r"E'\ude00'",
    r"E'\ud83d\u0041'", r"E'\ud83d\n\ude00'", r"E'\u0000'", r"E'\U00110000'", r"E'\u12'", r"E'\u'",
    r"E'\U0001F60'", "E'a\\\nb'",
]  # fmt: skip


def _read(text: str, dialect: Dialect) -> tuple[str, str] | None:
    """The value of the constant, and the name of its column; None if it is refused."""
    try:
        tree = parse_query(f"SELECT {text}", dialect)
        check(tree)
    except StatementError:
        return None
    (item,) = tree.expressions
    value = item.unalias()
    sign = "-" if isinstance(value, exp.Neg) else ""
    literal = value.find(exp.Literal)
    return (f"{sign}{literal.this}" if literal else "?"), item.alias


def _same(text: str, ours: tuple[str, str], theirs: object) -> None:
    assert ours[0] == theirs if isinstance(theirs, str) else float(ours[0]) == float(theirs), text


def test_postgresql_reads_the_same(postgres: psycopg.Connection[Any]) -> None:
    for text in CONSTANTS + ESCAPED:
        ours = _read(text, "postgres")
        try:
            cursor = postgres.execute(f"SELECT {text}".encode())
        except psycopg.Error:
            assert ours is None, text
            continue
        assert (ours is None) == (text in OTHERS), text
        if ours is not None:
            (theirs,) = cursor.fetchone() or (None,)
            _same(text, ours, theirs)
            named = cursor.description[0].name if cursor.description else ""
            assert ours[1] == ("" if named == "?column?" else named), text


def test_duckdb_reads_the_same_or_it_is_refused(database: duckdb.DuckDBPyConnection) -> None:
    for text in CONSTANTS + ESCAPED:
        ours = _read(text, "duckdb")
        if ours is not None:
            (theirs,) = database.execute(f"SELECT {text}").fetchone() or (None,)
            _same(text, ours, theirs)


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400", "1e999999999999"])
def test_a_number_beyond_double_precision_is_refused(world: World, text: str) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(f"SELECT {text}")
    assert caught.value.sqlstate == "22003"


@pytest.mark.parametrize("text", [str(2**127), str(-(2**130)), str(2**200)])
@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_a_whole_number_that_duckdb_would_cut_off_is_refused(
    world: World, text: str, dialect: Dialect
) -> None:
    """It keeps the last 128 bits of one when it is compared: 5 < 2²⁰⁰ was false."""
    with pytest.raises(StatementError) as caught:
        world.plan(f"SELECT 5 < {text}", dialect)
    assert caught.value.sqlstate == "22003"
    assert caught.value.position == 12 + text.startswith("-")
