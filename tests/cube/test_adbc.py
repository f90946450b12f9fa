"""Databases with an ADBC driver as the source: SQLite, PostgreSQL and DuckDB through theirs."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import psycopg
import pyarrow as pa
import pytest

import tallyveil
from tallyveil.cube import load_cubes, load_public, relations_read, rows_left_out
from tallyveil.cube.sources import adbc, opened
from tallyveil.errors import LedgerMismatch, PolicyError, SourceError
from tallyveil.policy import Policy, parse_policy, summary
from tests.cube import test_source_contract
from tests.cube.test_sources import AXES, EXPECTED, ROWS, SECRET, told

Connection = psycopg.Connection[Any]
Counts = Callable[..., list[int]]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An SQLite file of people."""
    pytest.importorskip("adbc_driver_sqlite", reason="adbc-driver-sqlite is not installed")
    connection = sqlite3.connect(tmp_path / "people.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE people (sex TEXT, age INT)")
    connection.executemany("INSERT INTO people VALUES (?, ?)", ROWS)
    yield connection
    connection.close()


@pytest.fixture
def server(server: Connection) -> Connection:
    """The PostgreSQL of the other tests, where its driver is installed."""
    pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    return server


def sqlite_url(folder: Path) -> str:
    return f"adbc://sqlite?uri=file:{folder}/people.sqlite?mode=ro"


def server_url(server: Connection, user: str | None = None) -> str:
    info = server.info
    options = f"host={quote(info.host)}%26options=-csearch_path%3Ddata"
    return f"adbc://postgresql?uri=postgresql://{user or info.user}@/{info.dbname}?{options}"


def policy_for(url: str, attributes: Any = AXES, **table: Any) -> Policy:
    one = {"budget": {"epsilon": 1}, "attributes": attributes, "from": "people", **table}
    return parse_policy({"source": {"url": url}, "tables": {"t": one}})


def sent(policy: Policy, origin: str, *items: str) -> tuple[bool, list[Any]]:
    """Whether equal rows came once, and the items of its rows."""
    with opened(policy) as source:
        names = source.schema(origin, "key")
        with source.rows(origin, list(names), "key", alike=True) as rows:
            found = rows.connection.execute(f"SELECT {', '.join(items)} FROM {rows.relation}")
            return rows.number is not None, sorted(found.fetchall(), key=repr)


@pytest.mark.parametrize(
    "origin", ["people", '"people"', "seen", "SELECT * FROM people WHERE age <> 98 -- not these"]
)
def test_tables_and_views(
    file: sqlite3.Connection, server: Connection, tmp_path: Path, counts: Counts, origin: str
) -> None:
    for url, database in ((sqlite_url(tmp_path), file), (server_url(server), server)):
        database.execute("CREATE VIEW seen AS SELECT age, sex FROM people")
        policy = policy_for(url, **{"from": origin})
        assert counts(load_cubes(policy, key=b"key")["t"]) == EXPECTED
        assert relations_read(policy) == {"t": None}  # it may be any


def test_the_awkward_table_of_all_sources(
    server: Connection, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """PostgreSQL's, but for NUL, which no text of it can hold."""
    awkward = test_source_contract.awkward().select(test_source_contract.LAKE)
    database.execute(
        "CREATE TABLE t AS SELECT * REPLACE (replace(words, chr(0), '') AS words) FROM awkward"
    )
    names = awkward.column_names
    types = ("text", "float8", "bigint", "date", "timestamp", "timestamptz", "numeric", "boolean")
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    server.execute(f"CREATE TABLE t ({columns})")
    text = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
    with server.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO t VALUES ({', '.join(['%s'] * len(names))})",
            database.execute(f"SELECT {text} FROM t").fetchall(),
        )
    found, expected = (
        load_cubes(test_source_contract.declared(source, tmp_path, names), given, key=b"key")["t"]
        for source, given in (({"url": server_url(server)}, None), (None, database))
    )
    assert found.digest(b"key") == expected.digest(b"key")


