"""Drivers and libraries that look the catalogs up by themselves."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import asyncpg
import pandas as pd
import psycopg
import pytest
import sqlalchemy
from psycopg.types import TypeInfo

COLUMNS = ["city", "age", "sex", "admitted", "cost", "diagnosis"]


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(catalogued: Any, request: pytest.FixtureRequest) -> Any:
    url = catalogued.address().replace("postgresql://", f"postgresql+{request.param}://")
    engine = sqlalchemy.create_engine(url)
    yield engine
    engine.dispose()


def test_sqlalchemys_inspector_sees_what_the_policy_declares(engine: Any) -> None:
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_schema_names() == ["dp", "information_schema", "public"]
    assert inspector.get_table_names() == ["patients", "towns"]
    assert sorted(inspector.get_view_names()) == ["adults", "by_city"]
    columns = {c["name"]: c for c in inspector.get_columns("patients")}
    assert list(columns) == COLUMNS
    assert isinstance(columns["age"]["type"], sqlalchemy.INTEGER)
    assert isinstance(columns["city"]["type"], sqlalchemy.TEXT)
    assert isinstance(columns["admitted"]["type"], sqlalchemy.DATE)
    assert [n for n in COLUMNS if columns[n]["nullable"]] == ["sex"]
    assert columns["age"]["comment"] == "0 to 115; others clamped"
    assert inspector.get_pk_constraint("patients")["constrained_columns"] == []
    assert inspector.get_foreign_keys("patients") == inspector.get_indexes("patients") == []
    assert "protected" in inspector.get_table_comment("patients")["text"]
    assert "count(*) AS n" in str(inspector.get_view_definition("by_city"))
    assert inspector.has_table("patients")
    assert not inspector.has_table("nothing")
    assert "epsilon_budget" in [c["name"] for c in inspector.get_columns("budget", schema="dp")]


def test_a_reflected_table_can_be_counted(engine: Any) -> None:
    table = sqlalchemy.Table("patients", sqlalchemy.MetaData(), autoload_with=engine)
    counted = sqlalchemy.select(sqlalchemy.func.count()).select_from(table)
    with engine.connect() as connection:
        assert isinstance(connection.execute(counted.where(table.c.age > 30)).scalar(), int)


def test_pandas_reads_with_the_default_engine(engine: Any) -> None:
    with engine.connect() as connection:
        frame = pd.read_sql("SELECT city, count(*) AS n FROM patients GROUP BY city", connection)
    assert list(frame.columns) == ["city", "n"]
    assert len(frame) == 4


def test_psycopg_finds_types_and_reads_both_formats(catalogued: Any) -> None:
    query = "SELECT relname, relkind, relnatts, oid FROM pg_class WHERE relname = %s"
    with catalogued.connect() as connection:
        found = TypeInfo.fetch(connection, "text")
        assert found is not None
        assert found.oid == 25
        text = connection.execute(query, ["patients"]).fetchone()
        binary = connection.cursor(binary=True).execute(query, ["patients"]).fetchone()
        assert text[:4] == ("patients", "r", 6, text[3])
        assert (binary[0], binary[2], binary[3]) == ("patients", 6, text[3])
        described = connection.execute("SELECT oid, relname FROM pg_class WHERE false").description
        assert [(c.name, c.type_code) for c in described] == [("oid", 26), ("relname", 19)]


def test_catalogs_are_copied_prepared_and_fetched_in_pages(catalogued: Any) -> None:
    with catalogued.connect() as connection:
        sql = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
        expected = [("adults",), ("by_city",), ("patients",), ("towns",)]
        with connection.cursor().copy(f"COPY ({sql}) TO STDOUT") as copy:
            assert list(copy.rows()) == expected
        for _ in range(3):
            assert connection.execute(sql, prepare=True).fetchall() == expected
        with connection.pipeline():
            cursors = [connection.execute(sql) for _ in range(3)]
            assert [c.fetchall() for c in cursors] == [expected] * 3


def test_what_is_prepared_in_sql_is_executed_as_postgresql_does(catalogued: Any) -> None:
    """Types, casts and mistakes of the arguments are PostgreSQL's own."""
    with catalogued.connect() as connection:
        ask = connection.execute
        ask(
            "PREPARE named(text, regclass) AS "
            "SELECT relname, $2 AS r FROM pg_class WHERE relname = $1 AND relnatts >= 6"
        )
        for arguments in ("'patients', 'pg_class'", "lower('PATIENTS'), 'pg_class'::regclass::oid"):
            assert ask(f"EXECUTE named({arguments})").fetchall() == [("patients", "pg_class")]
        ask("PREPARE inferred AS SELECT oid FROM pg_type WHERE typname = ANY($1) ORDER BY 1")
        execute = "EXECUTE inferred(ARRAY['int4', 'bool'])"
        assert ask(execute).fetchall() == [(16,), (23,)]
        with connection.cursor(binary=True) as cursor:
            assert cursor.execute(execute, prepare=True).fetchall() == [(16,), (23,)]
            assert cursor.description[0].type_code == 26
        raw = connection.pgconn.exec_prepared(b"inferred", [b"{int4}"])
        assert raw.get_value(0, 0) == b"23"
        for wrong, state in {
            "EXECUTE named('x')": "42601",
            "EXECUTE named('x', 'nothing')": "42P01",
            "EXECUTE named('x', (SELECT 1))": "0A000",
            "EXECUTE nothing": "26000",
            "PREPARE named AS SELECT oid FROM pg_class": "42P05",
            "PREPARE other(nothing) AS SELECT oid FROM pg_class WHERE oid = $1": "42704",
            "PREPARE other AS SELECT nothing FROM pg_class": "42703",
        }.items():
            with pytest.raises(psycopg.Error) as refused:
                ask(wrong)
            assert refused.value.sqlstate == state, wrong
        assert ask(execute).fetchall() == [(16,), (23,)]
        ask("DEALLOCATE inferred")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            ask(execute)


