"""Hostile statements are refused with what to do instead, soon, whatever they grow by.

A statement of each class would take hours or the machine's memory if it were worked on; that the
test ends is the test.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from sqlglot import exp, parse_one

from tallyveil.errors import QueryCanceled, StatementError, StatementTooComplex
from tallyveil.rewriter import PublicDatabase
from tallyveil.rewriter.resolve import probes
from tallyveil.rewriter.sql.nodes import all_nodes, unlink
from tests.rewriter.world import DOMAIN, World


def listed(template: str, number: int, by: str = ", ") -> str:
    return by.join(template.format(n=n, p=n - 1) for n in range(1, number + 1))


def common(first: str, step: str, number: int, last: str) -> str:
    """WITH items that each read the one before."""
    return f"with t0 as ({first}), {listed(f't{{n}} as ({step})', number)} {last}"


TWICE = "select x from t{p} union all select x from t{p}"
RECORDS = "select age as x from person"
NOISE = "select count(*) as x from person"

STATEMENTS = {
    "characters": ("select '" + "x" * 300_000 + "'", "54001", "characters"),
    "words": ("select " + listed("1", 50_000), "54001", "words and signs"),
    "items": (f"select {listed('1', 2000)}", "54001", "a list of the statement has 2000 items"),
    "keys": (f"select count(*) from person group by {listed('age + {n}', 2000)}", "54001", "items"),
    "arguments": (f"select concat({listed('age', 2000)}) from person", "54001", "items"),
    "digits": ("select count(*) from person where age < 0." + "9" * 4998, "22003", "5000 digits"),
    "SELECTs": (listed("select 1", 501, " union all "), "54001", "501 SELECTs"),
    "blocks": (
        "select " + listed("(select count(*) from person where age = {n})", 101),
        "54001",
        "101 SELECTs that aggregate records",
    ),
    **{
        f"nested {opened}": (f"select {opened * 60}1{closed * 60}", "54001", "nested too deeply")
        for opened, closed in (
            ("array[", "]"), ("[", "]"), ("bigint[", "]"), ("null[", "]"), ("if[", "]"),
            ("x::foo[", "]"), ("decimal(", ")"), ("char(", ")"), ("date(", ")"), ("text([", "])"),
        )
    },
    "brackets": ("select " + "(" * 3000 + "1" + ")" * 3000, "54001", "nested too deeply"),
    "signs": ("select " + "- " * 9000 + "1", "54001", "nested too deeply"),
    "sum": ("select count(*)" + " + 1" * 9000 + " from person", "54001", "nested too deeply"),
    "CASE": (
        "select " + "case when true then " * 800 + "1" + " end" * 800,
        "54001",
        "nested too deeply",
    ),
    "subqueries": (
        "select count(*) from " + "(select * from " * 400 + "person" + ") x" * 400,
        "54001",
        "nested too deeply",
    ),
    "common tables of records": (
        common(RECORDS, TWICE, 30, "select count(*) from t30"), "54001", "common tables",
    ),
    "public common tables": (
        common("select 1 as x", TWICE, 30, "select x from t30"), "54001", "common tables",
    ),
    "doubled columns": (
        common(RECORDS, "select x + x as x from t{p}", 25, "select count(x) from t25 where x > 1"),
        "54001",
        "columns of nested queries",
    ),
    "long columns": (
        f"select {listed('sum(' + ' + '.join(['x'] * 50) + ')', 30)} "
        f"from (select age{' + 1' * 20} as x from person) t",
        "54001",
        "columns of nested queries",
    ),
    "stars": (
        common(NOISE, "select p.*, q.* from t{p} p, t{p} q", 30, "select y from t30"),
        "54001",
        "columns",
    ),
    "listings": (
        common(
            "select distinct age as x from person", TWICE, 30, "select sum(x) from t30"
        ),
        "0A000",
        "counting distinct values",
    ),
    "unions": (
        f"select count(*) from ({listed('select age + {n} as x from person', 101, ' union all ')}) "
        "t where x > 3",
        "54001",
        "unites 101 queries",
    ),
    "rollup": (f"select count(*) from person group by rollup ({listed('age', 70)})", "54001",
               "64 grouping sets"),
    "cube": (f"select count(*) from person group by cube ({listed('age', 40)})", "54001",
             "64 grouping sets"),
    "sets": (f"select count(*) from person group by grouping sets ({listed('age', 70)})", "54001",
             "64 grouping sets"),
    "grouping": (
        f"select grouping({listed('age', 40)}), count(*) from person group by rollup (age)",
        "42803",
        "at most 31 arguments",
    ),
    "aggregates": (
        f"select {listed('count(*) filter (where age = {n})', 501)} from person",
        "54001",
        "500 different aggregates",
    ),
    "replaced texts": (
        "select count(*) from person where " + "replace(" * 12 + "state" + ", 'A', 'AAAAAAAAAA')"
        * 12 + " = 'x'",
        "22023",
        "too long a text",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "sqlstate", "says"), STATEMENTS.values(), ids=list(STATEMENTS))
def test_what_grows_beyond_a_limit_is_refused(
    world: World, sql: str, sqlstate: str, says: str
) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(sql)
    assert (caught.value.sqlstate, says in caught.value.message) == (sqlstate, True), caught.value


DEEP = [
    "select a" + " + a" * 9_990,
    "select " + "not " * 9_990 + "a",
    "select a" + " isnull" * 19_900,
    "select a" + " at local" * 9_900,
    "select " + "f(" * 4_900 + "a" + ")" * 4_900,
]
_IN_2_MB = """
import sys, threading, pgparse

