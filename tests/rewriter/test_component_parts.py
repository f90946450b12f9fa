"""Parts worked out from attributes' axes are those that DuckDB gives: rows, groups and order.

Every statement is planned twice, once with every component left to DuckDB. What is not read as
comparisons of attributes is left to DuckDB in both, so the tests count that enough was read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyveil.errors import StatementError
from tallyveil.rewriter import Dialect
from tallyveil.rewriter.domain.component_parts import ComponentParts
from tests.pairs import alternately
from tests.rewriter.plans import meaning
from tests.rewriter.surface import World as Surface
from tests.rewriter.world import DOMAIN, World

_FIXTURES = Path(__file__).with_name("fixtures")
_SHORT = settings(suppress_health_check=list(HealthCheck), print_blob=True)
_LONG = settings(_SHORT, max_examples=4_000)


def planned(world: World | Surface, sql: str, dialect: Dialect) -> tuple[Any, int]:
    """What the plan means, or the refusal, and how many queries it took."""
    try:
        plan = world.plan(sql, dialect)
    except StatementError as error:
        return f"refused: {error}", 0
    return meaning(plan), len(plan.domain_queries)


def same(world: World | Surface, sql: str, dialect: Dialect) -> bool:
    """Assert that both ways agree; whether some component took no query.

    Both keep components apart: in one query DuckDB does not come to what is wrong with one where
    nothing meets another. Of several mistakes in a statement either may be reported.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallyveil.rewriter.domain.components.SMALL", 0)
        ours, queries = planned(world, sql, dialect)
        patch.setattr(ComponentParts, "find", lambda *_: None)
        theirs, all_queries = planned(world, sql, dialect)
    assert ours == theirs or (isinstance(ours, str) and isinstance(theirs, str)), sql
    return queries < all_queries


# Constants of every kind, beside attributes of every kind.
_CONSTANTS = [
    "-3", "0", "7", "007", "29", "30", "1099511627776", "-1099511627776", "9223372036854775807",
    "9223372036854775808", "99999999999999999999", "4.5", "7.0", "-2.5", "2.25", "0.1", "1e1",
    "0.30000000000000004", "- 7", "+7", "(7)", "'7'", "' 7'", "'7.5'", "'-3'", "'x'", "''", "'AL'",
    "'al'", "'wy'", "' pad'", "'F'", "'é'", "'~'", "'true'", "true", "false", "NULL",
    "'2020-01-05'", "'2020-1-5'", "'2020-01-05 00:00:00'", "'2020-02-31'", "date '2020-01-05'",
    "date '1850-01-01'", "timestamp '2020-01-05 00:00:00'", "timestamp '2020-01-05 12:00:00'",
    "cast(7 as bigint)", "cast('7' as integer)", "cast(7.5 as integer)", "cast('7' as varchar)",
    "cast('AL' as varchar)", "cast('A' as varchar(1))", "cast('2.25' as double precision)",
    "cast('0.5' as double precision)", "cast('nan' as double precision)", "cast(NULL as integer)",
    "cast('2020-01-05' as date)", "cast('true' as boolean)", "cast(1 as smallint)", "100", "250",
    "1000", "cast('100' as double precision)", "7 + 1", "10 / 2", "cast(300 as smallint)",
]  # fmt: skip
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
_NAMES = [attribute.name for attribute in DOMAIN.attributes]


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    name, constant = st.sampled_from(_NAMES), st.sampled_from(_CONSTANTS)
    shape = draw(st.integers(0, 9 if depth else 6))
    if shape <= 1:
        return f"{draw(name)} {draw(st.sampled_from(_OPERATORS))} {draw(constant)}"
    if shape == 2:
        return f"{draw(constant)} {draw(st.sampled_from(_OPERATORS))} {draw(name)}"
    negated = draw(st.sampled_from(["", "NOT "]))
    if shape == 3:
        return f"{draw(name)} {negated}BETWEEN {draw(constant)} AND {draw(constant)}"
    if shape == 4:
        values = draw(st.lists(constant, min_size=1, max_size=4))
        return f"{draw(name)} {negated}IN ({', '.join(values)})"
    if shape == 5:
        return f"{draw(name)} IS {negated}NULL"
    if shape == 6:
        return draw(st.sampled_from(["married", "true", "1 = 0", "(age) < 7", "lower(sex) = 'f'"]))
    if shape == 7:
        return f"NOT ({draw(conditions(depth - 1))})"
    word = draw(st.sampled_from(["AND", "OR"]))
    return f"({draw(conditions(depth - 1))} {word} {draw(conditions(depth - 1))})"


