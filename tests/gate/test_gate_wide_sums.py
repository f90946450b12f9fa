"""Sums beyond 64 bits: exact, as integers, and never cut off in silence."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tallyveil
from tallyveil.errors import NumericValueOutOfRange
from tallyveil.gate.deciding.outcome import Answered
from tallyveil.gate.rows import noisy_tables
from tallyveil.knowledge import Answers
from tallyveil.mechanisms import mechanism
from tallyveil.rewriter import Column, NoisyTable, Output, Plan, Workload
from tests.gate.asking import Connect

# All values are multiples of 2^52, so that at this epsilon the noise is 0, to all intents.
_BIG = 2**52
_PEOPLE = f"SELECT *, CASE WHEN age % 8 = 0 THEN 0 ELSE {_BIG} END AS big FROM people"


@pytest.fixture
def connection(connect: Connect) -> tallyveil.Connection:
    attributes = {"big": {"values": [0, _BIG]}, "sex": {"values": ["F", "M"]}}
    return connect(
        defaults={"epsilon": 20_000.0},
        budget={"epsilon": 1e6},
        attributes=attributes | {"age": {"range": [0, 79]}},
        **{"from": _PEOPLE},
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(big), avg(big), count(*), sum(age) FROM person",
        "SELECT sex, sum(big), sum(big) // 7, sum(big) % 1000 FROM person GROUP BY ROLLUP (sex)",
        "SELECT sum(n), max(n) FROM (SELECT sex, sum(big) AS n FROM person GROUP BY sex) t",
        "SELECT sum(big) + 3, sum(-big), sum(age * 1000000000000) FROM person",
        "SELECT sum(big * 0.5), avg(big * 0.5) FROM person WHERE sex = 'F'",
        "SELECT avg(big) FILTER (WHERE age > 40), sum(big::DOUBLE) FROM person",
    ],
)
def test_they_are_those_of_the_raw_rows(
    connection: tallyveil.Connection, source: duckdb.DuckDBPyConnection, sql: str
) -> None:
    source.execute(f"CREATE VIEW person AS {_PEOPLE}")
    ours, theirs = connection.sql(sql).fetchall(), source.execute(sql).fetchall()
    assert sorted(map(str, map(_plain, ours))) == sorted(map(str, map(_plain, theirs)))


def _plain(row: tuple[Any, ...]) -> list[Any]:
    """Integers whole, doubles by the digits that both divide to."""
    return [f"{v:.12g}" if isinstance(v, float) else Fraction(v) if _number(v) else v for v in row]


def _number(value: Any) -> bool:
    return isinstance(value, int | Decimal)


def test_they_keep_their_intervals(connection: tallyveil.Connection) -> None:
    (row,) = connection.sql(
        "SELECT dp_interval_low(s), s, dp_interval_high(s) FROM (SELECT sum(big) AS s FROM person)"
    ).fetchall()
    assert row[0] <= row[1] <= row[2]
    assert row[1] == 2625 * _BIG > 2**63


@pytest.mark.parametrize(
    ("kind", "largest", "words"),
    [
        (pa.int64(), 2**63 - 1001, "bigint"),
        (pa.decimal128(38, 0), 10**38 - 1001, "numeric\\(38, 0\\)"),
        (pa.decimal128(38, 2), 10**36 - 1001, "numeric\\(38, 2\\)"),
        (pa.float64(), 10**308, "double precision"),
    ],
)
def test_what_does_not_fit_is_no_other_number(kind: pa.DataType, largest: int, words: str) -> None:
    for value in (largest, -largest):
        assert int(_noisy(kind, value)) == (int(float(value)) if words[0] == "d" else value)
    for value in (largest * 100, -largest * 100):
        with pytest.raises(NumericValueOutOfRange, match=words):
            _noisy(kind, value)


def _noisy(kind: pa.DataType, value: int) -> Any:
    """A noisy answer as it reaches the outer statement in a column of that type."""
    table = NoisyTable("t", pa.table({}), 1, (Output("person", 0, kind),))
    plan = Plan({"person": Workload("person", (Column(),))}, (table,), "", frozenset(), ())
    known = Answers.with_noise([value], mechanism("laplace").law(20.0))
    answered = Answered({"person": (known,)}, {}, None)
    found = noisy_tables(plan, answered, Fraction(95, 100))
    return found["t"].column("__c0")[0].as_py()


def test_many_sums_of_many_different_values_are_answered(connect: Connect) -> None:
    """Under replace, where a record may lie outside the cube, and each value has its own loss."""
    connection = connect(
        neighbours="replace",
        budget={"epsilon": 1e6},
        attributes={"age": {"range": [0, 2999]}},
        **{"from": "SELECT age FROM people"},
    )
    sums = (f"sum(CASE WHEN age > {7 * n} THEN age + {n} ELSE age * 2 END)" for n in range(18))
    [row] = connection.sql(f"SELECT {', '.join(sums)} FROM person").fetchall()
    assert len(row) == 18