@pytest.mark.parametrize("name", ["PÄ", "ä" * 40, "p" * 80, "tallyveil_check", "tallyveil_1"])
def test_a_question_may_be_prepared_by_any_name(catalogued: Any, name: str) -> None:
    with catalogued.connect() as connection:
        connection.execute(f"PREPARE {name} AS SELECT relname FROM pg_class WHERE oid = 1259")
        for _ in range(3):
            assert connection.execute(f"EXECUTE {name}").fetchall() == [("pg_class",)]
            connection.execute("SELECT relkind FROM pg_class WHERE oid = 1259")


def test_plans_of_questions_about_the_catalogs_are_shown(catalogued: Any) -> None:
    with catalogued.connect() as connection:
        query = "SELECT relname FROM pg_class WHERE oid = 'patients'::regclass"
        (first, *_) = connection.execute(f"EXPLAIN {query}").fetchone()
        assert first.startswith("Index Scan using pg_class_oid_index")
        ((plan,),) = connection.execute(f"EXPLAIN (FORMAT json, ANALYZE) {query}").fetchall()
        assert plan[0]["Plan"]["Actual Rows"] == 1
        cursor = connection.execute(f"EXPLAIN {query} AND relname = %s", ["x"], prepare=True)
        assert "QUERY PLAN" in [column.name for column in cursor.description]


def test_an_error_says_where_and_the_block_is_aborted(catalogued: Any) -> None:
    with psycopg.connect(catalogued.address()) as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn) as refused:
            connection.execute("SELECT 1; SELECT nothing FROM pg_class")
        assert refused.value.diag.statement_position == "18"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT relname FROM pg_class")
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM pg_am").fetchone() != (0,)


def test_asyncpg_introspects_fetches_pages_and_pools(catalogued: Any) -> None:
    async def ask() -> list[Any]:
        context = ssl.create_default_context(cafile=str(catalogued.certificate))
        address = catalogued.address().partition("?")[0]
        async with asyncpg.create_pool(address, ssl=context, min_size=1, max_size=2) as pool:
            async with pool.acquire() as connection, connection.transaction():
                rows = [r[0] async for r in connection.cursor("SELECT relname FROM pg_class")]
            names = await pool.fetch(
                "SELECT nspname, nspacl FROM pg_namespace WHERE nspname = ANY($1::text[])",
                ["public", "dp"],
            )
            return [len(rows) > 100, sorted(r["nspname"] for r in names)]

    assert asyncio.run(ask()) == [True, ["dp", "public"]]


def test_each_analyst_is_themselves(catalogued: Any) -> None:
    who = "SELECT current_user, session_user, pg_backend_pid() > 0 FROM pg_roles LIMIT 1"
    for user in ("alice", "bob"):
        with catalogued.connect(user) as connection:
            assert connection.execute(who).fetchone() == (user, user, True)
            pid = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
            assert pid == connection.info.backend_pid


def test_the_version_is_that_of_the_catalog(catalogued: Any) -> None:
    with catalogued.connect() as connection:
        shown = connection.execute("SHOW server_version_num").fetchone()[0]
        setting = "SELECT setting FROM pg_settings WHERE name = 'server_version_num'"
        assert connection.execute(setting).fetchone() == (shown,)
        assert connection.info.server_version == int(shown)


def test_sessions_settings_reach_the_catalog(catalogued: Any) -> None:
    with catalogued.connect() as connection:
        zone = "SELECT setting FROM pg_settings WHERE name = 'TimeZone'"
        assert connection.execute(zone).fetchone() == ("UTC",)
        connection.execute("SET timezone = 'Europe/Berlin'")
        assert connection.execute(zone).fetchone() == ("Europe/Berlin",)


@pytest.mark.parametrize("name", ["clinic", "postgres", "tallyveil", 'a "b" c', "schlüssel"])
def test_the_catalogs_have_the_database_that_one_connected_to(catalogued: Any, name: str) -> None:
    """Tools compare its name with what they find."""
    with catalogued.connect(dbname=name) as connection:
        found = connection.execute(
            "SELECT current_database(), table_catalog, datname, format_type(atttypid, atttypmod) "
            "FROM information_schema.tables, pg_database, pg_attribute "
            "WHERE table_name = 'patients' AND datname = current_database() "
            "AND attrelid = 'patients'::regclass AND attname = 'age'"
        ).fetchall()
        assert found == [(name, name, name, "integer")]
        [(temporary,)] = connection.execute(
            "SELECT has_database_privilege(current_database(), 'TEMP')"
        ).fetchall()
        assert not temporary
        with pytest.raises(psycopg.Error, match="cannot read both"):
            connection.execute("SELECT count(*) FROM patients, pg_class")


def test_names_of_databases_have_a_limit(catalogued: Any) -> None:
    """Whoever comes later, or has a name that no database can have, finds the first one."""
    seen = {}
    for name in ("template1", "x" * 70, *(f"other{n}" for n in range(12))):
        with catalogued.connect(dbname=name) as connection:
            [(seen[name],)] = connection.execute(
                "SELECT current_database()::text FROM pg_class LIMIT 1"
            ).fetchall()
    assert {seen[name] for name in ("template1", "x" * 70, "other11")} == {"tallyveil"}
    with catalogued.connect() as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM pg_database").fetchall()
    assert count <= 3 + 1 + 8
