"""In PostgreSQL's dialect there are PostgreSQL's functions, with its arguments, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
import pytest
from sqlglot.dialects import Postgres

from tallyveil.errors import SQLSyntaxError, TallyveilError, UndefinedFunction
from tallyveil.rewriter.sql.vocabulary import POSTGRES_FUNCTIONS
from tests.rewriter.world import World

# Of PostgreSQL's grammar, not of its catalogue.
GRAMMAR = {"cast", "coalesce", "greatest", "least", "nullif", "grouping", "trim"}

CALLS = (
    "{0}()", "{0}(state)", "{0}(age)", "{0}(born)", "{0}(score)", "{0}(married)", "{0}('a')",
    "{0}(2)", "{0}(born::timestamp)", "{0}(state, 'a')", "{0}('a', state)", "{0}(age, 2)",
    "{0}(score, 2)", "{0}('day', born)", "{0}(born, 'day')", "{0}(state, 'a', 'b')",
    "{0}(state, 1, 2)", "{0}(2020, 1, 1)", "{0}(age > 1, 1, 2)", "{0}(state, 'a', 1)",
)  # fmt: skip
NOT_THERE = {"42883", "42601"}


@pytest.fixture(scope="module")
def person(postgres_connection: psycopg.Connection) -> psycopg.Connection:
    postgres_connection.execute(
        "CREATE TEMPORARY TABLE candidate (state text, age int, sex text, married bool, "
        "born date, score float8, big bigint, income int)"
    )
    return postgres_connection


@pytest.mark.parametrize("calls", [CALLS[::8], pytest.param(CALLS, marks=pytest.mark.slow)])
def test_every_function_that_is_answered_postgresql_has(
    world: World, person: psycopg.Connection, calls: Sequence[str]
) -> None:
    """With these arguments: whatever the parser reads is tried in both."""
    parser = Postgres.Parser
    names = {*parser.FUNCTIONS, *parser.FUNCTION_PARSERS, *(n.upper() for n in POSTGRES_FUNCTIONS)}
    answered = 0
    for name in sorted(names - {"ARRAY"}):
        for call in calls:
            predicate = f"({call.format(name)}) IS NOT NULL"
            try:
                world.plan(f"SELECT count(*) FROM person WHERE {predicate}")
            except TallyveilError:
                continue
            answered += 1
            try:
                person.execute(f"EXPLAIN SELECT count(*) FROM candidate WHERE {predicate}")
            except psycopg.Error as error:
                if error.sqlstate in NOT_THERE:
                    pytest.fail(f"{predicate}: {error}")
    assert answered > 4 * len(calls)


def test_the_numbers_of_arguments_are_those_of_the_catalogue(person: psycopg.Connection) -> None:
    found = {
        name: (least, most)
        for name, least, most in person.execute(
            "SELECT proname, min(pronargs - pronargdefaults), "
            "max(CASE WHEN provariadic <> 0 THEN 99 ELSE pronargs END) FROM pg_proc "
            "WHERE proname = ANY(%s) GROUP BY 1",
            [list(POSTGRES_FUNCTIONS)],
        ).fetchall()
    }
    assert set(POSTGRES_FUNCTIONS) - set(found) == GRAMMAR
    for name, (least, most) in found.items():
        allowed = POSTGRES_FUNCTIONS[name]
        assert allowed[1] <= most or most == 99 or name in ("extract", "position"), name
        assert allowed[0] >= least or name in ("extract", "position", "substring"), name


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("locate('A', state)", "position"),
        ("instr(state, 'A')", "position"),
        ("date_from_parts(2020, 1, 1)", "make_date"),
        ("year(born)", "extract"),
        ("ifnull(age, 1)", "coalesce"),
        ("nvl(age, 1)", "coalesce"),
        ("if(age > 1, 1, 2)", "CASE"),
        ("len(state)", "length"),
        ("btrim(state, 'a', 'b')", "btrim takes 1 to 2"),
        ("replace(state, 'a')", "replace takes 3"),
        ("make_date(age)", "make_date takes 3"),
        ("now(1)", "now takes 0"),
        ("mod(age, 2, 3)", "mod takes 2"),
    ],
)
def test_the_others_are_undefined_with_a_place_and_a_hint(
    world: World, call: str, hint: str
) -> None:
    sql = f"SELECT count(*) FROM person WHERE {call} IS NOT NULL"
    with pytest.raises(UndefinedFunction) as caught:
        world.plan(sql)
    assert caught.value.sqlstate == "42883"
    assert caught.value.position == sql.index(call) + 1
    assert hint in (caught.value.hint or "")


def test_names_before_brackets_that_call_nothing_stay(world: World) -> None:
    for sql in (
        "SELECT count(*) FROM person WHERE state LIKE ('A%') AND (age > 1) OR (age IN (1, 2))",
        "WITH year (n) AS (SELECT count(*) FROM person) SELECT n FROM year",
        "SELECT n FROM (SELECT count(*) FROM person) AS len (n)",
        "SELECT count(*) FROM person WHERE cast(age AS varchar(3)) = '1'",
        "SELECT count(*) FROM person WHERE substring(state FROM 1 FOR 2) = 'AL'",
        "SELECT count(*) FROM person WHERE trim(LEADING ' ' FROM state) = 'pad'",
        "SELECT count(*) FROM person WHERE position('A' IN state) > 0",
        "SELECT count(*) FROM person WHERE date_part('year', born) = 2020",
    ):
        world.plan(sql)
    with pytest.raises(SQLSyntaxError):
        world.plan("SELECT current_date(), count(*) FROM person")


def test_duckdb_keeps_its_own(world: World) -> None:
    for call in ("instr(state, 'A') > 0", "year(born) = 2020", "ifnull(age, 1) = 1"):
        world.plan(f"SELECT count(*) FROM person WHERE {call}", "duckdb")
    with pytest.raises(UndefinedFunction):
        world.plan("SELECT count(*) FROM person WHERE replace(state, 'a') = 'b'", "duckdb")
