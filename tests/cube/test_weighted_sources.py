"""A source whose rows stand for several records each counts as if each record had a row."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallyveil
from tallyveil.cube import load_cubes
from tallyveil.errors import LedgerMismatch, PolicyError, SourceError, StatementError
from tallyveil.policy import Policy, parse_policy, summary

# The census counts, by county: a public file that is not part of this repository.
SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[3] / "shared"))
COUNTIES = SHARED / "data" / "us_county_population_2010.csv"
AXES: dict[str, Any] = {
    "state": {"values": ["AL", "AK"], "nullable": True},
    "urban": {"values": [True, False]},
}
MOST = 2**31 - 1
ROWS = [("AL", True, 5), ("AL", True, 7), ("AK", False, 0), (None, False, 9), ("WY", True, 3)]

Loaded = Callable[..., list[int]]


def policy_for(url: str | None = None, base: Path = Path(), **table: Any) -> Policy:
    own = {"budget": {"epsilon": 1}, "count": "persons", "attributes": AXES, **table}
    source = {} if url is None else {"source": {"url": url}}
    return parse_policy({"tables": {"town": own}, **source}, base=base)


@pytest.fixture
def loaded(database: duckdb.DuckDBPyConnection, counts: Callable[..., list[int]]) -> Loaded:
    """The counts of the cells, of rows whose numbers have this type."""

    def load(rows: list[Any], column_type: str = "BIGINT") -> list[int]:
        columns = f"state VARCHAR, urban BOOLEAN, persons {column_type}"
        database.execute(f"CREATE OR REPLACE TABLE town ({columns})")
        for row in rows:
            database.execute("INSERT INTO town VALUES (?, ?, ?)", list(row))
        return counts(load_cubes(policy_for(), database, key=b"key")["town"])

    return load


def in_duckdb(database: duckdb.DuckDBPyConnection) -> list[int]:
    """sum(persons) of every cell, by DuckDB on the raw rows."""
    found = database.execute("SELECT state, urban, sum(persons) FROM town GROUP BY ALL").fetchall()
    sums = {(state, urban): int(total) for state, urban, total in found}
    return [sums.get((state, urban), 0) for state in ("AL", "AK", None) for urban in (True, False)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["AL", "AK", "WY", None]), st.booleans(), st.integers(0, MOST // 20)
        ),
        max_size=20,
    )
)
def test_a_count_is_duckdbs_sum(
    rows: list[Any], loaded: Loaded, database: duckdb.DuckDBPyConnection
) -> None:
    assert loaded(rows) == in_duckdb(database)


@pytest.mark.parametrize(
    "column_type", ["UTINYINT", "UBIGINT", "HUGEINT", "DECIMAL(12, 2)", "DOUBLE", "VARCHAR"]
)
def test_whole_numbers_of_every_type(column_type: str, loaded: Loaded) -> None:
    assert loaded(ROWS, column_type) == [12, 0, 0, 0, 0, 9]


@pytest.mark.parametrize(
    ("number", "column_type", "mistake"),
    [
        (None, "BIGINT", "is NULL or no number"),
        ("", "VARCHAR", "is NULL or no number"),
        ("54,571", "VARCHAR", "is NULL or no number"),
        (float("nan"), "DOUBLE", "is NULL or no number"),
        (-1, "BIGINT", "is negative"),
        (float("-inf"), "DOUBLE", "is negative"),
        (2.5, "DOUBLE", "has a fraction"),
        ("2.5", "VARCHAR", "has a fraction"),
        ("0.25", "DECIMAL(9, 2)", "has a fraction"),
        (MOST + 1, "BIGINT", "is more than 2,147,483,647"),
        (2**100, "HUGEINT", "is more than 2,147,483,647"),
        (1e300, "DOUBLE", "is more than 2,147,483,647"),
    ],
)
def test_any_other_number_is_refused_and_not_repeated(
    number: Any, column_type: str, mistake: str, loaded: Loaded
) -> None:
    with pytest.raises(SourceError, match=r"^tables\.town\.count: expected a whole number") as said:
        loaded([("AL", True, 5), ("AK", False, number)], column_type)
    assert mistake in said.value.message
    assert "AK" not in str(said.value)


def test_numbers_that_overflow_together_are_refused(loaded: Loaded) -> None:
    assert sum(loaded([("AL", True, MOST)])) == MOST
    with pytest.raises(SourceError, match="at most 2,147,483,647 records can be counted"):
        loaded([("AL", True, MOST), ("AL", True, MOST)])
    with pytest.raises(SourceError, match="at most 2,147,483,647 records can be counted"):
        loaded([("AL", True, MOST), ("AK", False, 1)])


def test_a_row_without_a_cell_needs_no_number(loaded: Loaded) -> None:
    assert loaded([("AL", True, 5), ("total", True, None)]) == [5, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("column_type", "mistake"), [("DATE", "DATE, which cannot be read"), ("BOOLEAN", "BOOLEAN")]
)
def test_columns_that_hold_no_numbers(column_type: str, mistake: str, loaded: Loaded) -> None:
    with pytest.raises(SourceError, match=rf"town\.count: the column persons is {mistake}"):
        loaded([], column_type)


def test_the_column_has_to_be_there(database: duckdb.DuckDBPyConnection) -> None:
    database.execute("CREATE TABLE town (state VARCHAR, urban BOOLEAN)")
    with pytest.raises(SourceError, match=r"town\.count: the source has no column persons"):
        load_cubes(policy_for(), database, key=b"key")


@pytest.mark.parametrize("url", ["town.parquet", "town.csv", "town.duckdb"])
def test_every_kind_of_file(url: str, tmp_path: Path, counts: Callable[..., list[int]]) -> None:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE town (state VARCHAR, urban BOOLEAN, persons INTEGER)")
        connection.executemany("INSERT INTO town VALUES (?, ?, ?)", ROWS)
        connection.execute(f"COPY town TO '{tmp_path / 'town.parquet'}'")
        connection.execute(f"COPY town TO '{tmp_path / 'town.csv'}'")
    assert counts(load_cubes(policy_for(url, tmp_path), key=b"key")["town"]) == [12, 0, 0, 0, 0, 9]


def frames() -> dict[str, Any]:
    states, urban, persons = (list(column) for column in zip(*ROWS, strict=True))
    columns = {"state": states, "urban": urban, "persons": persons}
    return {"pandas": pd.DataFrame(columns), "arrow": pa.table(columns)}


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_a_frame_is_counted_exactly_where_the_total_is_public(kind: str, tmp_path: Path) -> None:
    axes = {"state": {"values": ["AL", "AK"], "other": True}}
    policy = policy_for(None, tmp_path, neighbours="replace", attributes=axes)
    with tallyveil.connect(policy, source=frames()[kind]) as connection:
        assert connection.execute("SELECT count(*) FROM town").fetchone() == (24,)
        connection.execute("SELECT count(*) FROM town WHERE state = 'AL'").fetchone()
        assert connection.budget()[0]["privacy_unit"] == "one of persons"


def test_the_number_is_no_attribute(tmp_path: Path) -> None:
    frame = frames()["arrow"]
    with tallyveil.connect(policy_for(None, tmp_path), source=frame) as connection:
        listed = connection.execute("SELECT attribute FROM dp.attributes").fetchall()
        assert listed == [("state",), ("urban",)]
        with pytest.raises(StatementError, match="persons"):
            connection.execute("SELECT sum(persons) FROM town")


@pytest.mark.parametrize(
    "attribute",
    [{"persons": {"bins": [0, 6, 10]}}, {"size": {"range": [0, 9], "column": "Persons"}}],
    ids=["under its name", "under another"],
)
def test_the_number_cannot_be_an_attribute(attribute: dict[str, Any]) -> None:
    """With one record more, all others of its row would move to another cell."""
    with pytest.raises(PolicyError) as said:
        policy_for(attributes={**AXES, **attribute})
    (mistake,) = said.value.mistakes
    assert mistake.startswith(f"tables.town.attributes.{next(iter(attribute))}: expected another")
    assert "which is the table's count" in mistake


def test_a_ledger_of_weighted_rows_knows_their_numbers(tmp_path: Path) -> None:
    def opened(persons: int, **table: Any) -> None:
        frame = pa.table({"state": ["AL", "AL"], "urban": [True, True], "persons": [persons, 4]})
        policy = policy_for(None, tmp_path, **table)
        with tallyveil.connect(policy, source=frame) as connection:
            connection.execute("SELECT count(*) FROM town")

    opened(5)
    opened(5)
    with pytest.raises(LedgerMismatch, match="other data"):
        opened(6)
    with pytest.raises(LedgerMismatch, match="another declaration"):
        opened(5, count=None)


def test_the_same_records_in_other_rows_are_the_same_data(
    database: duckdb.DuckDBPyConnection,
) -> None:
    database.execute("CREATE TABLE town AS SELECT 'AL' AS state, true AS urban, 12 AS persons")
    before = load_cubes(policy_for(), database, key=b"key")["town"].digest(b"key")
    database.execute("UPDATE town SET persons = 5")
    database.execute("INSERT INTO town VALUES ('AL', true, 7), ('AK', true, 0)")
    assert load_cubes(policy_for(), database, key=b"key")["town"].digest(b"key") == before


def test_what_is_protected_is_one_record() -> None:
    lines = summary(policy_for())
    assert "  protects: one record, added or removed" in lines
    assert "  each row of the source counts as many records as its persons" in lines


@pytest.mark.skipif(not COUNTIES.exists(), reason=f"there is no {COUNTIES}")
def test_states_of_the_census(tmp_path: Path) -> None:
    """Persons by state, which an invariant makes exact, are DuckDB's sums on the raw file."""
    with duckdb.connect() as oracle:
        sums = f"SELECT STNAME, sum(CENSUS2010POP) FROM '{COUNTIES}' GROUP BY ALL"
        expected = {state: int(persons) for state, persons in oracle.execute(sums).fetchall()}
    axes = {
        "state": {"values": sorted(expected), "other": True, "column": "STNAME"},
        "county": {"range": [1, 840], "other": True},
    }
    table = {
        "from": COUNTIES.stem,
        "count": "census2010pop",
        "neighbours": "replace",
        "budget": {"epsilon": 1},
        "attributes": axes,
        "invariants": [{"sql": "SELECT state, count(*) FROM person GROUP BY state"}],
    }
    mapping = {"source": {"url": str(COUNTIES)}, "tables": {"person": table}}
    with tallyveil.connect(parse_policy(mapping, base=tmp_path)) as connection:
        found = connection.execute("SELECT state, count(*) FROM person GROUP BY state").fetchall()
    assert {state: persons for state, persons in found if persons} == expected
