"""count(DISTINCT unit) where a unit has several rows: against DuckDB, against what units lose, in
several processes and after failures."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, TallyveilError
from tallyveil.gate import Gate
from tests.gate.growing_visits import Visits
from tests.gate.many_sessions import PATIENCE
from tests.gate.shared_units import Unit, cubes_of, losses, policy_of, statement, tables, units
from tests.pairs import alternately
from tests.programs import start

_KINDS, _DAYS, _SEXES = ["a", "b"], [1, 2, 3], ["F", "M"]
_JOIN = "FROM visit AS v JOIN person AS p ON v.pid = p.pid"
_STATEMENTS = [
    "SELECT count(DISTINCT pid) FROM visit",
    "SELECT kind, count(DISTINCT pid) AS n FROM visit WHERE day < 3 GROUP BY kind",
    "SELECT kind, count(DISTINCT pid) AS n FROM visit WHERE day < 2 GROUP BY kind",
    "SELECT count(DISTINCT pid) FILTER (WHERE kind = 'a') AS a, count(DISTINCT CASE WHEN day = 2"
    " THEN pid END) AS b, count(*) AS n, count(DISTINCT kind) AS k FROM visit",
    "SELECT day, kind, count(DISTINCT pid) AS n FROM visit GROUP BY ROLLUP (day, kind)",
    "SELECT day, count(DISTINCT pid) AS n FROM visit GROUP BY day HAVING count(DISTINCT pid) > 20",
    f"SELECT sex, count(DISTINCT v.pid) AS n {_JOIN} GROUP BY sex",
    f"SELECT count(DISTINCT p.pid) {_JOIN} WHERE age > 0 AND day > 1",
    "SELECT sex, count(DISTINCT pid) AS n FROM visit JOIN person USING (pid) GROUP BY sex",
    "SELECT count(DISTINCT v.pid) FROM visit v LEFT JOIN person p ON v.pid = p.pid",
    "SELECT r, count(DISTINCT pid) AS n FROM visit JOIN region ON kind = s OR day = 1 GROUP BY r",
    "SELECT count(DISTINCT t.pid) FROM (SELECT pid, day FROM visit WHERE kind = 'b') AS t"
    " WHERE day > 1",
    "WITH late AS (SELECT * FROM visit WHERE day = 3) SELECT kind, count(DISTINCT pid) AS n FROM"
    " late GROUP BY kind",
    "SELECT day, n FROM (SELECT day, count(DISTINCT pid) AS n FROM visit GROUP BY day) AS t"
    " ORDER BY n DESC LIMIT 2",
    "SELECT count(DISTINCT pid) FROM person",
]


@pytest.fixture(scope="module")
def source() -> Iterator[duckdb.DuckDBPyConnection]:
    rolled, people = random.Random(0), []
    for _ in range(80):
        persons = ((rolled.choice(_SEXES), rolled.choice([0, 1, 2])),) * rolled.randrange(2)
        visits = [(rolled.choice(_KINDS), rolled.choice(_DAYS)) for _ in range(rolled.randrange(3))]
        people.append(Unit(persons, tuple(visits)))
    with duckdb.connect() as database:
        tables(database, people)
        for table in ("person", "visit"):
            database.execute(f"DELETE FROM {table} WHERE pid IS NULL")
        database.execute(
            "CREATE TABLE region AS FROM (VALUES ('a', 'x'), ('b', 'y'), ('c', 'x')) t(s, r)"
        )
        yield database


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_answers_are_duckdbs(
    source: duckdb.DuckDBPyConnection, tmp_path: Path, dialect: str
) -> None:
    """With noise that is 0 but with a probability of e^-80."""
    policy = policy_of(tmp_path, public={"region": {"from": "region"}})
    gate = Gate(policy, source, time_limit=PATIENCE)
    with closing(gate.session("alice", "people", dialect)) as session:
        session.set("dp.epsilon", "1000")
        for sql in _STATEMENTS:
            table, _ = session.query(sql)
            found = [] if table is None else [tuple(row.values()) for row in table.to_pylist()]
            rows = source.execute(sql).fetchall()
            order = "ORDER BY" in sql
            assert found == rows if order else sorted(found, key=repr) == sorted(rows, key=repr)
    gate.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(DISTINCT p.pid) FROM visit v LEFT JOIN person p ON v.pid = p.pid",
        f"SELECT count(DISTINCT pid) {_JOIN}",
        "SELECT r, count(DISTINCT v.pid) FROM region LEFT JOIN visit v ON kind = s GROUP BY r",
        "SELECT count(DISTINCT p.pid) FROM person p JOIN region ON sex = s",
        "SELECT count(DISTINCT pid + 1) FROM visit",
        "SELECT count(DISTINCT (pid, kind)) FROM visit",
        "SELECT sum(DISTINCT pid) FROM visit",
        "SELECT count(pid) FROM visit",
        "SELECT pid FROM visit GROUP BY pid",
        "SELECT count(DISTINCT pid) FROM (SELECT pid FROM visit UNION ALL SELECT pid FROM visit) t",
        "SELECT count(DISTINCT pid), min(pid) FROM (SELECT pid, kind FROM visit) AS t",
    ],
)
def test_nothing_else_is_said_of_units(
    source: duckdb.DuckDBPyConnection, tmp_path: Path, sql: str
) -> None:
    policy = policy_of(tmp_path, public={"region": {"from": "region"}})
    with tallyveil.connect(policy, source=source) as connection:
        with pytest.raises(TallyveilError):
            connection.execute(sql)
        assert [row["spent"] for row in connection.budget()] == [0, 0]


@pytest.mark.parametrize(
    ("unit", "most", "each_day"),
    [
        ('{ column = "pid", max_rows = 3 }', 3, False),
        ('{ column = "pid", max_rows = 1, per = "day", window = 2 }', 1, True),
    ],
)
def test_units_are_found_again_on_other_days(
    tmp_path: Path, unit: str, most: int, each_day: bool
) -> None:
    """Of a table that grows, in a process that followed and in one that was opened later."""
    visits = Visits(tmp_path)
    visits.declare(unit=unit)
    rows = [(n, n % 3, person, 0) for n in range(6) for person in range(5) if (n * person) % 4 < 2]
    visits.fill([*rows, rows[-1]])  # once more on the last day
    kept, number = list[tuple[int, int, int]](), Counter[Any]()
    for n, kind, person, _ in rows:
        of = (person, n) if each_day else person
        number[of] += 1
        if number[of] <= most:
            kept.append((n, kind, person))
    by_kind = "SELECT kind, count(DISTINCT pid) FROM visits GROUP BY kind"
    in_all = "SELECT count(DISTINCT pid) FROM visits"
    settings = "SET dp.epsilon = 10000", "SET dp.source = fresh"
    visits.publish(0)
    with visits.open(*settings) as followed:
        for through in (0, 2, 5):
            visits.publish(through)
            with visits.open(*settings) as opened:
                for connection in (followed, opened):
                    assert dict(connection.sql(by_kind).fetchall()) == {
                        kind: len({p for n, k, p in kept if k == kind and n <= through})
                        for kind in range(3)
                    }
                    ((every,),) = connection.sql(in_all).fetchall()
                    assert every == len({p for n, _, p in kept if n <= through})


def _of_units(rolled: random.Random) -> str:
    kind = rolled.choice(["visit", "visit", "join"])
    where = rolled.choice(["true", "kind = 'a'", "day > 1", "kind = 'b' AND day < 3"])
    if kind == "join":
        where = rolled.choice([where, "sex = 'F'", "age >= 1 AND day = 2"])
    source = _JOIN if kind == "join" else "FROM visit AS v"
    keys = ["kind", "day", "kind, day", *(["sex", "age, kind"] if kind == "join" else [])]
    key = rolled.choice(["", *keys])
    shown = f"{key}, " if key else ""
    grouped = f" GROUP BY {key}" if key else ""
    return f"SELECT {shown}count(DISTINCT v.pid) AS n {source} WHERE {where}{grouped}"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Unit, dict[str, Cube]]]:
    """Units, each with the cubes of a source that holds nobody else; the first is nobody."""
    policy = policy_of(tmp_path_factory.mktemp("people"))
    with duckdb.connect() as database:
        found = [*units(random.Random(1), 10)][::3]
        return [(unit, cubes_of(policy, database, [unit])) for unit in found]


@pytest.mark.parametrize(
    ("neighbours", "measure"),
    alternately(["add_remove", "replace"], ["rho", "epsilon"]),
)
def test_no_unit_loses_more_than_is_charged(
    people: list[tuple[Unit, dict[str, Cube]]],
    database: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    neighbours: str,
    measure: str,
) -> None:
    """By brute force over pairs of data sets that differ in one unit's rows in both tables, for
    histories of counts of units and of rows, in the visits alone and joined."""
    policy, cubes = policy_of(tmp_path, measure, neighbours), [own for _, own in people]
    others = slice(0, 1 if neighbours == "add_remove" else None)
    tables(database, [unit for unit, _ in people])
    rolled = random.Random(f"0 {neighbours} {measure}")
    with tallyveil.connect(policy, source=database) as connection:
        connection.execute("SET dp.source = fresh")
        for number in range(8):
            connection.execute(f"SET dp.{measure} = {rolled.choice(['0.1', '0.75', '2'])}")
            connection.execute(statement(rolled) if number % 3 == 2 else _of_units(rolled))
        ledger = connection._gate.accountant
        spent = float(ledger.balance("visit").spent)
        each = [ledger.statistics("visit", 0), ledger.statistics("person", 0)]
        each += [ledger.learned(table, 0, 0)[0] for table in ("visit", "person")]
    assert len(each[0]) >= 4
    lost = [losses(one, cubes, measure)[others] for own in each for one in own]
    most = np.max(sum(lost, np.zeros(1)))
    assert 0.4 * spent < most <= spent * (1 + 1e-12)


SQL = "SELECT sex, count(DISTINCT pid) AS d, dp_interval_low(d) AS low FROM person GROUP BY sex"
STAYS = "SELECT i // 3 AS pid, i % 20 AS age, ['F', 'M'][1 + i % 2] AS sex FROM range(600) t(i)"


def gate(directory: Path, epsilon: float) -> Gate:
    attributes = {"age": {"range": [0, 19]}, "sex": {"values": ["F", "M"]}}
    table = {
        "from": "stays",
        "budget": {"epsilon": epsilon},
        "attributes": attributes,
        "privacy_unit": {"column": "pid", "max_rows": 3},
    }
    policy = tallyveil.parse_policy({"tables": {"person": table}}, base=directory)
    with duckdb.connect() as source:
        source.execute(f"CREATE TABLE stays AS {STAYS}")
        return Gate(policy, source, time_limit=PATIENCE)


def answer(own: Gate, sql: str = SQL, **settings: str) -> list[dict[str, Any]]:
    with closing(own.session("alice", "people", "duckdb")) as session:
        for name, value in settings.items():
            session.set(f"dp.{name}", value)
        table, _ = session.query(sql)
    rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
    return rows


def test_what_one_process_buys_others_and_later_ones_answer_alike(tmp_path: Path) -> None:
    first, second = (gate(tmp_path, 1000.0) for _ in range(2))
    found = answer(first, epsilon="2")
    assert answer(second, epsilon="2") == found == answer(second, source="history")
    first.accountant.summarise(0)
    third = gate(tmp_path, 1000.0)
    one = "SELECT count(DISTINCT pid) AS d FROM person WHERE sex = 'F'"
    assert answer(third, one, source="history") == [{"d": found[0]["d"]}]
    for own in (first, second, third):
        assert float(own.accountant.balance("person").spent) == 2
        own.close()


DIES = """
import os, signal, sys
from pathlib import Path
from tallyveil.accountant import Accountant
from tests.gate import test_gate_unit_counts as unit_counts
gate = unit_counts.gate(Path(sys.argv[1]), 1.5)
Accountant.record = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
unit_counts.answer(gate, epsilon="1")
"""


def test_a_process_that_dies_after_the_charge_has_paid(tmp_path: Path) -> None:
    with start(DIES, tmp_path, stderr=subprocess.PIPE) as other:
        other.communicate(timeout=PATIENCE)
    own = gate(tmp_path, 1.5)
    assert {row["d"] for row in answer(own, source="history")} == {None}
    with pytest.raises(BudgetExceeded):
        answer(own, epsilon="1")
    assert None not in {row["d"] for row in answer(own, epsilon="0.5")}
    assert own.accountant.balance("person").spent == pytest.approx(1.5)
    own.close()


def test_answers_are_as_good_as_they_say(tmp_path: Path) -> None:
    """60 numbers of 200 people: 95 % intervals miss more than 15 once in 10⁷."""
    own, missed = gate(tmp_path, 10_000.0), 0
    sql = (
        "SELECT dp_interval_low(n) AS low, dp_interval_high(n) AS high FROM (SELECT count(DISTINCT"
    )
    for _ in range(60):
        (row,) = answer(own, f"{sql} pid) AS n FROM person) AS t", epsilon="1", source="fresh")
        missed += not row["low"] <= 200 <= row["high"]
    assert missed <= 15
    own.close()
