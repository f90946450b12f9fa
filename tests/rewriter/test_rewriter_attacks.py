"""What an analyst may try: injection by names and words, exhaustion, oracles by errors."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from tallyveil.errors import (
    DivisionByZero,
    FeatureNotSupported,
    StatementError,
    StatementTooComplex,
    TallyveilError,
)
from tallyveil.rewriter import Dialect, PublicDatabase
from tallyveil.rewriter.sql import vocabulary as known
from tallyveil.rewriter.sql.check import check
from tests.rewriter.noiseless import noiseless
from tests.rewriter.world import DOMAIN, World, rows_of

DIALECTS: tuple[Dialect, ...] = ("postgres", "duckdb")

NAMES = [
    'a"b', '"; DROP TABLE x; --', "a'b", "x/*y", "*/", "--", "$$", "", "ünïcödé", "a\nb", "__k0",
    "__c0", "__l0", "__s0", "__p0", "__cell", "__noisy", "__noisy_0", "__record", "__dp_budget",
    "__PG_WHOLE", "select", "count", "\u202e", "\ufeff", " ", "a.b", "person", "state",
]  # fmt: skip


@pytest.mark.parametrize("name", [n for n in NAMES if n])
def test_a_column_may_have_any_name(world: World, name: str) -> None:
    quoted = name.replace('"', '""')
    columns, rows = world.answer(f'select count(*) as "{quoted}", 7 as "x" from person')
    assert [column for column, _ in columns] == [name, "x"]
    assert rows == [(len(world.rows), 7)]


@pytest.mark.parametrize("name", [n for n in NAMES if n])
def test_a_relation_is_found_by_its_own_name_or_refused(world: World, name: str) -> None:
    quoted = name.replace('"', '""')
    sql = f'with "{quoted}" as (select count(*) + 1 as n from person) select n from "{quoted}"'
    if name.lower().startswith(("__noisy", "__record", "__dp_")):
        with pytest.raises(FeatureNotSupported, match="reserved"):
            world.answer(sql)
    else:
        assert world.answer(sql)[1] == [(len(world.rows) + 1,)]


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ('select n from (select count(*) as "N", sum(age) as n from person) t', "0A000"),
        ('select n from (select count(*) as "N" from person) t', "42703"),
        ("select count from (select count(*), count(sex) from person) t", "42702"),
        (
            'with "T" as (select count(*) as x from person) select (with t as (select count(sex) '
            'as x from person) select x from "T")',
            "0A000",
        ),
        ('with t(a, "A") as (select 1, 2) select a from t', "0A000"),
        ('select n from (select * from (select 1 as "N", 2 as n) a) b', "0A000"),
    ],
)
def test_names_that_differ_in_case_only_are_not_mixed_up(
    world: World, sql: str, sqlstate: str
) -> None:
    """DuckDB takes them for one name, and would answer with the other column."""
    with pytest.raises(StatementError) as caught:
        world.answer(sql)
    assert caught.value.sqlstate == sqlstate


@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_text_stays_a_text(world: World, text: str) -> None:
    """On its way through parser, generator and DuckDB, literally and as a parameter."""
    literal = text.replace("'", "''")
    assert world.answer(f"select '{literal}' as t, count(*) from person")[1][0][0] == text
    bound = world.answer("select $1 as t, count(*) from person", types=["VARCHAR"], values=[text])
    assert bound[1][0][0] == text


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_garbage_raises_our_errors_only(world: World, text: str) -> None:
    for sql in (text, f"select count(*) from person where {text}", f"select {text} from person"):
        for dialect in DIALECTS:
            try:
                world.answer(sql, dialect)
            except TallyveilError:
                continue


WORDS = [
    "select", "from", "where", "group", "by", "having", "order", "limit", "count", "(", ")", "*",
    ",", "person", "age", "sex", "state", "=", "<", "'3'", "3", "and", "or", "not", "null", "is",
    "in", "between", "case", "when", "then", "else", "end", "as", "t", ".", "::", "int", "$1",
    "with", "union", "all", "over", "filter", "distinct", "sum", "avg", "dp_interval_low",
    "partition", "/", "-", "+", "||", "like", "~", "exists", "interval", "date",
]  # fmt: skip


@given(words=st.lists(st.sampled_from(WORDS), max_size=25))
def test_words_in_any_order_raise_our_errors_only(world: World, words: list[str]) -> None:
    for sql in (" ".join(words), "select count(*) from person where " + " ".join(words)):
        for dialect in DIALECTS:
            try:
                world.answer(sql, dialect)
            except TallyveilError:
                continue


def test_a_long_but_plain_statement_is_answered(world: World) -> None:
    ages = ", ".join(str(n % 30) for n in range(4000))
    assert world.answer(f"select count(*) from person where age in ({ages})")[1][0][0] > 0
    chain = " or ".join(["age = 1"] * 200)
    assert world.answer(f"select count(*) from person where {chain}")[1][0][0] > 0


@pytest.mark.parametrize(
    "sql",
    [
        "with " + ", ".join(
            ["t0 as (select 'xxxxxxxxxxxxxxxx' as s)"]
            + [f"t{n} as (select s || s as s from t{n - 1})" for n in range(1, 32)]
        ) + " select length(s) from t31",
        "select count(*) from " + ", ".join(
            f"(select age, count(*) as c from person group by age) as t{n}" for n in range(8)
        ),
    ],
    ids=["memory", "time"],
)  # fmt: skip
def test_exhaustion_is_bounded(sql: str) -> None:
    public = PublicDatabase([DOMAIN], memory_limit="200MB", time_limit=1.0)
    world = World([])
    cursor = public.cursor()
    try:
        plan = world.plan(sql)
        exact = {t.name: noiseless(plan, t, lambda _, c: world.truth(c)) for t in plan.noisy}
        with cursor.tables(exact), pytest.raises(StatementTooComplex):
            cursor.rows(plan.sql)
        assert cursor.rows("SELECT 1")[1] == [(1,)]
    finally:
        cursor.close()
        public.close()
        world.close()


ORACLES = [
    "select count(*) from person where 1/((age-7)+(big-7)*1000) > 0",
    "select count(*) from person where case when age = 7 and sex = 'F' then 1/0 else 1 end = 1",
    "select count(*) from person where (age * 100000000) * 10 > 0",
    "select sum(case when state = 'AL' then 9223372036854775807 else 0 end) from person",
    "select count(*) from person where cast(state as int) = 1",
    "select sqrt(age), count(*) from person group by 1",
    "select count(*) from person where born + (age * 1000000) > born",
]


@pytest.mark.parametrize("sql", ORACLES)
def test_an_error_says_nothing_of_the_data(world: World, sql: str) -> None:
    """The same words whatever the rows are, since no row is looked at: planning decides."""
    said = set()
    for rows in ([], rows_of(random.Random(1), 50), rows_of(random.Random(2), 50)):
        other = World(rows)
        try:
            other.answer(sql)
            said.add("answered")
        except StatementError as error:
            said.add(f"{error.sqlstate} {error}")
        other.close()
    assert len(said) == 1


def test_a_division_is_by_zero_in_the_domain_or_not_at_all(world: World) -> None:
    with pytest.raises(DivisionByZero):
        world.answer("select count(*) from person where 1 / (age - 7) > 0")
    world.answer("select count(*) from person where 1 / nullif(age - 7, 0) > 0")


def test_a_statement_means_the_same_whatever_was_asked_before(world: World) -> None:
    sql = "select sex as s, count(*) - 2 * count(state) from person group by s having count(*) > 1"
    first = world.plan(sql)
    for other in (sql.upper(), f"with person as ({sql}) select s from person", f"{sql} limit 1"):
        world.plan(other)
        world.rewriter.parameter_types(other, "postgres")
    again = world.plan(sql)
    assert (again.sql, again.domain_queries) == (first.sql, first.domain_queries)
    assert again.workloads["person"].key == first.workloads["person"].key


def test_an_argument_that_is_not_listed_is_refused() -> None:
    for kind, listed in known.ARGUMENTS.items():
        assert listed <= set(kind.arg_types), kind
        for name in set(kind.arg_types) - listed:
            given = {"this": exp.DType.INT} if kind is exp.DataType else {}
            node = kind(**given, **{name: True})
            with pytest.raises(TallyveilError):
                check(node)


def test_every_word_lists_its_arguments() -> None:
    words = {*known.SYNTAX, *known.FUNCTIONS, *known.AGGREGATES, *known.WINDOW_FUNCTIONS}
    assert words | set(known.REFUSED_AGGREGATES) == set(known.ARGUMENTS)


def test_nothing_in_the_public_database_reaches_outside(world: World) -> None:
    """The second wall, should anything ever pass the first."""
    for sql in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/tallyveil-should-not-exist'",
        "ATTACH '/tmp/tallyveil-should-not-exist.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
        "SELECT * FROM world",
        "SELECT * FROM DOMAIN",
    ):
        with pytest.raises(StatementError):
            world.cursor.rows(sql)