def test_values_that_a_database_calls_equal_stay_apart(
    file: sqlite3.Connection, tmp_path: Path
) -> None:
    rows = [("F", "F", 0.0), ("f", "F ", -0.0), ("F", "F", 0.0)]
    file.execute("CREATE TABLE t (v TEXT COLLATE NOCASE, w TEXT COLLATE RTRIM)")
    file.executemany("INSERT INTO t VALUES (?, ?)", [row[:2] for row in rows])
    assert len(file.execute("SELECT v, w FROM t GROUP BY v, w").fetchall()) == 1
    found = sent(policy_for(sqlite_url(tmp_path)), "t", "v", "w")
    assert found == (True, [("F", "F"), ("f", "F ")])
    made = pa.table({"v": [v for v, *_ in rows], "x": [x for *_, x in rows]})
    url = test_source_contract.duckdb_by_adbc(tmp_path, made)["url"]
    with duckdb.connect(url.rpartition("=")[2]) as database:
        database.execute("CREATE TABLE folded (v VARCHAR COLLATE NOCASE, x DOUBLE)")
        database.execute("INSERT INTO folded FROM t")
        assert len(database.execute("SELECT v, x FROM folded GROUP BY v, x").fetchall()) == 1
    found = sent(policy_for(url), "folded", "v", "CAST(x AS VARCHAR)")
    assert found == (False, [("F", "0.0"), ("F", "0.0"), ("f", "-0.0")])


@pytest.mark.parametrize(
    ("kind", "grouped"),
    [
        *(("int", True), ("bigint", True), ("boolean", True), ("date", True)),
        *(("text", False), ("float8", False), ("numeric", False), ("timestamptz", False)),
    ],
)
def test_equal_rows_are_counted_where_types_allow(
    server: Connection, kind: str, grouped: bool
) -> None:
    values = {"boolean": "true", "date": "2026-01-01", "timestamptz": "2026-01-01 00:00:00+00"}
    value = values.get(kind, "1")
    origin = f"SELECT CAST('{value}' AS {kind}) AS v FROM generate_series(1, 3)"
    found, rows = sent(policy_for(server_url(server)), origin, "v")
    assert (found, len(rows)) == (grouped, 1 if grouped else 3)


def test_what_a_value_of_sqlite_is(file: sqlite3.Connection, tmp_path: Path) -> None:
    """Values of one column have types of their own; the first rows do not settle them."""
    given = [*[None] * 3000, 1, 0.1, 0.1 + 0.2, 9e999, "1", "", "é", "F\0", b"\xff", 2**63 - 1]
    file.execute("CREATE TABLE mixed (v)")
    file.executemany("INSERT INTO mixed VALUES (?)", [[value] for value in given])
    texts = ["1", "0.1", "0.30000000000000004", "1e308", "", "é", "F\0", "\\xFF"]
    expected = [(text,) for text in [None, *texts, "9223372036854775807"]]
    found = sent(policy_for(sqlite_url(tmp_path)), "mixed", "v")
    assert found == (True, sorted(expected, key=repr))


