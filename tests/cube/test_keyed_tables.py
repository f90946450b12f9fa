"""A keyed table's cells: the rows kept of each unit, each with the head's one row of the unit."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyveil.cube import cube_loading, load_cubes
from tallyveil.errors import SourceError
from tallyveil.policy import parse_policy

KEY = bytes(range(32))
MOST = 2
PIDS = [None, "p", "P", "q"]
persons = st.lists(st.tuples(st.sampled_from(PIDS), st.sampled_from(["F", "M", "X", None])))
visits = st.lists(st.tuples(st.sampled_from(PIDS), st.integers(0, 3) | st.none()))
Rows = Sequence[tuple[Any, ...]]


def unit(most: int) -> dict[str, Any]:
    return {"privacy_unit": {"column": "pid", "max_rows": most}}


LATE = "CAST(concat('2026-01-0', day) AS DATE) > DATE '2026-01-01' -- it fails for day 0"
POLICY = parse_policy(
    {
        "tables": {
            "visit": unit(MOST)
            | {"keys": {"pid": "person.pid"}, "attributes": {"day": {"range": [1, 2]}}},
            "person": unit(1)
            | {
                "budget": {"epsilon": 1},
                "attributes": {"sex": {"values": ["F", "M"], "nullable": True}},
                "per_unit": {
                    "visits": {"count": "visit"},
                    "late": {"count": "visit", "where": LATE, "at_most": 1},
                },
            },
        }
    }
)
SEX = {"F": 0, "M": 1, None: 2}


def fill(database: duckdb.DuckDBPyConnection, people: Rows, visited: Rows) -> None:
    pid = "pid VARCHAR COLLATE NOCASE"
    database.execute(f"CREATE OR REPLACE TABLE person ({pid}, sex VARCHAR)")
    database.execute(f"CREATE OR REPLACE TABLE visit ({pid}, day INTEGER)")
    for table, rows in (("person", people), ("visit", visited)):
        if rows:
            database.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)


def kept(rows: Rows, names: Sequence[str], most: int) -> list[tuple[Any, ...]]:
    """The first rows of each unit in the order of their keyed hashes, from its definition."""
    seen: Counter[tuple[Any, ...]] = Counter()
    places = []
    for row in rows:
        seen[row] += 1
        values = [row[names.index(name)] for name in sorted(names)]
        text = "".join(":" if v is None else f"{len(str(v))}:{v}" for v in values)
        place = hashlib.sha256(KEY + text.encode()).digest()
        if seen[row] > 1:
            place = hashlib.sha256(place + str(seen[row]).encode()).digest()
        places.append((place, row))
    taken: Counter[str] = Counter()
    found = []
    for _, row in sorted(places):
        taken[row[0]] += 1
        if row[0] is not None and taken[row[0]] <= most:
            found.append(row)
    return found


def oracle(people: Rows, visited: Rows) -> Counter[tuple[int, bool, str | None]]:
    """The records of visit by day, whether there is a person, and that person's sex."""
    found: Counter[tuple[int, bool, str | None]] = Counter()
    for pid, day in kept(visited, ["pid", "day"], MOST):
        if day in (1, 2):
            found[day, pid in sexes(people), sexes(people).get(pid, "F")] += 1
    return found


def sexes(people: Rows) -> dict[str, str | None]:
    """The counted persons."""
    return {pid: sex for pid, sex in kept(people, ["pid", "sex"], 1) if sex in SEX}


relaxed = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(people=persons, visited=visits)
def test_a_visit_has_the_counted_person_of_its_unit(
    people: Rows,
    visited: Rows,
    counts: Callable[..., list[int]],
    database: duckdb.DuckDBPyConnection,
) -> None:
    fill(database, people, visited)
    cubes = load_cubes(POLICY, database, key=KEY)
    own = "person.pid found", "person.sex", "person.visits", "person.late"
    assert cubes["visit"].domain.names == ("day", *own)
    expected = oracle(people, visited)
    cells = itertools.product((1, 2), (True, False), SEX)
    assert counts(cubes["visit"], "day", *own[:2]) == [expected[cell] for cell in cells]
    days = [(pid, day) for pid, day in kept(visited, ["pid", "day"], MOST) if day in (1, 2)]
    visits, late = Counter(pid for pid, _ in days), {pid for pid, day in days if day == 2}
    alone = Counter(
        (sex, visits[pid], pid in late)
        for pid, sex in kept(people, ["pid", "sex"], 1)
        if sex in SEX
    )
    cells = itertools.product(SEX, range(MOST + 1), (False, True))
    assert counts(cubes["person"]) == [alone[cell] for cell in cells]
    found = Counter((visits[pid], pid in late) for pid, day in days if pid in sexes(people))
    joined = counts(cubes["visit"], *own[:1], *own[2:])[: (MOST + 1) * 2]
    cells = itertools.product(range(MOST + 1), (False, True))
    assert joined == [found[cell] for cell in cells]


