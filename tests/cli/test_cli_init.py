"""`tallyveil init`: what a draft says, what it must not know, and that it becomes a policy."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.cli.drafting.declarations import of_range, steps
from tests.cli.shell import shell

SECRETS = ("Zacharias", "987654", "1987-06-05", "31.25", "rare")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(path: str, *statements: str) -> None:
    with duckdb.connect(path if path.endswith("duckdb") else ":memory:") as connection:
        for statement in statements:
            connection.execute(statement)


ROWS = (
    "SELECT 987654 AS pid, 'Zacharias' AS name, 987654::BIGINT AS visits, 31.25 AS cost,"
    " DATE '1987-06-05' AS born, true AS member, 'rare'::ENUM('rare', 'x') AS mood,"
    " TIMESTAMPTZ '1987-06-05 12:00:00+00' AS seen, [1] AS codes"
)


def attributes(text: str) -> dict[str, Any]:
    (table,) = tomllib.loads(text)["tables"].values()
    found: dict[str, Any] = table["attributes"]
    return found


@pytest.mark.parametrize("kind", ["people.parquet", "people.csv", "people.duckdb"])
def test_a_draft_knows_nothing_of_the_rows(folder: Path, kind: str) -> None:
    if kind.endswith("duckdb"):
        source(kind, f"CREATE TABLE people AS {ROWS}")
    else:
        source(kind, f"COPY ({ROWS}) TO '{kind}'")
    assert shell("init", kind).exit_code == 0
    text = Path("people.toml").read_text()
    assert not any(secret in text for secret in SECRETS)
    assert "no row was read" in text.splitlines()[0]
    blank = {"nullable": True}
    if kind.endswith("csv"):
        expected = dict.fromkeys(
            ("name", "visits", "cost", "born", "member", "mood", "seen", "codes"), blank
        )
    else:
        word = {"values": [], "other": True, "nullable": True}
        day = {"range": [], "other": True}
        expected = {
            "name": word,
            "visits": {"range": [], "clamp": True, "nullable": True},
            "cost": {"range": [], "step": 0.01, "clamp": True, "nullable": True},
            "born": day,
            "member": {"values": [True, False], "other": True},
            "mood": word,
            "seen": {"range": [], "step": "1 hour", "other": True},
        }
    assert attributes(text) == expected
    assert "# pid = { " in text
    if not kind.endswith("csv"):
        assert "# TIMESTAMP WITH TIME ZONE; ends with offsets, as 2026-01-01 00:00:00Z" in text


def test_check_names_every_blank_and_the_filled_draft_answers(folder: Path) -> None:
    source("people.parquet", f"COPY ({ROWS}) TO 'people.parquet'")
    said = shell("init", "people.parquet").stdout
    assert said == (
        "people.toml drafts 1 table with 7 attributes. Fill in 8 blanks, then run tallyveil check"
        " people.toml.\n"
    )
    found = shell("check", "people.toml")
    assert "has 8 mistakes" in found.stderr
    assert len(found.stderr.splitlines()) == 9
    text = Path("people.toml").read_text()
    for blank, filled in (
        ("privacy_unit = { }", 'privacy_unit = "row"'),
        ("budget = { }", "budget = { epsilon = 1.0 }"),
        ("range = [], clamp", "range = [0, 9], clamp"),
        ("range = [], other", "range = [2000-01-01, 2000-12-31], other"),
        ("range = [], step = 0.01", "range = [0, 9], step = 0.01"),
        ("range = [], step = ", "range = [2000-01-01 00:00:00, 2000-12-31 23:00:00], step = "),
        ("values = []", 'values = ["a"]'),
    ):
        text = text.replace(blank, filled)
    Path("people.toml").write_text(text)
    assert "every record has a cell" in shell("check", "people.toml").stdout
    asked = shell("sql", "people.toml", "SELECT count(*) FROM people WHERE member")
    assert asked.exit_code == 0


SCHEMA = """
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE SCHEMA ward;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name VARCHAR);
CREATE TABLE ward.bed (x INTEGER);
CREATE TABLE "My ""T" (
    a INTEGER, b INTEGER, "select" mood NOT NULL, "Größe" INTEGER NOT NULL,
    state VARCHAR CHECK (state IN ('AL', 'WY')), born DATE, price DECIMAL(8, 2),
    customer INTEGER REFERENCES customer (id), email VARCHAR UNIQUE, "A B" BIGINT, a_b BIGINT,
    level INTEGER CHECK (level >= 1 AND level <= 5),
    opened TIME, huge INTEGER CHECK (huge BETWEEN 0 AND 9999999),
    CHECK ("Größe" BETWEEN -10 AND 300), CHECK (born >= DATE '1900-01-01'), CHECK (price > 0),
    CHECK (born <= DATE '2024-12-31'), PRIMARY KEY (a, b)
);
CREATE TABLE "show" (x INTEGER);
CREATE VIEW adult AS SELECT state FROM "My ""T\""""


