"""Bins that are represented by numbers, and texts by their first characters: equal to DuckDB on the
records changed as declared, at an ε so large that the noise is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import BinCut, FeatureNotSupported

EDGES = [0, 1501, 3000, 6000, 12000]
ATTRIBUTES: dict[str, Any] = {
    "income": {"bins": EDGES, "represent": "middle", "clamp": True, "nullable": True},
    "listed": {
        "bins": EDGES, "represent": [0, 2000, Decimal("4500.25"), 9000], "other": True,
        "column": "income",
    },
    "level": {"bins": [0.0, 0.5, 1.5], "represent": "middle", "clamp": True},
    "plain": {"bins": EDGES, "other": True, "column": "income"},
    "code": {"values": ["AB", "BC", "É1", ""], "prefix": 2, "other": True},
}  # fmt: skip
RECORDS = """
    SELECT CASE WHEN i % 11 > 0 THEN i * 37 % 13000 - 500 END AS income, i % 13 / 8.0 AS level,
        ['AB1', 'ABAB', 'BC', 'É12', 'E', ''][1 + i % 6] AS code
    FROM range(700) t(i)
"""
CHANGED = """
    SELECT CASE WHEN income < 1501 THEN 750.5 WHEN income < 3000 THEN 2250.5
        WHEN income < 6000 THEN 4500 WHEN income IS NOT NULL THEN 9000 END AS income,
        CASE WHEN income < 0 THEN NULL WHEN income < 1501 THEN 0 WHEN income < 3000 THEN 2000
        WHEN income < 6000 THEN 4500.25 WHEN income < 12000 THEN 9000 END AS listed,
        CASE WHEN level < 0.5 THEN 0.25 ELSE 1.0 END AS level,
        CASE WHEN code = 'E' THEN 'other' ELSE left(code, 2) END AS code
    FROM records
"""


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE records AS {RECORDS}")
        connection.execute(f"CREATE TABLE person AS {CHANGED}")
        yield connection


@pytest.fixture(scope="module")
def person(
    raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tallyveil.Connection]:
    table = {"from": "records", "budget": {"epsilon": 1e6}, "attributes": ATTRIBUTES}
    policy = tallyveil.parse_policy(
        {"tables": {"person": table}, "defaults": {"epsilon": 3e4}},
        base=tmp_path_factory.mktemp("rules"),
    )
    with tallyveil.connect(policy, source=raw) as connection:
        yield connection


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*), sum(income), avg(listed), sum(level) FROM person",
        "SELECT income, count(*) FROM person WHERE income < 6000 GROUP BY income ORDER BY 1",
        "SELECT listed, sum(listed * 2) FROM person WHERE listed >= 1501 GROUP BY 1 ORDER BY 1",
        "SELECT floor(income / 1000), count(*) FROM person WHERE level < 0.5 GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM person WHERE income > listed",
        "SELECT code, count(*) FROM person WHERE code LIKE 'A%' OR code IN ('BC', 'É1') GROUP BY 1"
        " ORDER BY 1",
        "SELECT length(code), count(*) FROM person WHERE code < 'B' GROUP BY 1 ORDER BY 1",
    ],
)
def test_answers_are_those_of_the_changed_records(
    person: tallyveil.Connection, raw: duckdb.DuckDBPyConnection, sql: str
) -> None:
    found = [row for row in person.execute(sql).fetchall() if row[-1] is None or row[-1] > 0.5]
    for row, expected in zip(found, raw.execute(sql).fetchall(), strict=True):
        assert row[:-1] == pytest.approx(expected[:-1], abs=25), sql
        assert row[-1] == pytest.approx(expected[-1], abs=25), sql


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("income < 2000", BinCut, "cuts through a bin of income"),
        ("code = 'AB1'", BinCut, "more of code than is known"),
        ("code LIKE 'AB_%'", BinCut, "more of code than is known"),
        ("plain * 2 > 3", BinCut, "cuts through a bin of plain"),
        ("listed = 4500.25", BinCut, "cuts through a bin of listed"),
    ],
)
def test_what_is_not_known_is_refused(
    person: tallyveil.Connection, condition: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        person.execute(f"SELECT count(*) FROM person WHERE {condition}")


def test_bins_without_a_number_have_no_sum(person: tallyveil.Connection) -> None:
    with pytest.raises(FeatureNotSupported, match="binned attribute plain"):
        person.execute("SELECT sum(plain) FROM person")


def test_analysts_see_the_rules(person: tallyveil.Connection) -> None:
    shown = dict(person.execute("SELECT attribute, domain FROM dp.attributes").fetchall())
    assert shown["listed"].endswith("12000) represented by 0.00, 2000.00, 4500.25, 9000.00")
    assert shown["code"].endswith(", by the first 2 characters")