@relaxed
@given(people=persons, visited=visits)
def test_a_unit_moves_each_table_by_its_rows_alone(
    people: Rows,
    visited: Rows,
    counts: Callable[..., list[int]],
    database: duckdb.DuckDBPyConnection,
) -> None:
    """Without the rows of one unit in both tables, no cell has more, and at most max_rows fewer."""
    fill(database, people, visited)
    whole = load_cubes(POLICY, database, key=KEY)
    others = [[row for row in rows if row[0] != "p"] for rows in (people, visited)]
    fill(database, *others)
    rest = load_cubes(POLICY, database, key=KEY)
    for table, most in (("person", 1), ("visit", MOST)):
        lost = [a - b for a, b in zip(counts(whole[table]), counts(rest[table]), strict=True)]
        assert min(lost) >= 0
        assert sum(lost) <= most


@pytest.mark.parametrize("rows", ["VALUES (1), (2)", "SELECT 1 WHERE false"])
def test_units_of_types_that_do_not_compare_are_refused(
    database: duckdb.DuckDBPyConnection, rows: str
) -> None:
    for table, kind, item in (
        ("visit", "VARCHAR", "1 AS day"),
        ("person", "INTEGER", "'F' AS sex"),
    ):
        made = f"SELECT CAST(t.x AS {kind}) AS pid, {item} FROM ({rows}) t(x)"
        database.execute(f"CREATE TABLE {table} AS {made}")
    with pytest.raises(SourceError) as refused:
        load_cubes(POLICY, database, key=KEY)
    assert refused.value.message == (
        "tables.visit.keys.pid: the column is VARCHAR, and person.pid is INTEGER: when they are the"
        " same unit is not defined"
    )


def test_whole_numbers_of_any_width_compare(
    database: duckdb.DuckDBPyConnection, counts: Callable[..., list[int]]
) -> None:
    database.execute("CREATE TABLE visit AS SELECT CAST(-1 AS TINYINT) AS pid, 1 AS day")
    database.execute(
        "CREATE TABLE person AS SELECT CAST(t.x AS HUGEINT) AS pid, 'M' AS sex"
        " FROM (VALUES (-1), (170141183460469231731687303715884105727)) t(x)"
    )
    visit = load_cubes(POLICY, database, key=KEY)["visit"]
    assert counts(visit, "person.pid found", "person.sex") == [0, 1, 0, 0, 0, 0]


def test_all_tables_are_counted_from_one_snapshot(
    database: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that another connection adds while the tables are counted are in none of them."""
    fill(database, [("p", "F")], [("p", 1)])
    own = cube_loading._load

    def load(*arguments: Any) -> Any:
        found = own(*arguments)
        for table in ("person", "visit"):
            database.execute(f"INSERT INTO {table} SELECT 'q', * EXCLUDE pid FROM {table} LIMIT 1")
        return found

    monkeypatch.setattr(cube_loading, "_load", load)
    cubes = load_cubes(POLICY, database, key=KEY)
    assert [int(cube._counts.counts.sum()) for cube in cubes.values()] == [1, 1]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("dya = 2", "BinderException"),
        ("day = ", "ParserException"),
        ("1; SELECT 1", "Parser"),
        ("day = 1) OR (day = 2", "Parser"),
        ("pid", "expected a condition"),
        ("day", "expected a condition"),
    ],
)
def test_a_condition_that_is_none_is_refused(
    database: duckdb.DuckDBPyConnection, where: str, message: str
) -> None:
    fill(database, [], [])
    declared = POLICY.tables["person"]
    late = declared.per_unit["late"].model_copy(update={"where": where})
    person = declared.model_copy(update={"per_unit": {"late": late}})
    policy = POLICY.model_copy(update={"tables": {**POLICY.tables, "person": person}})
    with pytest.raises(SourceError, match=rf"^tables\.person\.per_unit\.late\.where: .*{message}"):
        load_cubes(policy, database, key=KEY)
