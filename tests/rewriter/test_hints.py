"""Hints followed to the letter: what a refusal says to write instead is answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallyveil.errors import StatementError
from tests.rewriter.surface import World as Surface
from tests.rewriter.world import World

_FIXTURES = Path(__file__).with_name("fixtures")
_SQL = re.compile(
    r"\b(?:SELECT|CASE|CAST|FILTER|LIKE|IN|NOT|INTERVAL|NULLIF|OVER|HAVING|AND|GROUP BY|JOIN)\b"
    r"|\w\(|::|[<=~]|'"
)

# What is refused, and words of the hint that the answer to it is listed under.
REFUSED = [
    ("SELECT datepart('year', born), count(*) FROM person GROUP BY 1", "date_part?"),
    ("SELECT count(*) FROM person WHERE (age, big) < (1, 2)", "a < 1 OR (a = 1 AND b < 2)"),
    ("SELECT rpad(state, 3), count(*) FROM person GROUP BY 1", "left(a || '   ', 3)"),
    ("SELECT lpad(age::text, 3), count(*) FROM person GROUP BY 1", "right('   ' || a, 3)"),
    ("SELECT count(*) FROM person WHERE exp(1.0) > age", "exp(a::float8)"),
    ("SELECT count(*) FROM person WHERE born > '20200105'::date", "Write a date as 2024-02-29"),
    ("SELECT count(t) FROM person t", "t is a table: count(*)"),
    ("SELECT born + 'x', count(*) FROM person GROUP BY 1", "born + interval '1 day'"),
    ("SELECT born + state, count(*) FROM person GROUP BY 1", "born + interval '1 day'"),
    ("SELECT sum(DISTINCT age) FROM person", "count(DISTINCT attribute) is answered"),
    ("SELECT max(age) FROM person", "percentile_disc(0.99)"),
    ("SELECT count(*) FROM person ORDER BY -1", "counted from 1, or its name"),
    ("SELECT sex, count(*) FROM person GROUP BY sex ORDER BY 2, -2", "counted from 1"),
]
REFUSED_OF_PUBLIC_TABLES = [
    (
        "SELECT count(*) FROM person WHERE (SELECT pop FROM region WHERE code = state) > 3",
        "(SELECT max(x) FROM … WHERE …)",
    ),
    (
        "SELECT r.pop, (SELECT count(*) FROM person WHERE age > r.pop) FROM region r",
        "ON t.a > r.x GROUP BY r.x",
    ),
    (
        "SELECT region, (SELECT count(*) FROM person WHERE sex > region) FROM region",
        "ON t.a > r.x GROUP BY r.x",
    ),
    (
        "SELECT name, count(age) FROM state_name s JOIN region ON s.state = code "
        "LEFT JOIN person p ON p.state = code GROUP BY name",
        "AS public LEFT JOIN protected ON",
    ),
    (
        "SELECT region, count(*) FROM region LEFT JOIN person ON state = code GROUP BY 1",
        "count(key)",
    ),
    (
        "SELECT region, count(age) FROM region LEFT JOIN person ON state = code WHERE sex = 'F' "
        "OR sex IS NULL GROUP BY 1",
        "Put conditions on records into ON",
    ),
]


def _blocks() -> Iterator[tuple[list[str], list[str]]]:
    """Hints, and the statements that follow them."""
    for block in (_FIXTURES / "hints.sql").read_text().strip().split("\n\n"):
        lines = block.splitlines()
        statements = [line for line in lines if line.startswith("SELECT ") and "…" not in line]
        statements = [one for one in statements if " lists the tables" not in one]
        yield [line for line in lines if line not in statements], statements


def test_every_hint_with_sql_is_followed_in_the_table() -> None:
    known = {hint for hints, _ in _blocks() for hint in hints}
    text = (_FIXTURES / "refusals.sql").read_text()
    said = {line.removeprefix("HINT ") for line in text.splitlines() if line.startswith("HINT ")}
    assert {hint for hint in said if _SQL.search(hint)} - known == set()


def test_what_a_hint_says_is_answered(world: World, surface: Surface) -> None:
    followed = 0
    for hints, statements in _blocks():
        assert statements, hints
        for sql in statements:
            public = re.search(r"\b(?:region|band|state_name)\b", sql)
            if public:
                surface.plan(sql, "postgres")
            else:
                values = ([1, "F"], ["INTEGER", "VARCHAR"]) if "$1" in sql else ([], [])
                world.plan(sql, values=values[0], types=values[1])
            followed += 1
    assert followed > 50


@pytest.mark.parametrize(("sql", "hint"), REFUSED)
def test_a_refusal_says_what_is_answered_instead(world: World, sql: str, hint: str) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(sql)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(("sql", "hint"), REFUSED_OF_PUBLIC_TABLES)
def test_a_refusal_about_public_tables_says_what_is_answered_instead(
    surface: Surface, sql: str, hint: str
) -> None:
    with pytest.raises(StatementError) as caught:
        surface.plan(sql, "postgres")
    assert hint in (caught.value.hint or "")


def test_an_interval_with_signs_is_answered(world: World) -> None:
    sql = "SELECT count(*) FROM person WHERE born > date '2020-01-20' + interval '{}'"
    mixed, days = (world.answer(sql.format(one))[1] for one in ("-1 mon +33 days", "2 days"))
    assert mixed == days
