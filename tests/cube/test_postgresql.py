"""PostgreSQL as the source: its values mean what the same values mean in DuckDB."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import psycopg
import pytest

import tallyveil
from tallyveil.cube import load_cubes, load_public, relations_read, rows_left_out, undeclared
from tallyveil.cube.reading import read
from tallyveil.cube.sources import copied_rows, opened, postgresql
from tallyveil.errors import PolicyError, SourceError
from tallyveil.policy import Policy, parse_policy, summary
from tests.cube import test_source_contract
from tests.cube.test_sources import AXES, EXPECTED, ROWS, SECRET, told

Connection = psycopg.Connection[Any]
Counts = Callable[..., list[int]]


def url_of(connection: Connection, user: str | None = None, **options: str) -> str:
    info = connection.info
    words = {"host": info.host, "port": info.port, "options": "-csearch_path=data", **options}
    query = "&".join(f"{name}={quote(str(value))}" for name, value in words.items())
    return f"postgresql://{user or info.user}@/{info.dbname}?{query}"


def policy_for(
    connection: Connection, attributes: Any = AXES, *, url: str | None = None, **table: Any
) -> Policy:
    one = {"budget": {"epsilon": 1}, "attributes": attributes, "from": "people", **table}
    source = {"url": url or url_of(connection)}
    return parse_policy({"source": source, "tables": {"t": one}})


# Each type with its type in DuckDB, and values; a pair where DuckDB writes one differently.
VALUES: dict[str, tuple[str, str, list[str | tuple[str, str]]]] = {
    "flag": ("boolean", "BOOLEAN", ["true", "false"]),
    "small": ("smallint", "SMALLINT", ["-32768", "32767"]),
    "whole": ("integer", "INTEGER", ["-2147483648", "0"]),
    "large": ("bigint", "BIGINT", ["-9223372036854775808", "9223372036854775807"]),
    "single": ("real", "FLOAT", ["0.1", "'NaN'", "'Infinity'", "'-0'", "1e38", "1e-45"]),
    "double": (
        "double precision",
        "DOUBLE",
        ["0.1", "'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "0", "1e300", "5e-324"],
    ),
    "price": ("numeric(10, 2)", "DECIMAL(10, 2)", ["1.5", "-99999999.99", ("'NaN'", "NULL")]),
    "grade": ("numeric(2, 1)", "DECIMAL(2, 1)", ["1.5", ("'NaN'", "NULL")]),
    "longest": ("numeric(38, 0)", "DECIMAL(38, 0)", ["9" * 38, "-" + "9" * 38]),
    "any_number": (
        "numeric",
        "VARCHAR",
        [
            *(("1.00", "'1.00'"), ("1.0", "'1.0'"), ("9" * 50, f"'{'9' * 50}'"), "'NaN'"),
            *(("'Infinity'", "'1e308'"), ("'-Infinity'", "'-1e308'"), ("1e-9", "'0.000000001'")),
        ],
    ),
    "amount": ("money", "VARCHAR", ["'-1234.50'"]),
    "word": (
        "text",
        "VARCHAR",
        [
            *("'Ab'", "'aB'", "''", "' a '", "'\u00e9'", "'e\u0301'", "'\\.'", "'a,\"b'", "'\\N'"),
            *("'NULL'", "E'a\\nb\\r\\n\\tc'", "'\U0001f600'"),
        ],
    ),
    "padded": ("char(3)", "VARCHAR", ["'F'", "'ab'", "' b'"]),
    "byte": ('"char"', "VARCHAR", ["'F'", ('(-61)::int::"char"', "'-61'")]),
    "colour": ("colours", "VARCHAR", ["'red'", "'it''s'"]),
    "code": ("codes", "INTEGER", ["7"]),
    "day": (
        "date",
        "DATE",
        [
            *("'2026-02-28'", "'infinity'", "'-infinity'", "'5874897-12-31'"),
            ("'0044-03-15 BC'", "'0044-03-15 (BC)'"),
        ],
    ),
    "clock": ("time", "TIME", ["'24:00:00'", "'00:00:00.000001'"]),
    "moment": (
        "timestamp",
        "TIMESTAMP",
        [
            *("'2026-02-28 23:59:59.999999'", "'infinity'", "'-infinity'"),
            ("'294276-12-31'", "'infinity'"),
            ("'0044-03-15 01:02:03 BC'", "'0044-03-15 (BC) 01:02:03'"),
        ],
    ),
    "instant": (
        "timestamptz",
        "TIMESTAMPTZ",
        [
            *("'2026-02-28 23:59:59.999999-05'", "'infinity'", "'-infinity'"),
            ("'294276-12-31+00'", "'infinity'"),
            ("'4714-11-24 00:00:00+00 BC'", "'4714-11-24 (BC) 00:00:00+00'"),
        ],
    ),
    "span": ("interval", "INTERVAL", ["'1 year 2 months -3 days 04:05:06.5'", "'-00:00:01'"]),
    "id": ("uuid", "UUID", ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"]),
    "bytes": ("bytea", "BLOB", [("'\\x00ff2261'", "'\\x00\\xFF\\x22a'")]),
    "numbers": ("int[]", "VARCHAR", ["'{1,NULL}'"]),
    "document": ("jsonb", "VARCHAR", ["'{\"a\": 1.0}'", "'null'"]),
}
READ_AS: list[dict[str, Any]] = [
    {"values": ["Ab", "é", "1.00", "red", "F", "t", "7", "0.1", "1.50"], "other": "else"},
    {"range": [-5, 100], "clamp": True, "nullable": True},
    {"range": [dt.date(2026, 2, 1), dt.date(2026, 3, 1)], "clamp": True, "nullable": True},
    {"bins": [-0.5, 0.05, 0.5, 1e9], "clamp": True, "nullable": True},
    {"values": [True, False], "nullable": True},
]


@pytest.fixture
def awkward(server: Connection, database: duckdb.DuckDBPyConnection) -> None:
    """Tables named like VALUES, in both databases; they have each value twice, and NULL."""
    server.execute("CREATE TYPE colours AS ENUM ('red', 'it''s')")
    server.execute("CREATE DOMAIN codes AS int CHECK (value > 0)")
    for name, (theirs, ours, values) in VALUES.items():
        pairs = [(each, each) if isinstance(each, str) else each for each in [*values, "NULL"]]
        for where, kind, texts in (
            (server, theirs, [pair[0] for pair in pairs]),
            (database, ours, [pair[1] for pair in pairs]),
        ):
            where.execute(f"CREATE TABLE {name} (v {kind})")
            where.execute(f"INSERT INTO {name} VALUES {', '.join(f'({t})' for t in texts * 2)}")


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.usefixtures("awkward")
def test_each_value_is_what_duckdb_has(
    server: Connection, database: duckdb.DuckDBPyConnection, alike: bool
) -> None:
    with opened(policy_for(server)) as source:
        for name in VALUES:
            columns = source.schema(name, "key")
            ((_, kind, *_),) = database.execute(f"DESCRIBE {name}").fetchall()
            assert columns == {"v": kind}, name
            with source.rows(name, ["v"], "key", alike=alike) as rows:
                assert alike or rows.number is None
                select = f"SELECT CAST(v AS VARCHAR), {rows.number or 1} FROM {rows.relation}"
                found = rows.connection.execute(select).fetchall()
            each = sorted((text for text, number in found for _ in range(number)), key=repr)
            expected = database.execute(f"SELECT CAST(v AS VARCHAR) FROM {name}").fetchall()
            assert each == sorted((text for (text,) in expected), key=repr), name


@pytest.mark.usefixtures("awkward")
def test_the_cubes_are_those_of_duckdb(
    server: Connection, database: duckdb.DuckDBPyConnection
) -> None:
    kinds = {name: database.execute(f"DESCRIBE {name}").fetchall()[0][1] for name in VALUES}
    for declared in READ_AS:
        one = {"budget": {"epsilon": 1}, "attributes": {"v": declared}}
        asked = parse_policy({"tables": {"t": one}}).tables["t"].domain["v"]
        tables = {name: one for name, kind in kinds.items() if read(asked, "v", kind) is not None}
        assert len(tables) > 2
        policy = parse_policy({"source": {"url": url_of(server)}, "tables": tables})
        ours, theirs = (load_cubes(policy, source, key=b"key") for source in (database, None))
        assert {n for n in tables if ours[n].digest(b"") != theirs[n].digest(b"")} == set()


def test_the_awkward_table_of_all_sources(
    server: Connection, database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """But for NUL, which no text of PostgreSQL can hold."""
    awkward = test_source_contract.awkward().select(test_source_contract.LAKE)
    rows = [
        {name: str(value).replace("\0", "") for name, value in row.items() if value is not None}
        for row in awkward.to_pylist()
    ]
    types = ("text", "float8", "bigint", "date", "timestamp", "timestamptz")
    kinds = dict(zip(awkward.column_names, (*types, "numeric(38, 2)", "boolean"), strict=True))
    for where in (server, database):
        where.execute(f"CREATE TABLE t ({', '.join(f'{n} {k}' for n, k in kinds.items())})")
    with server.cursor() as cursor:
        values = ", ".join(["%s"] * len(kinds))
        given = [[row.get(name) for name in kinds] for row in rows]
        cursor.executemany(f"INSERT INTO t VALUES ({values})", given)
    database.execute(
        "INSERT INTO t SELECT * REPLACE (replace(words, chr(0), '') AS words) FROM awkward"
    )
    found, expected = (
        load_cubes(test_source_contract.declared(source, tmp_path, kinds), given, key=b"key")["t"]
        for source, given in (({"url": url_of(server)}, None), (None, database))
    )
    assert found.digest(b"key") == expected.digest(b"key")


@pytest.mark.parametrize(
    "origin",
    [
        "people",
        "People",
        '"people"',
        "data.people",
        "SELECT sex, age FROM people WHERE age::text <> '99' -- not the oldest",
        "WITH x AS (TABLE people) SELECT * FROM x",
        "seen",
        "kept",
        "parts",
        '"Odd ""name"""',
    ],
)
def test_tables_and_views(server: Connection, counts: Counts, origin: str) -> None:
    server.execute("CREATE VIEW seen AS SELECT * FROM people")
    server.execute("CREATE MATERIALIZED VIEW kept AS SELECT age, sex FROM seen")
    server.execute("CREATE TABLE parts (sex text, age int) PARTITION BY RANGE (age)")
    server.execute("CREATE TABLE young PARTITION OF parts FOR VALUES FROM (0) TO (31)")
    server.execute("CREATE TABLE old PARTITION OF parts FOR VALUES FROM (31) TO (200)")
    server.execute("INSERT INTO parts SELECT * FROM people")
    server.execute('CREATE TABLE "Odd ""name""" AS TABLE people')
    policy = policy_for(server, **{"from": origin})
    assert counts(load_cubes(policy, key=b"key")["t"]) == EXPECTED
    reads = {"parts": {"data.parts"}, '"Odd ""name"""': {'data.odd "name"'}}
    assert relations_read(policy) == {"t": reads.get(origin, {"data.people"})}


