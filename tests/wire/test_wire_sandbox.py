"""No SQL reaches a file, the network, the configuration, Python, or the cube, by any route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.errors import TallyveilError
from tallyveil.rewriter import PublicDatabase

# {file} is a readable CSV file whose only value is "leaked".
ROUTES = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM '{file}'",
    'SELECT * FROM "{file}"',
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')",
    "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
    "SELECT count(*) FROM person WHERE state IN (SELECT * FROM read_csv('{file}'))",
    "WITH t AS (SELECT * FROM read_csv('{file}')) SELECT * FROM t",
    "WITH t AS (SELECT * FROM '{file}') SELECT count(*) FROM t",
    "SELECT (SELECT max(c) FROM read_csv('{file}') AS r(c))",
    "SELECT query('SELECT 1')",
    "SELECT * FROM query('SELECT * FROM read_csv(''{file}'')')",
    "SELECT * FROM query_table('person')",
    "COPY (SELECT 1) TO '{file}.out'",
    "COPY person FROM '{file}'",
    "ATTACH '{file}.db' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "SET memory_limit = '1TB'",
    "SET enable_external_access = true",
    "SET GLOBAL threads = 64",
    "RESET lock_configuration",
    "SELECT getenv('HOME')",
    "SELECT current_setting('memory_limit')",
    "SELECT current_setting('secret_directory')",
    "SELECT set_config('memory_limit', '1TB', false)",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_tables",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM information_schema.views",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_tables",
    'SELECT * FROM "__domain_person.age"',
    'SELECT * FROM "__noisy_0"',
    "SELECT * FROM __dp_history",
    "SELECT * FROM people",
    "SELECT * FROM gate",
    "SELECT __cell FROM person",
    "SELECT count(*) FROM person WHERE __record.age = 1",
    "SELECT pg_read_file('{file}')",
    "SELECT pg_sleep(10)",
    "SELECT lo_import('{file}')",
    "SELECT nextval('s')",
    "SELECT * FROM dblink('x', 'SELECT 1')",
    "SELECT write_log('x')",
    "SELECT error('x')",
    "SELECT repeat('x', 1000000000)",
    "SELECT * FROM range(1000000000)",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT unnest(generate_series(1, 1000000000))",
    "CREATE TABLE t (a int)",
    "CREATE MACRO f(a) AS a",
    "DO $$ BEGIN END $$",
    "EXPLAIN SELECT * FROM read_csv('{file}')",
    "SELECT 1 AS x, (SELECT c FROM read_csv('{file}') AS r(c)) FROM person GROUP BY 1",
]


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    path = tmp_path / "bait.csv"
    path.write_text("leaked\nleaked\n")
    return path


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_is_refused(free_house: Any, bait: Path, route: str) -> None:
    with free_house.connect() as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(route.format(file=bait)).fetchall()
        assert (caught.value.sqlstate or "")[:2] in ("0A", "42", "22")
        assert "leaked" not in str(caught.value)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert free_house.spent() == 0
    assert not Path(f"{bait}.out").exists()
    assert not Path(f"{bait}.db").exists()


# What would happen if a statement slipped through: the database itself has no way out either.
INNER = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM '{file}'",
    "COPY (SELECT 1) TO '{file}.out'",
    "ATTACH '{file}.db' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET memory_limit = '1TB'",
    "SET python_enable_replacements = true",
    "SELECT * FROM secret_of_the_caller",
]


@pytest.mark.parametrize("route", INNER)
def test_the_public_database_has_no_way_out(bait: Path, route: str) -> None:
    secret_of_the_caller = duckdb.sql("SELECT 'leaked' AS c").to_arrow_table()
    database = PublicDatabase([])
    cursor = database.cursor()
    try:
        with pytest.raises(TallyveilError):
            cursor.rows(route.format(file=bait))
    finally:
        cursor.close()
        database.close()
    assert secret_of_the_caller.num_rows == 1
    assert not Path(f"{bait}.out").exists()


def test_the_public_database_holds_the_domain_and_nothing_else(house: Any, source: Any) -> None:
    cursor = house.gate.database.cursor()
    with house.connect() as connection:
        connection.execute("SELECT state, count(*) FROM person GROUP BY state")
    _, tables = cursor.rows("SELECT table_name, estimated_size FROM duckdb_tables()")
    cursor.close()
    declared = {
        f"__domain_person.{a.name}": a.size for a in house.gate.accounts["person"].domain.attributes
    }
    assert dict(tables) == declared