def test_labels_checks_and_keys_are_used(folder: Path) -> None:
    source("house.duckdb", SCHEMA)
    assert shell("init", "house.duckdb").exit_code == 0
    text = Path("house.toml").read_text()
    tables = tomllib.loads(text)["tables"]
    assert [*tables] == ["my_t", "customer", "show", "bed"]
    assert tables["my_t"]["from"] == '"My ""T"'
    assert tables["bed"]["from"] == '"ward"."bed"'
    assert tables["my_t"]["attributes"] == {
        "select_": {"values": ["good", "bad"], "other": True, "column": "select"},
        "grosse": {"range": [-10, 300], "clamp": True, "column": "Größe"},
        "state": {"values": ["AL", "WY"], "nullable": True},
        "born": {"range": [*tomllib.loads("a=[1900-01-01, 2024-12-31]")["a"]], "other": True},
        "price": {"range": [], "step": 0.01, "clamp": True, "nullable": True},
        "a_b": {"range": [], "clamp": True, "nullable": True, "column": "A B"},
        "a_b_2": {"range": [], "clamp": True, "nullable": True, "column": "a_b"},
        "level": {"range": [1, 5], "clamp": True, "nullable": True},
        "opened": {"range": [], "step": "1 hour", "other": True},
        "huge": {"bins": [*range(0, 10_000_001, 1_000_000)], "clamp": True, "nullable": True},
    }
    for column, why in (
        ("a", "of a key (a, b)"),
        ("email", "of a key"),
        ("customer", "references"),
    ):
        assert re.search(rf"^# {column} = .* {re.escape(why)}", text, re.MULTILINE)
        assert f"# May identify whose a row is: {column} (" in text
    for table in ("customer", "show", "my_t", "bed"):
        filled = text.replace("privacy_unit = { }", 'privacy_unit = "row"')
        filled = filled.replace("budget = { }", "budget = { epsilon = 1 }")
        filled = filled.replace('range = [], step = "1', 'range = [06:00:00, 21:00:00], step = "1')
        filled = filled.replace("range = []", "range = [0, 1]").replace(
            "bins = []", "bins = [0, 1]"
        )
        Path("house.toml").write_text(filled.replace("values = []", 'values = ["a"]'))
        asked = shell("sql", "house.toml", f"SELECT count(*) FROM {table}")
        assert asked.exit_code == 0, asked.stderr


def test_postgresql_is_drafted_as_duckdb_is(folder: Path, postgres_uri: str) -> None:
    source("house.duckdb", SCHEMA)
    assert shell("init", "house.duckdb").exit_code == 0
    expected = tomllib.loads(Path("house.toml").read_text())["tables"]
    with psycopg.connect(postgres_uri, autocommit=True) as server:
        server.execute("CREATE DATABASE house")
        url = f"postgresql://{server.info.user}@/house?host={server.info.host}"
    try:
        with psycopg.connect(url, autocommit=True) as house:
            house.execute(SCHEMA.replace("VARCHAR CHECK", "VARCHAR(2) CHECK"))
            record = """INSERT INTO "My ""T" (a, b, "select", "Größe") VALUES (1, 2, 'bad', 7)"""
            house.execute(record)
            house.execute("ANALYZE")
        found = shell("init", url, "--output", "server.toml")
        assert found.exit_code == 0, found.stderr
        text = Path("server.toml").read_text()
        tables = tomllib.loads(text)["tables"]
        assert {name: one["attributes"] for name, one in tables.items()} == {
            name: one["attributes"] for name, one in expected.items()
        }
        for why in ("of a key (a, b)", "references customer (id)", "CHECK ((level >= 1)"):
            assert why in text
        assert shell("init", url, "--table", "adult", "--output", "view.toml").exit_code == 0
        (view,) = tomllib.loads(Path("view.toml").read_text())["tables"].values()
        assert view["attributes"] == {"state": {"values": [], "other": True, "nullable": True}}
        missing = shell("init", url, "--table", "bad", "--output", "no.toml")
        assert "the source has no table bad" in missing.stderr
        secret = url.replace("@/", ":hunter2@/")
        assert shell("init", secret, "--output", "secret.toml").exit_code == 0
        assert "hunter2" not in Path("secret.toml").read_text()
    finally:
        with psycopg.connect(postgres_uri, autocommit=True) as server:
            server.execute("DROP DATABASE house WITH (FORCE)")