@pytest.mark.parametrize(("origin", "refused"), [("people", False), ("seen", True), ("kept", True)])
def test_a_total_is_public_for_a_table_alone(
    server: Connection, origin: str, refused: bool
) -> None:
    server.execute("CREATE VIEW seen AS SELECT * FROM people")
    server.execute("CREATE MATERIALIZED VIEW kept AS SELECT * FROM people")
    axes = {"sex": {"values": ["F", "M"], "other": "else"}, "age": {"range": [0, 9], "clamp": True}}
    axes["age"]["nullable"] = True
    policy = policy_for(server, axes, neighbours="replace", **{"from": origin})
    assert policy.tables["t"].total_public
    with pytest.raises(SourceError, match="may filter") if refused else contextlib.nullcontext():
        load_cubes(policy, key=b"key")


def test_a_unit_keeps_the_same_rows(
    server: Connection, database: duckdb.DuckDBPyConnection, counts: Counts
) -> None:
    """As through DuckDB, where the text of each column is the same."""
    columns = "sex text, age int, pid uuid, price numeric(6, 2), seen timestamp, zoned timestamptz"
    for where in (server, database):
        where.execute(f"CREATE TABLE visit ({columns}, note text)")
        where.execute(
            "INSERT INTO visit SELECT CASE i % 3 WHEN 0 THEN 'F' WHEN 1 THEN 'M' END, 30 + i % 2,"
            " md5((i % 20)::text)::uuid, i / 4.0,"
            " timestamp '2026-01-01' + i * interval '1 minute',"
            " timestamptz '2026-01-01 00:00:00+00' + i * interval '1 minute', '' || i"
            " FROM generate_series(1, 200) AS numbers(i)"
        )
    policy = policy_for(server, privacy_unit={"column": "pid", "max_rows": 3}, **{"from": "visit"})
    found = counts(load_cubes(policy, key=b"key")["t"])
    assert found == counts(load_cubes(policy, database, key=b"key")["t"])
    assert sum(found) == 60
    assert rows_left_out(policy) == {"t": (200, 140)}