_OUTPUTS = [
    "count(*)", "count({a})", "sum({a})", "avg({a})", "count(*) FILTER (WHERE {c})",
    "sum({a}) FILTER (WHERE {c})", "count({a}) FILTER (WHERE {c})", "2 * count(*) - count({a})",
    "count(1)", "count(NULL)", "sum(3)", "sum(CASE WHEN {c} THEN 1 ELSE 0 END)",
    "count(CASE WHEN {c} THEN {a} END)", "avg(CASE WHEN {c} THEN {a} END)", "dp_stddev(count(*))",
]  # fmt: skip


@st.composite
def questions(draw: st.DrawFn) -> str:
    name = st.sampled_from(_NAMES)
    keys = draw(st.lists(st.sampled_from([*_NAMES, "(age)", "age % 2", "'k'"]), max_size=2))
    outputs = [
        draw(st.sampled_from(_OUTPUTS)).format(a=draw(name), c=draw(conditions(1)))
        for _ in range(draw(st.integers(0 if keys else 1, 2)))
    ]
    items = [f"{item} AS i{n}" for n, item in enumerate([*keys, *outputs])]
    sql = f"SELECT {', '.join(items)} FROM person"
    if draw(st.booleans()):
        sql += f" WHERE {draw(conditions())}"
        sql += "".join(f" AND {draw(conditions(1))}" for _ in range(draw(st.integers(0, 2))))
    if keys:
        sql += " GROUP BY " + ", ".join(keys)
    return sql


def _compare(world: World, operator: str, name: str, constant: str, dialect: Dialect) -> None:
    same(world, f"SELECT count(*) FROM person WHERE {name} {operator} {constant}", dialect)


