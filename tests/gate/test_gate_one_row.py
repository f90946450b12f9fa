"""All multiples of a row are one row: it is known in the units of any statement that asks it.

A column is kept in units of the common factor of its coefficients, so that `sum(b) WHERE b = 2`
counts in steps of 2, and the row b = 2 of `SELECT b, sum(b) … GROUP BY b` in steps of 1. Statements
of more rows than are estimated jointly know the rows' own answers alone, which are found by the
rows' names: of more than 2,000, and where it does not matter how many others there are, of 60.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import psycopg
import pytest

import tallyveil
from tallyveil.gate import Gate
from tallyveil.proxy import Server, ServerThread, Trust
from tests.pairs import alternately

JOINTLY, GROUPS, MANY = 60, 70, 2_100
ASKED = "{n} AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
WHERE = f"SELECT {ASKED} WHERE key(b) = 2"
EVERY = f"SELECT {ASKED}"
GROUPED = f"SELECT {ASKED} GROUP BY key(b) HAVING key(b) = 2"
ROLLED = f"SELECT {ASKED} GROUP BY ROLLUP (key(b)) HAVING key(b) = 2"
SETS = f"SELECT {ASKED} GROUP BY GROUPING SETS ((key(b)), ()) HAVING key(b) = 2"


class Form(NamedTuple):
    """A way to ask a row, times so much."""

    sql: str
    asked: str
    times: Fraction

    def of(self, groups: int) -> str:
        return self.sql.format(n=self.asked).replace("key(b)", f"(b % {groups})")


def forms(*each: tuple[str, str, Any]) -> list[Form]:
    return [Form(sql, asked, Fraction(times)) for sql, asked, times in each]


FAMILIES = {
    "sums": forms(
        (WHERE, "sum(b)", 1),
        (WHERE, "sum(-b)", -1),
        (WHERE, "sum(3 * b)", 3),
        (WHERE, "sum(b * 0.25)", "0.25"),
        (WHERE, "sum(CAST(b AS double) / 8)", "0.125"),
        (EVERY, "sum(CASE WHEN key(b) = 2 THEN -5 * b ELSE 0 END)", -5),
        (EVERY, "sum(b) FILTER (WHERE key(b) = 2)", 1),
        (GROUPED, "sum(b)", 1),
        (GROUPED, "sum(-2 * b)", -2),
        (ROLLED, "sum(b)", 1),
        (SETS, "sum(7 * b)", 7),
    ),
    "counts": forms(
        (WHERE, "count(*)", 1),
        (WHERE, "sum(5)", 5),
        (WHERE, "sum(key(b))", 2),
        (WHERE, "sum(-key(b) * 0.1)", "-0.2"),
        (EVERY, "sum(CASE WHEN key(b) = 2 THEN 3 WHEN b < 0 THEN 1 END)", 3),
        (GROUPED, "count(*)", 1),
        (GROUPED, "sum(key(b))", 2),
        (GROUPED, "sum(-key(b))", -2),
        (ROLLED, "sum(key(b))", 2),
        (SETS, "count(b)", 1),
    ),
}
# A total that is reported beside few groups makes their estimates better than their answers.
CASES = [
    pytest.param(name, number, MANY, id=f"{name}-{number}-many")
    if form.sql in (ROLLED, SETS)
    else pytest.param(name, number, GROUPS, marks=[pytest.mark.slow] if number % 2 else [])
    for name, each in FAMILIES.items()
    for number, form in enumerate(each)
]


class Reported(NamedTuple):
    """In units of the row that the family is about."""

    value: Fraction
    width: Fraction


Open = Callable[[], tallyveil.Connection]


@pytest.fixture
def groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many there are: more than are estimated jointly."""
    number = int(getattr(request, "param", GROUPS))
    if number < MANY:
        monkeypatch.setattr("tallyveil.knowledge.estimator._ROWS", JOINTLY)
    return number


@pytest.fixture
def opened(tmp_path: Path, groups: int) -> Iterator[Open]:
    source = duckdb.connect()
    rows = f"range({4 * groups})"
    source.execute(f"CREATE TABLE people AS SELECT i % {2 * groups} AS b FROM {rows} t(i)")
    held: list[tallyveil.Connection] = []

    def make() -> tallyveil.Connection:
        """Anew, on the ledger there is."""
        for one in held:
            one.close()
        attributes = {"b": {"range": [0, 2 * groups - 1]}}
        table = {"from": "people", "budget": {"epsilon": 1000.0}, "attributes": attributes}
        keys = {"tables": {"person": table}, "defaults": {"epsilon": 0.5}}
        policy = tallyveil.parse_policy(keys, base=tmp_path)
        held.append(tallyveil.connect(policy, source=source))
        return held[-1]

    yield make
    for one in held:
        one.close()
    source.close()


