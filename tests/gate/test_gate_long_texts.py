"""Texts of any length are read in time that grows with their length alone.

While Python matches a text against a pattern, no other thread runs: a text that takes minutes would
block the whole server, including cancels and its shutdown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tallyveil import TallyveilError, parse_policy
from tallyveil.gate import Gate, GateSession
from tallyveil.rewriter.engine.duckdb_messages import translate_message

LONG = 150_000
INDUSTRY = "Agriculture, forestry, fishing and hunting"
COUNT = "EXPLAIN SELECT count(*) FROM person WHERE"

STATEMENTS = {
    "digits as a number": f"{COUNT} age < '{'1' * LONG}x'::float8",
    "a setting with spaces": f"SET statement_timeout = '1{' ' * LONG}!'",
    "digits as an interval": f"SELECT interval '{'1' * LONG}' hour",
    "spaces around an interval": f"SELECT interval '{' ' * LONG}1{' ' * 10}' day",
    "lines as a time": f"SELECT '{chr(10) * LONG}'::time",
    "spaces in a time zone": f"SELECT timestamptz '2020-01-01 00:00 A{' ' * LONG}{chr(10)}x'",
    "a repeated group": f"SELECT '{'1' * LONG}' ~ '(1{{1,50}}){{1,20}}(1{{1,50}}){{1,20}}x'",
    "a text as a regular expression": f"SELECT '{'1' * 90_000}' ~ '{'1' * 90_000}'",
    "gaps in a pattern": f"{COUNT} industry LIKE '{'%_' * 20}#'",
    "gaps in a pattern of either case": f"{COUNT} industry NOT ILIKE '{'%i_' * 12}%#'",
    "a pattern longer than all values": f"{COUNT} industry LIKE '{'%_' * (LONG // 20)}'",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateSession]:
    base = tmp_path_factory.mktemp("long")
    (base / "person.csv").write_text(f'age,industry\n1,"{INDUSTRY}"\n')
    attributes = {"age": {"range": [0, 99]}, "industry": {"values": [INDUSTRY, "Mining"]}}
    table = {"attributes": attributes, "budget": {"epsilon": 1.0}}
    declared = {"source": {"url": "person.csv"}, "tables": {"person": table}}
    with (
        closing(Gate(parse_policy(declared, base=base))) as gate,
        closing(gate.session("analyst")) as session,
    ):
        yield session


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_long_text_is_read_soon(session: GateSession, name: str) -> None:
    start = time.process_time()
    try:
        for statement in session.parse(STATEMENTS[name]):
            session.execute(statement)
    except TallyveilError:
        pass
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize("text", ["date", "Could not convert string '\n", "timestamp "])
def test_a_long_message_of_duckdb_is_read_soon(text: str) -> None:
    start = time.process_time()
    translate_message("Could not parse " + text * (LONG // len(text)))
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("pattern", "warned"),
    [
        ("Agri%hunting", False),
        ("%ing%and%ing", False),
        ("%,_f%,%f%g", False),
        ("M_n%g", False),
        ("%", False),
        ("%%Mining%%", False),
        ("Mining", False),
        ("%i%i%i%i%i%i%", True),
        ("Mining%g", True),
        ("%MINING%", True),
    ],
)
def test_a_pattern_warns_where_no_declared_value_is_like_it(
    session: GateSession, pattern: str, warned: bool
) -> None:
    (statement,) = session.parse(f"{COUNT} industry LIKE '{pattern}'")
    found = session.execute(statement).notices
    assert bool([one for one in found if one.severity == "WARNING"]) is warned


@pytest.mark.parametrize(
    "pattern", ["^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "(min|agri){1,2}", "x{2,}"]
)
def test_usual_repetitions_are_answered(session: GateSession, pattern: str) -> None:
    (statement,) = session.parse(f"{COUNT} industry ~* '{pattern}'")
    assert session.execute(statement).rows