@pytest.mark.parametrize("constant", _CONSTANTS)
def test_every_comparison_with_a_constant(world: World, constant: str) -> None:
    """A third of the attributes, in one dialect or the other, by turns."""
    turn = _CONSTANTS.index(constant)
    for number, name in enumerate(_NAMES[turn % 3 :: 3], start=turn // 3):
        if number % 2:
            _compare(world, ">=", name, constant, "duckdb")
        else:
            _compare(world, "=", name, constant, "postgres")


@pytest.mark.slow
@pytest.mark.parametrize("constant", _CONSTANTS)
@pytest.mark.parametrize("operator", _OPERATORS)
@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_every_comparison_long(
    world: World, operator: str, constant: str, dialect: Dialect
) -> None:
    for name in _NAMES:
        _compare(world, operator, name, constant, dialect)


_SHAPES = [
    "{a} IS NULL", "{a} IS NOT NULL", "NOT {a} IS NULL", "NOT ({a} IS NOT NULL)", "({a}) IS NULL",
    "{a} IN (NULL)", "{a} NOT IN ({c}, NULL)", "{a} IN ({c}, {d})", "{a} NOT IN ({c}, {d})",
    "{a} BETWEEN {c} AND {d}", "{a} NOT BETWEEN {c} AND {d}", "{a} BETWEEN NULL AND {d}",
    "NOT ({a} BETWEEN {c} AND NULL)", "NOT {a} = {c}", "NOT {a} <> {d}", "{c} < {a}", "{d} >= {a}",
    "{a} = {c} OR {a} IS NULL", "NOT ({a} = {c} AND {a} < {d})", "({a} > {c}) AND NOT ({a} = {d})",
    "NOT ({a} > {c} OR {a} IS NULL)", "{a} = {c} AND true", "{a} = {c} OR false", "{a} = NULL",
    "NOT ({a} < NULL)", "{a} IS DISTINCT FROM {c}", "{a} IS NOT DISTINCT FROM {c}",
    "({a} = {c}) IS NULL", "({a} = {c}) IS NOT TRUE", "{a} = ANY (ARRAY[{c}, {d}])",
]  # fmt: skip
_OWN = {
    "state": ("'AL'", "'wy'"), "age": ("3", "17"), "sex": ("'F'", "'M'"),
    "married": ("true", "false"), "born": ("'2019-12-25'", "DATE '2020-01-10'"),
    "score": ("-1.5", "1.5"), "big": ("0", "7"), "income": ("100", "250"),
}  # fmt: skip


@pytest.mark.parametrize("shape", _SHAPES)
def test_every_shape(world: World, shape: str) -> None:
    """Of half of the attributes as a filter in one dialect, of some as a condition in the other."""
    conditions = [shape.format(a=name, c=low, d=high) for name, (low, high) in _OWN.items()]
    turn = _SHAPES.index(shape)
    other: Dialect = "postgres" if turn % 2 else "duckdb"
    dialect: Dialect = "duckdb" if turn % 2 else "postgres"
    for condition in conditions[turn // 2 % 4 :: 4]:
        same(world, f"SELECT count(*) FROM person WHERE {condition}", other)
    filters = [
        f"count(*) FILTER (WHERE {condition})" for condition in conditions[turn // 2 % 2 :: 2]
    ]
    if isinstance(planned(world, f"SELECT {', '.join(filters)} FROM person", dialect)[0], str):
        for one in filters:
            same(world, f"SELECT {one} FROM person", dialect)
    else:
        same(world, f"SELECT {', '.join(filters)} FROM person", dialect)


@pytest.mark.parametrize(
    ("day", "dialect"),
    alternately(
        [
            "DATE '2019-12-25' + 3",
            "DATE '2020-01-20' - (8)",
            "('2019-12-25'::date) + 999999",
            "DATE '2020-01-10' - 999999",
            "DATE '0001-01-02' - 1",
            "DATE '9999-12-01' + 40",
        ],
        ["postgres", "duckdb"],
    ),
)
def test_days_before_and_after_others_are_read(world: World, dialect: Dialect, day: str) -> None:
    for operator in ("=", "<", ">="):
        same(world, f"SELECT count(*) FROM person WHERE born {operator} {day}", dialect)
    same(world, f"SELECT count(*) FROM person WHERE born IN ({day}, '2020-01-02')", dialect)


@pytest.mark.parametrize(
    "condition",
    [
        "age = 3 OR sex = 'F'", "age > 3 AND sex = 'F' OR age < 2 AND sex = 'M'",
        "age IN (1, 3, 9) AND state = 'AL' OR age <> 7 AND state > 'AL' AND married",
        "NOT (age = 3 AND sex = 'F')", "NOT (age > 3 OR NOT (sex = 'F' AND married))",
        "(age = 3 OR sex = 'F') AND (age < 9 OR sex IS NULL)", "age = 3 OR sex = 'F' OR true",
        "(age = 3 OR sex = 'F') AND NOT (age = 3 OR sex = 'F')", "age = NULL OR sex = 'F'",
        "age > 900 AND sex = 'F' OR age < 0 AND married", "NOT (age = 3 OR NOT true AND married)",
    ],
)  # fmt: skip
def test_conditions_on_several_attributes_are_read(world: World, condition: str) -> None:
    for outputs in ["count(*)", "sum(age), count(sex)", "sex, count(*)", "age, sex, sum(age)"]:
        keys = [name for name in ("age", "sex") if name in outputs.split(", ")]
        sql = f"SELECT {outputs} FROM person WHERE {condition}"
        assert same(world, sql + (f" GROUP BY {', '.join(keys)}" if keys else ""), "postgres"), sql
    assert same(world, f"SELECT sum(age) FILTER (WHERE {condition}) FROM person", "duckdb")


_DIALECTS: st.SearchStrategy[Dialect] = st.sampled_from(["postgres", "duckdb"])


@_SHORT
@given(sql=questions(), dialect=_DIALECTS)
def test_conditions(world: World, sql: str, dialect: Dialect) -> None:
    same(world, sql, dialect)


@pytest.mark.slow
@_LONG
@given(sql=questions(), dialect=_DIALECTS)
def test_conditions_long(world: World, sql: str, dialect: Dialect) -> None:
    same(world, sql, dialect)


def _statements(name: str) -> list[str]:
    blocks = (_FIXTURES / name).read_text().strip().split("\n\n")
    return [block.split("\n")[1] for block in blocks]


def test_the_fixtures(world: World, surface: Surface) -> None:
    read = [same(world, sql, "postgres") for sql in _statements("plans.sql")[::2]]
    assert sum(read) > len(read) / 2
    for sql in _statements("relations.sql")[::2]:
        same(surface, sql, "postgres")