def ask(connection: tallyveil.Connection, form: Form, groups: int = GROUPS) -> Reported | None:
    [(value, low, high)] = connection.execute(form.of(groups)).fetchall()
    if value is None:
        return None
    width = Fraction(high) - Fraction(low)
    return Reported(Fraction(value) / form.times, width / abs(form.times))


def step(form: Form, family: str) -> Fraction:
    """At most the unit that its statement's answers are whole numbers of, in the row's own; the
    row of a sum is (2, 72), and its cells' common factor 2."""
    return Fraction(2) if family == "sums" else Fraction(1)


@pytest.mark.parametrize(("family", "number", "groups"), CASES, indirect=["groups"])
def test_what_was_said_in_one_unit_is_known_in_all(
    opened: Open, family: str, number: int, groups: int
) -> None:
    every = FAMILIES[family]
    connection = opened()
    first = ask(connection, every[number], groups)
    assert first is not None
    connection = opened()
    connection.execute("SET dp.source = history")
    for form in every:
        known = ask(connection, form, groups)
        assert known is not None
        assert known.width <= first.width + 2 * step(form, family)
        assert abs(known.value - first.value) <= step(form, family)
    spent = connection.budget()
    connection.execute("SET dp.source = auto")
    now = ask(connection, every[number], groups)
    assert now is not None
    assert now.width <= first.width
    assert connection.budget() == spent


@pytest.mark.parametrize(("order", "family"), alternately([1, -1], FAMILIES))
def test_it_never_gets_worse(opened: Open, family: str, order: int) -> None:
    """Each is asked in turn, and bought where it is not known well enough."""
    connection = opened()
    least: Fraction | None = None
    for form in FAMILIES[family][::order]:
        for source in ("auto", "history"):
            connection.execute(f"SET dp.source = {source}")
            now = ask(connection, form)
            assert now is not None
            if least is not None:
                assert now.width <= least + 2 * step(form, family)
            least = now.width if least is None else min(least, now.width)
        connection = opened()


def test_an_average_is_known_from_multiples_of_its_sum_and_its_count(opened: Open) -> None:
    connection = opened()
    connection.execute("SET dp.epsilon = 20")  # a count of four is not reported as 0
    connection.execute(f"SELECT sum(b / 4.0) FROM person WHERE b % {GROUPS} = 2")
    connection.execute(f"SELECT sum(-9) FROM person WHERE b % {GROUPS} = 2")
    connection = opened()
    connection.execute("SET dp.source = history")
    [(mean,)] = connection.execute(
        f"SELECT avg(b) FROM person GROUP BY b % {GROUPS} HAVING b % {GROUPS} = 2"
    ).fetchall()
    assert mean is not None


def test_all_multiples_of_a_row_have_one_sequence_of_looks(opened: Open) -> None:
    connection = opened()
    connection.execute("SET dp.coverage = always")
    connection.execute("SET dp.source = fresh")
    for form in FAMILIES["counts"][:5]:
        connection.execute(form.of(GROUPS))
    connection.execute("SET dp.source = history")
    widths = []
    for form in FAMILIES["counts"]:
        known = ask(connection, form)
        assert known is not None
        widths.append(known.width)
    assert max(widths) - min(widths) <= 2


@pytest.mark.parametrize("order", [1, -1], ids=("one first", "all first"))
def test_it_is_known_over_the_wire(tmp_path: Path, order: int) -> None:
    """In steps of a half."""
    keys = {
        "tables": {
            "person": {
                "from": "people",
                "budget": {"epsilon": 1000.0},
                "attributes": {"b": {"range": [0, MANY - 1]}},
            }
        },
        "defaults": {"epsilon": 0.5},
    }
    parts = ["WHERE b = 3", "GROUP BY b HAVING b = 3"][::order]
    with duckdb.connect() as source, ExitStack() as running:
        source.execute(f"CREATE TABLE people AS SELECT i % {MANY} AS b FROM range(9000) t(i)")
        gate = running.enter_context(
            closing(Gate(tallyveil.parse_policy(keys, base=tmp_path), source))
        )
        server = running.enter_context(ServerThread(Server(gate.session, port=0, auth=Trust())))
        address = f"postgresql://alice@127.0.0.1:{server.port}/people"
        connection = running.enter_context(psycopg.connect(address, autocommit=True))
        widths = []
        for part in parts:
            rows = connection.execute(
                "SELECT sum(b * 0.5) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
                f" {part}"
            ).fetchall()
            [(_, low, high)] = rows
            widths.append(high - low)
            connection.execute("SET dp.source = history")
        assert widths[1] <= widths[0] + 3