def test_names_that_need_quotes(
    file: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second kind is tried where the first is a syntax error."""
    file.execute('CREATE TABLE "odd ""name""" ("a""b`c" INT)')
    file.execute("""INSERT INTO "odd ""name\""" VALUES (7)""")
    for quotes in (('"', "`"), ("¬", "`")):
        monkeypatch.setattr(adbc, "_QUOTES", quotes)
        with (
            opened(policy_for(sqlite_url(tmp_path))) as source,
            source.rows('"odd ""name"""', ['a"b`c'], "key", alike=True) as rows,
        ):
            assert rows.connection.execute(f"FROM {rows.relation}").fetchall() == [("7", 1)]


def test_all_tables_are_of_one_moment(
    file: sqlite3.Connection, server: Connection, tmp_path: Path
) -> None:
    for url, database in ((sqlite_url(tmp_path), file), (server_url(server), server)):
        database.execute("CREATE TABLE later (v int)")
        with opened(policy_for(url)) as source:
            source.begin()
            for origin, column in (("people", "age"), ("later", "v")):
                with source.rows(origin, [column], "key", alike=True) as rows:
                    counted = f"SELECT {rows.counted()} FROM {rows.relation}"
                    found = rows.connection.execute(counted).fetchall()
                database.execute("INSERT INTO later VALUES (1)")
        assert found == [(0,)]


def test_a_source_that_is_read_only(server: Connection) -> None:
    server.execute("CREATE SEQUENCE numbers")
    origin = "SELECT nextval('numbers')::int AS age, 'F' AS sex"
    with pytest.raises(SourceError, match="the database failed while it was read"):
        load_cubes(policy_for(server_url(server), **{"from": origin}), key=b"key")


def test_a_unit_keeps_the_same_rows(
    server: Connection, database: duckdb.DuckDBPyConnection, counts: Counts
) -> None:
    for where in (server, database):
        where.execute("CREATE TABLE visit (sex text, age int, pid text, note text)")
        where.execute(
            "INSERT INTO visit SELECT CASE i % 3 WHEN 0 THEN 'F' ELSE 'M' END, 30 + i % 2,"
            " '' || i % 20, '' || i FROM generate_series(1, 200) AS numbers(i)"
        )
    unit = {"column": "pid", "max_rows": 3}
    policy = policy_for(server_url(server), privacy_unit=unit, **{"from": "visit"})
    found = counts(load_cubes(policy, key=b"key")["t"])
    assert found == counts(load_cubes(policy, database, key=b"key")["t"])
    assert rows_left_out(policy) == {"t": (200, 140)}


def test_a_total_is_never_public(file: sqlite3.Connection, tmp_path: Path) -> None:
    """The database may hide rows from whoever reads."""
    axes = {"sex": {"values": ["F", "M"], "other": "else", "nullable": True}}
    with pytest.raises(SourceError, match="may filter") as caught:
        load_cubes(policy_for(sqlite_url(tmp_path), axes, neighbours="replace"), key=b"key")
    assert caught.value.hint is not None
    origin = "SELECT * FROM people"
    policy = policy_for(sqlite_url(tmp_path), axes, neighbours="replace", **{"from": origin})
    load_cubes(policy, key=b"key")


def test_a_public_table(file: sqlite3.Connection, tmp_path: Path) -> None:
    file.execute("CREATE TABLE region (code TEXT, rank INT)")
    file.execute("INSERT INTO region VALUES ('F', 1), (NULL, 2)")
    tables = {"people": {"budget": {"epsilon": 1}, "attributes": AXES}}
    public = {"region": {"url": sqlite_url(tmp_path), "from": "region"}}
    policy = parse_policy({"public": public, "tables": tables})
    assert load_public(policy)["region"].to_pydict() == {"code": ["F", None], "rank": ["1", "2"]}


# Mistakes -----------------------------------------------------------------------------------

FAILING = {
    "unknown table": ("nobody", "cannot read it", "nobody"),
    "unknown column": ("SELECT sexx, age FROM people", "cannot read it", "sexx"),
    "no column": ("SELECT age FROM people", "has no column sex", None),
    "no SQL": ("SELECT sex age FROM FROM people", "cannot read it", "syntax error"),
}


@pytest.mark.parametrize("name", FAILING)
def test_the_custodian_is_told_what_does_not_fit(
    file: sqlite3.Connection, server: Connection, tmp_path: Path, name: str
) -> None:
    origin, says, detail = FAILING[name]
    for url in (sqlite_url(tmp_path), server_url(server)):
        with pytest.raises(SourceError) as caught:
            load_cubes(policy_for(url, **{"from": origin}), key=b"key")
        assert caught.value.message.startswith("tables.t.")
        assert says in caught.value.message
        assert (detail or "") in (caught.value.detail or "")


def test_a_driver_that_does_not_prepare(
    file: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing says that its words are about the SQL alone."""
    library = pytest.importorskip("adbc_driver_manager.dbapi")

    def prepare(*_: object) -> None:
        raise library.NotSupportedError("")

    monkeypatch.setattr(library.Cursor, "adbc_prepare", prepare)
    load_cubes(policy_for(sqlite_url(tmp_path)), key=b"key")
    with pytest.raises(SourceError, match="the database failed") as caught:
        load_cubes(policy_for(sqlite_url(tmp_path), **{"from": SECRET}), key=b"key")
    assert SECRET not in told(caught.value)


@pytest.mark.parametrize(
    ("origin", "says"),
    [
        ("SELECT sex, DATE '2026-01-01' AS age FROM people", "age is DATE, which cannot be read"),
        ('SELECT sex, age, 1 AS "Age" FROM people', "two columns have the same name"),
    ],
)
def test_columns_that_cannot_be_read(server: Connection, origin: str, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        load_cubes(policy_for(server_url(server), **{"from": origin}), key=b"key")


def test_a_record_on_which_reading_fails(
    file: sqlite3.Connection, server: Connection, tmp_path: Path
) -> None:
    """After rows that could be read. What the database says of it is left out."""
    file.executemany("INSERT INTO people VALUES (?, ?)", [("F", 30)] * 3000)
    file.execute("INSERT INTO people VALUES ('F', -9223372036854775808)")
    server.execute(f"INSERT INTO people SELECT '{SECRET}', i FROM generate_series(1, 3000) AS s(i)")
    for url, origin in (
        (sqlite_url(tmp_path), f"SELECT sex, abs(age) || '{SECRET}' AS age FROM people"),
        (server_url(server), "SELECT sex, CAST(sex AS int) AS age FROM people"),
    ):
        with pytest.raises(SourceError, match="the database failed while it was read") as caught:
            load_cubes(policy_for(url, **{"from": origin}), key=b"key")
        assert SECRET not in told(caught.value).replace(origin, "")


def test_a_connection_that_is_lost_half_way(server: Connection) -> None:
    server.execute(
        "CREATE FUNCTION cut(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
        " IF $1 = 9 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
        " RETURN $1; END $$"
    )
    origin = "SELECT 'F' AS sex, cut(i) AS age FROM generate_series(1, 9) AS s(i)"
    with pytest.raises(SourceError, match="the database failed while it was read"):
        load_cubes(policy_for(server_url(server), **{"from": origin}), key=b"key")


@pytest.mark.parametrize(
    ("url", "says", "detail"),
    [
        ("adbc://nosuch?uri=x", "cannot connect to adbc://nosuch", "Could not load"),
        (
            "adbc://postgresql?uri=postgresql://me@127.0.0.1:1/people",
            "cannot connect to adbc://postgresql",
            "onnection refused",
        ),
        (f"adbc://postgresql?uri=x&foo={SECRET}", "cannot connect to adbc://postgresql", ""),
        ("adbc://postgresql?uri=$CLINIC", "cannot connect to adbc://postgresql", 'missing "="'),
        ("adbc://postgresql?uri=x&password=$ABSENT", "the environment has no variable ABSENT", ""),
    ],
)
def test_no_connection(
    url: str, says: str, detail: str, monkeypatch: pytest.MonkeyPatch, server: Connection
) -> None:
    monkeypatch.setenv("CLINIC", SECRET)
    with pytest.raises(SourceError) as caught:
        load_cubes(policy_for(url), key=b"key")
    assert says in caught.value.message
    assert detail in (caught.value.detail or "")
    assert SECRET not in told(caught.value)


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_manager.dbapi", None)
    with pytest.raises(SourceError, match="needs the library adbc_driver_manager") as caught:
        load_cubes(policy_for("adbc://sqlite?uri=x"), key=b"key")
    assert caught.value.hint == "pip install 'tallyveil[adbc]'"


@pytest.mark.parametrize(
    "url",
    [
        f"adbc://snowflake?username=me&password={SECRET}",
        f"adbc://snowflake?uri=me:{SECRET}@account/db",
        f"adbc://postgresql?uri=postgresql://me:{SECRET}@host/db",
        f"adbc://postgresql?uri=postgresql://host:{SECRET}/db",
        f"adbc://postgresql?uri=postgresql://host/db?password={SECRET}",
        f"adbc://flightsql?adbc.flight.sql.authorization_header=Bearer%20{SECRET}",
        f"adbc://snowflake?uri=x&jwt={SECRET}",
        f"adbc://flightsql?uri=x&adbc.flight.sql.rpc.call_header.x-api={SECRET}",
        f"adbc://sqlite#uri={SECRET}",
        "adbc://",
        "adbc://?uri=x",
        "adbc://sqlite?uri",
        "adbc://sqlite?uri=a&uri=b",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(PolicyError, match="expected adbc://driver") as caught:
        policy_for(url)
    assert SECRET not in told(caught.value)


def test_answers_and_a_ledger_that_is_bound_to_the_database(
    server: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever connects to it, and whatever the secrets are."""
    monkeypatch.setenv("PGUSER", server.info.user)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    table = {"budget": {"epsilon": 1000}, "attributes": AXES, "from": "people"}
    own = server_url(server)
    for url, source in ((own, "auto"), (own.replace(f"{server.info.user}@", ""), "history")):
        written = {"source": {"url": url}, "ledger": str(tmp_path / "spent.db")}
        policy = parse_policy({**written, "tables": {"person": table}})
        with tallyveil.connect(policy) as connection:
            cursor = connection.cursor()
            cursor.execute(f"SET dp.source = {source}")
            cursor.execute("SET dp.epsilon = 100")
            cursor.execute("SELECT count(*) FROM person WHERE sex = 'F'")
            assert cursor.fetchone() == (2,)
        assert SECRET not in f"{policy!r} {policy.source} {summary(policy)}"
    other = {**written, "source": {"url": own.replace("/postgres?", "/template1?")}}
    with pytest.raises((LedgerMismatch, SourceError)):
        tallyveil.connect(parse_policy({**other, "tables": {"person": table}}))
    assert SECRET.encode() not in (tmp_path / "spent.db").read_bytes()
