"""Every kind of source, and what its custodian is told when it does not fit the policy."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.cube import load_cubes, relations_read
from tallyveil.errors import LedgerMismatch, SourceError
from tallyveil.policy import Policy, parse_policy
from tallyveil.solver_threads import in_thread

SECRET = "hunter2"
ROWS = [("F", 30), ("M", 31), ("F", 30), (None, 7), ("X", 31), ("F", 99)]
EXPECTED = [2, 0, 0, 1, 0, 0]  # F30 F31 M30 M31 NULL30 NULL31
AXES: dict[str, Any] = {
    "sex": {"values": ["F", "M"], "nullable": True},
    "age": {"range": [30, 31]},
}


def policy_for(url: str | None, base: Path, **table: Any) -> Policy:
    mapping: dict[str, Any] = {
        "tables": {"person": {"budget": {"epsilon": 1}, "attributes": AXES, **table}}
    }
    if url is not None:
        mapping["source"] = {"url": url}
    return parse_policy(mapping, base=base)


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE people (sex VARCHAR, age INTEGER)")
    connection.executemany("INSERT INTO people VALUES (?, ?)", ROWS)


@pytest.fixture(scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        fill(connection)
        for name in ("people.parquet", "people.csv", "it's.csv.gz"):
            target = str(folder / name).replace("'", "''")
            connection.execute(f"COPY people TO '{target}'")
    return folder


@pytest.fixture
def folder(_files: Path, tmp_path: Path) -> Path:
    """The same people as Parquet, CSV, zipped CSV and DuckDB file."""
    return shutil.copytree(_files, tmp_path, dirs_exist_ok=True)


SELECT = "SELECT sex, age FROM people WHERE age <> '99' -- not the oldest"


@pytest.mark.parametrize("url", ["people.parquet", "people.csv", "people.duckdb"])
@pytest.mark.parametrize("origin", ["people", "PEOPLE", SELECT, "FROM people SELECT *", '"people"'])
def test_kinds(folder: Path, url: str, origin: str, counts: Callable[..., list[int]]) -> None:
    cubes = load_cubes(policy_for(url, folder, **{"from": origin}), key=b"key")
    assert counts(cubes["person"]) == EXPECTED


@pytest.mark.parametrize("origin", ["person", '"it\'s"'])
def test_a_file_goes_by_the_tables_name_too(
    folder: Path, origin: str, counts: Callable[..., list[int]]
) -> None:
    cubes = load_cubes(policy_for("it's.csv.gz", folder, **{"from": origin}), key=b"key")
    assert counts(cubes["person"]) == EXPECTED


def test_an_open_connection(tmp_path: Path, counts: Callable[..., list[int]]) -> None:
    with duckdb.connect() as connection:
        fill(connection)
        before = connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()
        objects = connection.execute("FROM duckdb_views() SELECT view_name").fetchall()
        pending = connection.execute("FROM people")
        cubes = load_cubes(
            policy_for(None, tmp_path, **{"from": "main.people"}), connection, key=b"key"
        )
        assert len(pending.fetchall()) == len(ROWS)  # the caller's own result is untouched
        assert connection.execute("SELECT name, value FROM duckdb_settings()").fetchall() == before
        assert connection.execute("FROM duckdb_views() SELECT view_name").fetchall() == objects
    assert counts(cubes["person"]) == EXPECTED


def test_a_connection_comes_before_the_file(
    tmp_path: Path, counts: Callable[..., list[int]]
) -> None:
    with duckdb.connect() as connection:
        fill(connection)
        policy = policy_for("absent.parquet", tmp_path, **{"from": "people"})
        assert counts(load_cubes(policy, connection, key=b"key")["person"]) == EXPECTED


def test_a_duckdb_file_is_left_as_it_was(folder: Path) -> None:
    before = (folder / "people.duckdb").read_bytes()
    load_cubes(policy_for("people.duckdb", folder, **{"from": "people"}), key=b"key")
    assert (folder / "people.duckdb").read_bytes() == before


# CSV ----------------------------------------------------------------------------------------

GOOD = "F,30\nM,31\nF,30\n"
MALFORMED = {
    "too many fields": "F,30,surplus\n",
    "too few fields": "F\n",
    "junk after a quote": '"F"x,30\n',
    "no UTF-8": b"\xff\xfe,30\n",
    "NUL": b"\x00,30\n",
    "another line ending": "F,30\r\n",
    "an old line ending": "F,30\r",
    "blank lines": "\n\n",
    "a line beyond every buffer": "x" * 5_000_000 + ",30\n",
    "only commas": ",,,,,,\n",
    "a long field": "x" * 100_000 + ",30\n",
    "semicolons": "F;30\n",
    "tabs": "F\t30\n",
    "wrong types": "30,F\n",
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_malformed_line_takes_nobody_with_it(
    tmp_path: Path, name: str, place: str, counts: Callable[..., list[int]]
) -> None:
    line = MALFORMED[name]
    bad = line if isinstance(line, bytes) else line.encode()
    body = [bad, GOOD.encode()] if place == "first" else [GOOD.encode(), bad]
    (tmp_path / "person.csv").write_bytes(b"sex,age\n" + b"".join(body))
    found = counts(load_cubes(policy_for("person.csv", tmp_path), key=b"key")["person"])
    own = [x - y for x, y in zip(found, [2, 0, 0, 1, 0, 0], strict=True)]
    assert min(own) >= 0
    assert sum(own) <= 1


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_short_line_is_a_record(
    tmp_path: Path, place: int, counts: Callable[..., list[int]]
) -> None:
    lines = ["F,30\n"] * 2
    lines.insert(place, "M\n")
    (tmp_path / "person.csv").write_text("sex,age\n" + "".join(lines))
    axes = {**AXES, "age": {"range": [30, 31], "nullable": True}}
    cubes = load_cubes(policy_for("person.csv", tmp_path, attributes=axes), key=b"key")
    assert counts(cubes["person"], "sex") == [2, 1, 0]
    assert counts(cubes["person"], "age") == [2, 0, 1]


def test_csv_fields(tmp_path: Path, counts: Callable[..., list[int]]) -> None:
    text = '\ufeffage,"sex"\r\n30.0,"F"\r\n" 31 ",M\r\n31,\r\n30.5,F\r\n,F\r\n31,""\r\n'
    with gzip.open(tmp_path / "person.csv.gz", "wt", encoding="utf-8", newline="") as file:
        file.write(text)
    cubes = load_cubes(policy_for("person.csv.gz", tmp_path), key=b"key")
    assert counts(cubes["person"]) == [1, 0, 0, 1, 0, 2]


@pytest.mark.parametrize("header", ["", "sex,sex\n", "sex,\n", "sex,SEX\n"])
def test_a_csv_file_names_its_columns(tmp_path: Path, header: str) -> None:
    (tmp_path / "person.csv").write_text(header)
    with pytest.raises(SourceError, match="must name every column"):
        load_cubes(policy_for("person.csv", tmp_path), key=b"key")


def test_a_record_in_the_place_of_the_header_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "person.csv").write_text(f"{SECRET},30\nF,30\n")
    with pytest.raises(SourceError) as caught:
        load_cubes(policy_for("person.csv", tmp_path), key=b"key")
    assert "tables.person.attributes.sex" in str(caught.value)
    assert SECRET not in told(caught.value)


# Mistakes -----------------------------------------------------------------------------------


def told(error: BaseException) -> str:
    """All a log could hold: the chain of errors, with local variables of the frames."""
    return "".join(traceback.format_exception(error)) + str(error)


FAILING = {
    "unknown table": ("nobody", "no such table", None),
    "unknown column": ("SELECT age FROM people", "has no column sex", None),
    "unreadable type": ("SELECT sex, DATE '2020-01-01' AS age FROM people", "DATE", "Cast it"),
    "unreadable list": ("SELECT sex, [age] AS age FROM people", "INTEGER", "Cast it"),
    "no SQL": ("SELECT sex age FROM FROM people", "ParserException", None),
    "two statements": ("SELECT 1; DROP TABLE people", "ParserException", None),
    "unknown function": ("SELECT nofunction(sex) AS sex, age FROM people", "no such", None),
    "fails on a record": (
        f"SELECT CAST(sex || '{SECRET}' AS INTEGER) AS age, sex FROM people",
        "ConversionException",
        "TRY_CAST",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_the_custodian_is_told_what_does_not_fit(folder: Path, name: str) -> None:
    origin, says, hint = FAILING[name]
    with pytest.raises(SourceError) as caught:
        load_cubes(policy_for("people.duckdb", folder, **{"from": origin}), key=b"key")
    assert caught.value.message.startswith("tables.person.")
    assert says in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (len(ROWS),)


@pytest.mark.parametrize(
    ("origin", "detail"),
    [
        (
            "SELECT sexx AS sex, age FROM people",
            'Referenced column "sexx" not found in FROM clause!',
        ),
        ("SELECT round(sex, 'x') AS sex, age FROM people", "No function matches"),
        ("SELECT sex, age FROM people, peopel", "Table with name peopel does not exist!"),
        ("SELECT sex age FROM FROM people", 'syntax error at or near "FROM"'),
        (f"SELECT * FROM f(password={SECRET}, x", "syntax error"),
    ],
)
def test_duckdbs_words_about_the_select_are_told_and_no_record(
    tmp_path: Path, origin: str, detail: str
) -> None:
    """A file without a header has a record in its place, which DuckDB would list."""
    (tmp_path / "people.csv").write_text(f"{SECRET},sex,age\n{SECRET},F,30\n")
    with pytest.raises(SourceError) as caught:
        load_cubes(policy_for("people.csv", tmp_path, **{"from": origin}), key=b"key")
    assert (caught.value.detail or "").startswith(detail)
    assert SECRET not in told(caught.value)


def test_a_table_has_a_name_that_duckdb_reserves(tmp_path: Path) -> None:
    table = {"budget": {"epsilon": 1}, "attributes": AXES}
    names = ("show", "describe", "pivot", "qualify", "anti")
    with duckdb.connect() as connection:
        fill(connection)
        for name in names:
            connection.execute(f'CREATE TABLE "{name}" AS FROM people')
        policy = parse_policy({"tables": dict.fromkeys(names, table)}, base=tmp_path)
        cubes = load_cubes(policy, connection, key=b"key")
    assert len({cube.digest(b"key") for cube in cubes.values()}) == 1
    assert set(cubes) == set(names)


def test_what_a_table_reads_is_the_file_that_its_from_names(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("sex,age\nF,30\n")
    a, b, pattern = (str(tmp_path / f"{name}.csv") for name in "ab*")
    froms = {
        "a": ("a", {a}),
        "own": ("SELECT * FROM own", {a}),
        "named": ("WITH x AS (FROM A) SELECT * FROM x", {a}),
        "other": (f"SELECT * FROM read_csv('{b}', delim = ',')", {b}),
        "quoted": (f"SELECT * FROM '{b}'", {b}),
        "mixed": (f"SELECT sex, age FROM mixed JOIN '{b}' USING (sex, age)", {a, b}),
        "many": (f"SELECT * FROM read_csv(['{b}', '{pattern}'])", {b, pattern}),
        "none": ("SELECT 'F' AS sex, 30 AS age", {a}),
    }
    table = {"budget": {"epsilon": 1}, "attributes": AXES}
    tables = {name: table | {"from": origin} for name, (origin, _) in froms.items()}
    policy = parse_policy({"source": {"url": "a.csv"}, "tables": tables}, base=tmp_path)
    assert relations_read(policy) == {name: reads for name, (_, reads) in froms.items()}
    tables = {"a": table | {"from": "people"}, "b": table | {"from": f"SELECT * FROM '{b}'"}}
    with duckdb.connect() as connection:
        fill(connection)
        found = relations_read(parse_policy({"tables": tables}, base=tmp_path), connection)
    assert found == {"a": {"people"}, "b": {b}}


@pytest.mark.parametrize(
    "origin",
    [
        "view",
        "SELECT * FROM people JOIN more USING (age)",
        "SELECT * FROM query('FROM pe'||'ople')",
    ],
)
def test_what_cannot_be_found_out_may_be_any_relation(tmp_path: Path, origin: str) -> None:
    """Then the table may hold the rows of one that was charged, and must be declared beside it."""
    with duckdb.connect() as connection:
        fill(connection)
        connection.execute("CREATE TABLE more AS SELECT 30 AS age")
        connection.execute("CREATE VIEW view AS SELECT * FROM people JOIN more USING (age)")
        people = {"from": "people", "budget": {"epsilon": 1}, "attributes": AXES}
        other = {**people, "from": origin}

        def opened(**tables: Any) -> tallyveil.Connection:
            return tallyveil.connect(
                parse_policy({"tables": tables}, base=tmp_path), source=connection
            )

        with opened(people=people) as session:
            session.execute("SELECT count(*) FROM people")
        with pytest.raises(LedgerMismatch, match="reads the same rows"):
            opened(people=people, other=other)
        opened(people=people, other={**other, "beside": ["people"]}).close()


def test_an_error_about_a_record_does_not_quote_it(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people AS SELECT '{SECRET}' AS sex, 30 AS age")
        policy = policy_for(
            None, tmp_path, **{"from": "SELECT CAST(sex AS INTEGER) AS sex, age FROM people"}
        )
        with pytest.raises(SourceError) as caught:
            load_cubes(policy, connection, key=b"key")
    assert "ConversionException" in str(caught.value)
    assert SECRET not in told(caught.value)
    assert caught.value.__cause__ is None


def test_no_source_no_file_no_database(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="names no source"):
        load_cubes(policy_for(None, tmp_path), key=b"key")
    with pytest.raises(SourceError, match=r"no file .*absent\.parquet"):
        load_cubes(policy_for("absent.parquet", tmp_path), key=b"key")
    for name in ("broken.parquet", "broken.db"):
        (tmp_path / name).write_text(SECRET * 100)
        with pytest.raises(SourceError, match=r"source\.url: .* cannot be opened") as caught:
            load_cubes(policy_for(name, tmp_path), key=b"key")
        assert SECRET not in told(caught.value)
    closed = duckdb.connect()
    closed.close()
    with pytest.raises(SourceError, match="is closed"):
        load_cubes(policy_for(None, tmp_path), closed, key=b"key")


def test_an_interrupt_ends_the_reading(
    make_policy: Callable[..., Any],
    database: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin = "SELECT range % 2 AS a FROM range(1000000000000)"
    policy = make_policy({"a": {"range": [0, 1]}}, **{"from": origin})

    def interrupted(name: str, work: Callable[[], Any], **more: Any) -> Any:
        def begun() -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return work()

        return in_thread(name, begun, **more)

    monkeypatch.setattr("tallyveil.cube.cube_loading.in_thread", interrupted)
    # A shell starts what runs in the background with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_cubes(policy, database, key=b"key")
    finally:
        signal.signal(signal.SIGINT, before)
    assert database.execute("SELECT 1").fetchall() == [(1,)]