def parse():
    for sql in sys.stdin.read().splitlines():
        try:
            pgparse.parse(sql)
        except RecursionError:
            print("deep")

threading.stack_size(2 << 20)
thread = threading.Thread(target=parse)
thread.start()
thread.join()
"""


def test_the_deepest_statement_takes_a_quarter_of_a_thread_s_stack() -> None:
    """Of 8 MB. PostgreSQL's parser, which is C, would end the process beyond it."""
    text = "\n".join(DEEP)
    command = [sys.executable, "-c", _IN_2_MB]
    found = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    assert (found.returncode, found.stdout.split()) == (0, ["deep"] * len(DEEP)), found.stderr


@pytest.mark.parametrize("name", ["common tables of records", "stars", "replaced texts"])
def test_the_limits_are_those_of_both_dialects(world: World, name: str) -> None:
    sql, sqlstate, _ = STATEMENTS[name]
    with pytest.raises(StatementError) as caught:
        world.plan(sql, "duckdb")
    assert caught.value.sqlstate == sqlstate


def test_parameters_hold_a_bounded_number_of_values(world: World) -> None:
    sql = "select count(*) from person where age = any($1)"
    few = world.plan(sql, types=["INTEGER[]"], values=[list(range(500))])
    assert few.workloads["person"].columns
    with pytest.raises(StatementTooComplex, match="parameters' values"):
        world.plan(sql, types=["INTEGER[]"], values=[list(range(100_000))])


def test_noise_that_names_itself_twice_costs_one_draw(world: World) -> None:
    """Common tables of noisy rows are not written out, however often one is named."""
    plan = world.plan(common(NOISE, "select a.x from t{p} a, t{p} b", 30, "select x from t30"))
    assert [column.height for column in plan.workloads["person"].columns] == [1]


def test_a_union_of_many_is_answered_as_on_the_rows(world: World) -> None:
    """Branch by branch in the types so far, in which the last may need a wider one."""
    queries = listed("select age + {n} as x from person", 40, " union all ")
    _, rows = world.answer(
        f"select count(*), sum(x) from ({queries} union all select 0.5 from person) t", "duckdb"
    )
    ages = world.answer("select count(*), count(age), sum(age) from person", "duckdb")[1][0]
    everyone, known, total = ages
    assert rows == [(41 * everyone, 40 * total + 820 * known + everyone / 2)]


@dataclass(frozen=True)
class Hurried:
    """Plans on a database whose time limit is a tenth of a second."""

    world: World
    cursor: Any

    def plan(self, sql: str, session: Callable[[str, list[str]], Any]) -> Any:
        return self.world.rewriter.plan(sql, "postgres", self.cursor, session=session)


@pytest.fixture
def hurried() -> Iterator[Hurried]:
    public = PublicDatabase([DOMAIN], time_limit=0.5)
    with closing(public), closing(World([])) as world, closing(public.cursor()) as cursor:
        yield Hurried(world, cursor)


def test_planning_has_one_time_limit_in_python_and_in_duckdb(hurried: Hurried) -> None:
    sql = "select version(), count(*) from person"
    with pytest.raises(StatementTooComplex, match="time limit") as caught:
        hurried.plan(sql, lambda name, arguments: time.sleep(0.6))
    assert caught.value.hint is not None
    assert hurried.plan(sql, lambda name, arguments: "x").private


def test_planning_is_cancelled_between_two_questions_to_duckdb(
    hurried: Hurried,
) -> None:
    sql = "select version(), count(*) from person"
    with pytest.raises(QueryCanceled):
        hurried.plan(sql, lambda name, arguments: hurried.cursor.interrupt())
    assert hurried.plan(sql, lambda name, arguments: "x").private


def test_each_side_of_a_long_union_is_looked_through_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For whether it can have rows: the sides of a UNION stand in each other."""
    seen: list[object] = []

    def counted(select: object, known: object) -> bool:
        seen.append(select)
        return False

    monkeypatch.setattr(probes, "_reads_nothing", counted)
    world.plan(listed("select count(*) from person where age = {n}", 40, " union all "))
    assert 40 <= len(seen) <= 80


@pytest.mark.parametrize(
    "item",
    ["sum(case when age < {n} then age + {n} end)", "avg(age) filter (where age > {n})"],
)
def test_the_trees_of_a_plan_need_no_collection(
    item: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What planning has kept until its end is freed with the last reference to it: what waits for a
    collection of garbage does not grow with the statement."""

    def counted(trees: Iterable[exp.Expr]) -> None:
        found = list(trees)
        kept.append(sum(1 for tree in found for _ in tree.walk()))
        gc.collect()  # what was made and dropped before
        unlink(found)

    kept, left = list[int](), list[int]()
    monkeypatch.setattr("tallyveil.rewriter.rewrite.unlink", counted)
    gc.disable()
    try:
        for number in (2, 20):
            world.plan(f"select {listed(item, number)} from person where age > 3")
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left.append(sum(isinstance(one, exp.Expr) for one in gc.garbage))
            gc.set_debug(0)
            gc.garbage.clear()
            gc.collect()
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert kept[1] > kept[0] + 300
    assert left[0] == left[1]


def test_nodes_are_those_that_the_parser_finds_in_its_order() -> None:
    tree = parse_one(
        "SELECT a + 1, (SELECT max(b) FROM u WHERE c = 2), sum(d) OVER (ORDER BY e) FROM t"
    )
    for types in (
        (exp.Expr,),
        (exp.Column, exp.Literal),
        (exp.Select,),
        (exp.Window,),
        (exp.Join,),
    ):
        found = [*map(id, all_nodes(tree, *types))]
        assert found == [*map(id, tree.find_all(*types))]