def test_tables_and_views_by_name(folder: Path) -> None:
    source("house.duckdb", SCHEMA)
    found = shell("init", "house.duckdb", "--table", "ADULT", "--output", "a.toml")
    assert found.exit_code == 0
    assert [*tomllib.loads(Path("a.toml").read_text())["tables"]] == ["adult"]
    found = shell("init", "house.duckdb", "--table", "adults", "--table", "nix")
    assert (found.exit_code, "no table adults, nix" in found.stderr) == (1, True)
    assert "HINT: Did you mean adult?" in found.stderr
    assert not Path("house.toml").exists()


def test_look_reads_rows_and_says_so(folder: Path) -> None:
    rows = (
        "SELECT i AS n, i / 4.0 AS cost, ['F', 'M'][1 + i % 2] AS sex, 'x' || i AS word,"
        " DATE '2024-03-05' + CAST(i AS INTEGER) AS day FROM range(3, 98) t(i)"
    )
    for kind in ("people.parquet", "people.csv"):
        source(kind, f"COPY ({rows}) TO '{kind}'")
        found = shell("init", kind, "--look", "--force")
        assert "WARNING: people.toml holds what the rows hold" in found.stderr
        text = Path("people.toml").read_text()
        assert text.startswith("# DRAFTED FROM ROWS (--look)")
        axes = attributes(text)
        assert axes["n"]["range"] == [0, 100]
        assert axes["cost"]["bins"] == [0, 5, 10, 15, 20, 25]
        assert axes["sex"]["values"] == ["F", "M"]
        assert axes["word"]["values"] == []
        assert [str(day) for day in axes["day"]["range"]] == ["2024-01-01", "2024-12-31"]


@pytest.mark.parametrize("low", [-7.5, 0, 0.001, 1e-9, 123456.789, -(2**70), 1e300])
@pytest.mark.parametrize("span", [0, 1e-6, 0.3, 1, 99, 1e9])
def test_steps_reach_over_all(low: float, span: float) -> None:
    edges = steps(low, low + span)
    assert not edges or (edges[0] <= low and low + span <= edges[-1])
    assert len(edges) <= 12
    assert all(a < b for a, b in pairwise(edges))
    assert edges or abs(low) > 1e15


@pytest.mark.parametrize(("low", "high"), [(None, 3), (3, None), (4, 3), (0, "a")])
def test_a_range_needs_two_ends(low: Any, high: Any) -> None:
    assert of_range(low, high) == {"range": []}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing.parquet", "there is no file missing.parquet"),
        ("plain", "plain is not a source that can be read: expected a Parquet file"),
        ("empty.csv", "the first line of empty.csv must name every column"),
        ("broken.parquet", "broken.parquet cannot be opened as parquet"),
        ("none.duckdb", "the source has no tables"),
        ("mysql://u:hunter2@h/db", "is not a source that can be read"),
        ("s3://u:hunter2@b/x.parquet", "without credentials"),
        ("postgresql://u:hunter2/db", "expected postgresql://user@host:5432/database"),
        ("none/*.parquet", "no file matches none/*.parquet"),
    ],
)
def test_what_is_no_source(folder: Path, name: str, says: str) -> None:
    source("none.duckdb")
    for other in ("plain", "empty.csv", "broken.parquet"):
        Path(other).write_text("")
    found = shell("init", name)
    assert (found.exit_code, says in found.stderr) == (1, True), found.stderr
    assert "hunter2" not in found.stderr
    assert not [*folder.glob("*.toml")]


