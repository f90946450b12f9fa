"""Public tables and views of a policy, from the file to the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import PolicyError, SourceError
from tallyveil.policy import Policy, parse_policy

PERSON = {"budget": {"epsilon": 1000000}, "attributes": {"state": {"values": ["AL", "AK"]}}}


@pytest.fixture
def source(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    database.execute(
        "CREATE TABLE person AS SELECT * FROM (VALUES ('AL'), ('AL'), ('AK')) v(state)"
    )
    return database.execute("CREATE TABLE names AS SELECT 'AL' AS State, 7::UTINYINT AS n")


def policy(tmp_path: Path, **more: Any) -> Policy:
    return parse_policy(
        {"tables": {"person": PERSON}, "defaults": {"epsilon": 1000}, **more}, base=tmp_path
    )


def test_files_and_the_source_hold_public_tables(
    tmp_path: Path, source: duckdb.DuckDBPyConnection
) -> None:
    (tmp_path / "zones.csv").write_text("Code,Size,Since\nAL,1,2020-01-02\nAK,2,2021-01-02\n")
    source.execute(f"COPY (SELECT 'AL' AS k, 2.5 AS v) TO '{tmp_path}/a.parquet'")
    with duckdb.connect(str(tmp_path / "b.duckdb")) as file:
        file.execute("CREATE TABLE t AS SELECT 1 AS one")
    declared = policy(
        tmp_path,
        public={
            "zone": {"url": "zones.csv"},
            "v": {"url": "a.parquet", "from": "SELECT k, v * 2 AS v FROM a"},
            "t": {"url": "b.duckdb"},
            "name": {"from": "names"},
        },
        views={"south": {"sql": "SELECT * FROM person JOIN zone ON code = state WHERE size = 1"}},
    )
    with tallyveil.connect(declared, source=source) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT size, extract(year FROM since) FROM zone ORDER BY code DESC")
        assert [(a, int(b)) for a, b in cursor.fetchall()] == [(1, 2020), (2, 2021)]
        cursor.execute("SELECT v.v, one, n, state FROM v, t, name")
        assert [tuple(map(str, row)) for row in cursor.fetchall()] == [("5.0", "1", "7", "AL")]
        cursor.execute("SELECT count(*) FROM south")
        assert cursor.fetchall() == [(2,)]
        cursor.execute(
            "SELECT size, count(*) AS n FROM person JOIN zone ON code = state GROUP BY 1"
        )
        assert sorted(cursor.fetchall()) == [(1, 2), (2, 1)]
        cursor.execute("SELECT name, kind FROM dp.public ORDER BY name")
        assert cursor.fetchall() == [
            ("name", "table"), ("south", "view"), ("t", "table"), ("v", "table"), ("zone", "table")
        ]  # fmt: skip


def test_public_tables_and_views_bind_no_ledger(tmp_path: Path) -> None:
    """They change later questions, not what was charged for past ones."""
    with_public = policy(
        tmp_path, public={"zone": {"url": "zones.csv"}}, views={"v": {"sql": "SELECT 1"}}
    )
    assert with_public.tables["person"].fingerprint == policy(tmp_path).tables["person"].fingerprint


@pytest.mark.parametrize(
    ("public", "words"),
    [
        ({"url": "nothing.csv"}, "there is no file"),
        ({"from": "missing"}, "no such table, view or function: missing"),
        ({"from": "SELECT [1] AS a"}, r"type INTEGER\[\]"),
        ({"from": "SELECT TIMETZ '10:00+02' AS a"}, "type TIME WITH TIME ZONE"),
    ],
)
def test_a_public_table_that_cannot_be_read(
    tmp_path: Path, source: duckdb.DuckDBPyConnection, public: dict[str, Any], words: str
) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        tallyveil.connect(policy(tmp_path, public={"p": public}), source=source)
    assert "public.p" in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM later",
        "SELECT read_csv('x')",
        "SELECT $1",
        "SELECT current_user",
        "SELECT 1; SELECT 2",
    ],
)
def test_a_view_that_no_statement_could_use(
    tmp_path: Path, source: duckdb.DuckDBPyConnection, sql: str
) -> None:
    views = {"v": {"sql": sql}, "later": {"sql": "SELECT 1"}}
    with pytest.raises(PolicyError, match=r"views\.v\.sql"):
        tallyveil.connect(policy(tmp_path, views=views), source=source)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"public": {"person": {"from": "x"}}}, "tables.person has it already"),
        ({"public": {"a": {"from": "x"}}, "views": {"a": {"sql": "SELECT 1"}}}, "public.a has it"),
        ({"public": {"a": {}}}, "public.a: expected url"),
        ({"views": {"v": {"sql": "DROP TABLE x"}}}, "expected a SELECT"),
        ({"public": {"a": {"url": "x.xlsx"}}}, "Parquet"),
        ({"public": {"dp": {"from": "x"}}}, "dp is the schema"),
    ],
)
def test_mistakes_in_the_policy(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(tmp_path, **more)
    assert words in str(caught.value)