def test_rows_that_stand_for_several_records(server: Connection, counts: Counts) -> None:
    server.execute("CREATE TABLE tally AS SELECT *, 2::numeric AS n FROM people")
    policy = policy_for(server, count="n", **{"from": "tally"})
    assert counts(load_cubes(policy, key=b"key")["t"]) == [2 * each for each in EXPECTED]
    server.execute("UPDATE tally SET n = 'NaN' WHERE sex = 'M'")
    with pytest.raises(SourceError, match="NULL or no number"):
        load_cubes(policy, key=b"key")


def test_what_is_undeclared(server: Connection) -> None:
    rows, found = undeclared(policy_for(server))["t"]
    assert rows == 6
    assert {name: one[:3] for name, one in found.items()} == {"sex": (1, 0, 0), "age": (2, 0, 0)}


def test_huge_texts(server: Connection, counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a block that is read at once; what begins alike stays apart."""
    for module in (postgresql, copied_rows):
        monkeypatch.setattr(module, "BLOCK", 1 << 16)
    server.execute("CREATE TABLE huge (sex text, age text, pid text)")
    server.execute(
        "INSERT INTO huge SELECT 'F', 30, repeat('\"', 300000) || i FROM generate_series(1, 2) i"
    )
    server.execute("INSERT INTO huge SELECT repeat('F', 300000), '30', 'p'")
    unit = {"column": "pid", "max_rows": 1}
    policy = policy_for(server, privacy_unit=unit, **{"from": "huge"})
    assert counts(load_cubes(policy, key=b"key")["t"]) == [2, 0, 0, 0, 0, 0]


def test_public_tables(server: Connection) -> None:
    server.execute(
        "CREATE TABLE region (code char(2), name text, rank smallint, share numeric(3, 2))"
    )
    server.execute("INSERT INTO region VALUES ('F', 'Fünen', 1, 0.25), ('M', NULL, 2, 0.5)")
    url = url_of(server)
    policy = parse_policy(
        {
            "source": {"url": url},
            "public": {
                "region": {"from": "SELECT * FROM region ORDER BY 1"},
                "far": {"url": url, "from": "region"},
            },
            "tables": {"people": {"budget": {"epsilon": 1}, "attributes": AXES}},
        }
    )
    found = load_public(policy)
    assert found["region"].to_pydict() == {
        "code": ["F", "M"],
        "name": ["Fünen", None],
        "rank": [1, 2],
        "share": [Decimal("0.25"), Decimal("0.50")],
    }
    assert found["far"].num_rows == 2


# Mistakes -----------------------------------------------------------------------------------

FAILING = {
    "unknown table": ("nobody", "has no such table", 'relation "nobody" does not exist'),
    "unknown column": ("SELECT sexx, age FROM people", "cannot read it", 'column "sexx" does not'),
    "no column": ("SELECT age FROM people", "has no column sex", None),
    "wrong type": ("SELECT sex, date '2020-01-01' AS age FROM people", "DATE", None),
    "no SQL": ("SELECT sex age FROM FROM people", "cannot read it", "syntax error"),
    "two statements": ("SELECT 1; DROP TABLE people", "cannot read it", "syntax error"),
    "out of brackets": ("SELECT 1) AS x; DROP TABLE people; --", "cannot read it", None),
    "two columns": ('SELECT sex, age, 1 AS "Age" FROM people', "two columns have the same", None),
    "writes": ("SELECT nextval('numbers') AS age, 'F' AS sex", "PostgreSQL failed", None),
    "fails on a record": (f"SELECT sex, (sex||'{SECRET}')::int AS age FROM people", "Inval", None),
    "says what it reads": ("SELECT told(sex) AS age, sex FROM people", "failed to read", None),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_the_custodian_is_told_what_does_not_fit(server: Connection, name: str) -> None:
    origin, says, detail = FAILING[name]
    server.execute("CREATE SEQUENCE numbers")
    server.execute(
        "CREATE FUNCTION told(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE 'read % {SECRET}', $1 USING ERRCODE = '42P01'; END $$"
    )
    with pytest.raises(SourceError) as caught:
        load_cubes(policy_for(server, **{"from": origin}), key=b"key")
    assert caught.value.message.startswith("tables.t.")
    assert says in caught.value.message
    assert (detail or "") in (caught.value.detail or "")
    assert SECRET not in told(caught.value).replace(origin, "")
    assert server.execute("SELECT count(*) FROM people").fetchone() == (len(ROWS),)


def test_who_may_not_read_all_rows(server: Connection) -> None:
    server.execute("CREATE ROLE clerk LOGIN")
    try:
        server.execute("GRANT USAGE ON SCHEMA data TO clerk")
        policy = policy_for(server, url=url_of(server, "clerk"))
        with pytest.raises(SourceError, match="may not read all") as caught:
            load_cubes(policy, key=b"key")
        assert "permission denied for table people" in (caught.value.detail or "")
        server.execute("GRANT SELECT ON people TO clerk")
        load_cubes(policy, key=b"key")
        server.execute("ALTER TABLE people ENABLE ROW LEVEL SECURITY")
        server.execute("CREATE POLICY young ON people USING (age < 50)")
        with pytest.raises(SourceError, match="may not read all"):
            load_cubes(policy, key=b"key")
    finally:
        server.execute("DROP OWNED BY clerk")
        server.execute("DROP ROLE clerk")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (f"postgresql://me:{SECRET}@127.0.0.1:1/people", "postgresql://me:…@127.0.0.1:1/people"),
        (f"postgres://127.0.0.1:1/people?user=me&password={SECRET}", "postgres://127.0.0.1:1"),
    ],
)
def test_no_connection(url: str, says: str, server: Connection) -> None:
    with pytest.raises(SourceError, match="cannot connect to") as caught:
        load_cubes(policy_for(server, url=url), key=b"key")
    assert says in caught.value.message
    assert "onnection refused" in (caught.value.detail or "")
    assert SECRET not in told(caught.value)


def test_a_connection_that_is_lost_half_way(server: Connection) -> None:
    """The server ends it after a block has been read."""
    server.execute("CREATE TABLE long AS SELECT 'F' AS sex, i AS age FROM generate_series(1, 9) i")
    server.execute(
        "CREATE FUNCTION cut(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
        " IF $1 = 9 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
        " RETURN $1; END $$"
    )
    origin = f"SELECT '{SECRET}' AS sex, cut(age) AS age FROM long"
    with pytest.raises(SourceError, match="connection to PostgreSQL was lost") as caught:
        load_cubes(policy_for(server, **{"from": origin}), key=b"key")
    assert SECRET not in told(caught.value)


def test_a_statement_that_takes_too_long(server: Connection) -> None:
    url = url_of(server, options="-csearch_path=data -cstatement_timeout=50")
    origin = "SELECT sex, age FROM people, pg_sleep(10)"
    with pytest.raises(SourceError, match="QueryCanceled") as caught:
        load_cubes(policy_for(server, url=url, **{"from": origin}), key=b"key")
    assert "statement_timeout" in (caught.value.hint or "")


def test_an_encoding_that_is_not_utf8(server: Connection, counts: Counts) -> None:
    for encoding, words in (("SQL_ASCII", "encoding is SQL_ASCII"), ("LATIN1", None)):
        server.execute(
            f"CREATE DATABASE other ENCODING '{encoding}' TEMPLATE template0"
            " LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        try:
            policy = policy_for(
                server,
                {"sex": {"values": ["é"]}},
                url=url_of(server).replace("@/postgres?", "@/other?"),
                **{"from": "SELECT chr(233) AS sex"},
            )
            with pytest.raises(SourceError, match=words) if words else contextlib.nullcontext():
                assert counts(load_cubes(policy, key=b"key")["t"]) == [1]
        finally:
            server.execute("DROP DATABASE other")


# Through the gate ---------------------------------------------------------------------------


def test_answers_and_a_ledger_that_knows_no_password(server: Connection, tmp_path: Path) -> None:
    written = {"source": {"url": url_of(server)}, "ledger": str(tmp_path / "spent.db")}
    table = {"budget": {"epsilon": 1000}, "attributes": AXES, "from": "people"}
    written["tables"] = {"person": table}
    with tallyveil.connect(parse_policy(written)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET dp.epsilon = 100")
        cursor.execute("SELECT count(*) FROM person WHERE sex = 'F'")
        assert cursor.fetchone() == (2,)
    user = server.info.user
    for url in (
        url_of(server).replace(f"{user}@", f"{user}:{SECRET}@"),
        url_of(server) + f"&password={SECRET}&application_name=x",
    ):
        policy = parse_policy({**written, "source": {"url": url}})
        with tallyveil.connect(policy) as connection:
            cursor = connection.cursor()
            cursor.execute("SET dp.source = history")
            cursor.execute("SELECT count(*) FROM person WHERE sex = 'F'")
            assert cursor.fetchone() == (2,)
        assert SECRET not in f"{policy!r} {policy.source} {summary(policy)}"
        assert SECRET.encode() not in (tmp_path / "spent.db").read_bytes()
    other = url_of(server).replace("@/postgres?", "@/template1?")
    with pytest.raises(SourceError):
        tallyveil.connect(parse_policy({**written, "source": {"url": other}}))


@pytest.mark.parametrize(
    "url", [f"postgresql://me:{SECRET}%zz@h/d", f"postgresql://h/d?pass={SECRET}"]
)
def test_a_url_that_is_none(url: str) -> None:
    table = {"budget": {"epsilon": 1}, "attributes": AXES}
    with pytest.raises(PolicyError, match="postgresql://user@host") as caught:
        parse_policy({"source": {"url": url}, "tables": {"t": table}})
    assert SECRET not in told(caught.value)


def test_tables_of_the_same_people(server: Connection, counts: Counts) -> None:
    """Two of its tables are read for one cube, as in a DuckDB source."""
    rows = {
        "person": "SELECT i AS pid, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END AS sex",
        "visit": "SELECT i / 2 AS pid, i % 2 AS ward",
    }
    spans = {"person": "(0, 19)", "visit": "(0, 50)"}
    memory = duckdb.connect()
    for name, select in rows.items():
        sql = f"CREATE TABLE {name} AS {select} FROM generate_series{spans[name]} t(i)"
        server.execute(sql)
        memory.execute(sql.replace("i / 2", "i // 2").replace("i % 2 ", "(i % 2)::int "))
    person = {
        "privacy_unit": {"column": "pid", "max_rows": 1},
        "budget": {"epsilon": 1},
        "attributes": {"sex": {"values": ["F", "M"]}},
        "per_unit": {"odd": {"count": "visit", "where": "ward = 1"}},
    }
    visit = {
        "privacy_unit": {"column": "pid", "max_rows": 2},
        "keys": {"pid": "person.pid"},
        "attributes": {"ward": {"range": [0, 1]}},
    }
    tables = {"person": person, "visit": visit}
    policy = parse_policy({"source": {"url": url_of(server)}, "tables": tables})
    found = load_cubes(policy, key=b"key")
    expected = load_cubes(parse_policy({"tables": tables}), memory, key=b"key")
    for name in tables:
        assert counts(found[name]) == counts(expected[name])
    assert sum(counts(found["visit"])) == 51
    assert counts(found["person"], "odd") == [0, 20, 0]