def test_a_policy_is_not_overwritten(folder: Path) -> None:
    Path("people.csv").write_text("a\n1\n")
    Path("people.toml").write_text("mine")
    found = shell("init", "people.csv")
    assert (found.exit_code, "people.toml exists already" in found.stderr) == (1, True)
    assert Path("people.toml").read_text() == "mine"
    assert shell("init", "people.csv", "--force").exit_code == 0
    Path("sub").mkdir()
    assert shell("init", "people.csv", "--output", "sub/p.toml").exit_code == 0
    assert tomllib.loads(Path("sub/p.toml").read_text())["source"]["url"] == "../people.csv"


def test_a_control_character_in_a_name_stays_in_its_line(folder: Path) -> None:
    Path("people.csv").write_text('"a\nbudget = 1","b""c","d\x7f\u2028"\n1,2,3\n')
    assert shell("init", "people.csv").exit_code == 0
    columns = [one.get("column") for one in attributes(Path("people.toml").read_text()).values()]
    assert columns == ["a\nbudget = 1", 'b"c', "d\x7f\u2028"]


METADATA = """
engine: pandas
"":
  clinic:
    PEOPLE:
      max_ids: 2
      rows: 1000
      censor_dims: false
      pid: {type: int, private_id: true}
      visits: {type: int, lower: 0, upper: 100}
      Name: {type: string, cardinality: 2, nullable: false}
      cost: {type: float, lower: 0.0, upper: 5}
      member: {type: boolean}
      born: {type: datetime}
"""


def test_metadata_of_smartnoise_becomes_a_policy(folder: Path) -> None:
    source("people.parquet", f"COPY ({ROWS}) TO 'people.parquet'")
    Path("meta.yaml").write_text(METADATA)
    command = ("init", "people.parquet", "--from-smartnoise", "meta.yaml")
    assert "Fill in 3 blanks" in shell(*command).stdout
    text = Path("people.toml").read_text()
    (table,) = tomllib.loads(text)["tables"].values()
    assert table["privacy_unit"] == {"column": "pid", "max_rows": 2}
    assert table["attributes"] == {
        "visits": {"range": [0, 100], "clamp": True, "nullable": True},
        "name": {"values": [], "other": True},
        "cost": {"bins": [i / 2 for i in range(11)], "clamp": True, "nullable": True},
        "member": {"values": [True, False], "other": True},
        "born": {"range": [], "other": True},
    }
    assert "# Not used of SmartNoise's metadata: rows, censor_dims." in text
    found = shell("check", "people.toml").stderr
    for key in ("budget", "attributes.name.values", "attributes.born.range"):
        assert f"tables.people.{key}" in found
    assert shell("init", "meta.yaml").exit_code == 0
    assert tomllib.loads(Path("meta.toml").read_text())["tables"]["people"]["from"] == "PEOPLE"
    Path("meta.yaml").write_text(METADATA.replace("max_ids: 2", "row_privacy: true"))
    shell(*command, "--force")
    assert (
        tomllib.loads(Path("people.toml").read_text())["tables"]["people"]["privacy_unit"] == "row"
    )


def test_mistakes_in_metadata_are_named_all_at_once(folder: Path) -> None:
    Path("bad.yaml").write_text(
        "a:\n b:\n  c:\n   max_ids: 0\n   x: {type: text}\n   y: {type: int, lower: no}\n   z: 3\n"
    )
    found = shell("init", "bad.yaml")
    assert found.exit_code == 1
    for says in (
        "a.b.c.x.type: expected one of int, float, string, boolean, datetime",
        "a.b.c.y.lower = False: expected a whole number",
        "a.b.c.z: expected keys below it",
        "a.b.c.max_ids = 0: expected a whole number from 1 on",
    ):
        assert says in found.stderr
    for text, says in (("a: [", "is not valid YAML"), ("", "the file: expected keys below it")):
        Path("bad.yaml").write_text(text)
        assert says in shell("init", "bad.yaml").stderr
    source("people.parquet", f"COPY ({ROWS}) TO 'people.parquet'")
    Path("meta.yaml").write_text(METADATA.replace("cost:", "price:").replace("born:", "bron:"))
    found = shell("init", "people.parquet", "--from-smartnoise", "meta.yaml")
    assert "PEOPLE.price: the source has no such column" in found.stderr
    assert "PEOPLE.bron: the source has no such column" in found.stderr
