"""Spark as the source, in a session on this machine: `make test-sources`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from tallyveil.cube import load_cubes, load_public, relations_read
from tallyveil.cube.sources import opened
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, parse_policy
from tests.cube.test_sources import AXES, EXPECTED, ROWS, SECRET, told

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
]
Counts = Callable[..., list[int]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose tables the source finds too, as it is of the same process."""
    sql = pytest.importorskip("pyspark.sql")
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(
        f"spark.master local[1]\nspark.ui.enabled false\nspark.sql.shuffle.partitions 1\n"
        f"spark.sql.warehouse.dir {folder / 'tables'}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYTHONWARNINGS", "ignore")
        session = sql.SparkSession.builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sql("CREATE TABLE people (sex STRING, age INT) USING parquet")
    rows = ", ".join(f"({'NULL' if s is None else repr(s)}, {a})" for s, a in ROWS)
    session.sql(f"INSERT INTO people VALUES {rows}")
    session.sql("CREATE VIEW seen AS SELECT age, sex FROM people")
    yield session
    session.stop()


def policy_for(attributes: Any = AXES, **table: Any) -> Policy:
    one = {"budget": {"epsilon": 1}, "attributes": attributes, "from": "people", **table}
    return parse_policy({"source": {"url": "spark://"}, "tables": {"t": one}})


# Each type with its type in DuckDB, and values as both write them.
VALUES: dict[str, tuple[str, str, list[str]]] = {
    "flag": ("boolean", "BOOLEAN", ["true", "false"]),
    "tiny": ("tinyint", "TINYINT", ["-128"]),
    "whole": ("int", "INTEGER", ["-2147483648", "0"]),
    "large": ("bigint", "BIGINT", ["9223372036854775807"]),
    "single": ("float", "FLOAT", ["cast('0.1' AS float)", "cast('NaN' AS float)"]),
    "double": (
        "double",
        "DOUBLE",
        [f"cast('{v}' AS double)" for v in ("-0.0", "0", "1e300", "Infinity", "-Infinity", "NaN")],
    ),
    "price": ("decimal(10,2)", "DECIMAL(10,2)", ["cast('-1.50' AS decimal(10,2))"]),
    "longest": ("decimal(38,0)", "DECIMAL(38,0)", [f"cast('{'9' * 38}' AS decimal(38,0))"]),
    "word": ("string", "VARCHAR", ["'Ab'", "'aB'", "''", "' a '", "'é'", "'e\u0301'", "'a,\"b'"]),
    "folded": ("string COLLATE UTF8_LCASE", "VARCHAR", ["'Ab'", "'aB'"]),
    "day": ("date", "DATE", ["date '2026-02-28'", "date '0001-01-01'", "date '9999-12-31'"]),
    "moment": ("timestamp_ntz", "TIMESTAMP", ["cast('2026-02-28 23:59:59.999999' AS {})"]),
    "instant": ("timestamp", "TIMESTAMPTZ", ["cast('2026-02-28 23:59:59.999999-05' AS {})"]),
    "numbers": ("array<int>", "VARCHAR", ["array(1, null)"]),
}  # fmt: skip


@pytest.mark.parametrize("alike", [True, False])
def test_each_value_is_what_duckdb_has(
    spark: Any, database: duckdb.DuckDBPyConnection, alike: bool
) -> None:
    with opened(policy_for()) as source:
        for name, (theirs, ours, values) in VALUES.items():
            selects = [(v.format(theirs), v.format(ours)) for v in [*values, "NULL"] * 2]
            given = [f"SELECT cast({v} AS {theirs}) AS v" for v, _ in selects]
            origin = " UNION ALL ".join(given)
            own = "'[1, null]'" if name == "numbers" else None
            database.execute(f"CREATE TABLE {name} (v {ours})")
            for _, value in selects:
                shown = own if own and value != "NULL" else value
                database.execute(f"INSERT INTO {name} VALUES ({shown})")
            ((_, kind, *_),) = database.execute(f"DESCRIBE {name}").fetchall()
            assert source.schema(origin, "key") == {"v": kind}, name
            with source.rows(origin, ["v"], "key", alike=alike) as rows:
                assert (rows.number is not None) == alike
                select = f"SELECT CAST(v AS VARCHAR), {rows.number or 1} FROM {rows.relation}"
                found = rows.connection.execute(select).fetchall()
            each = sorted((text for text, number in found for _ in range(number)), key=repr)
            expected = database.execute(f"SELECT CAST(v AS VARCHAR) FROM {name}").fetchall()
            assert each == sorted((text for (text,) in expected), key=repr), name


@pytest.mark.parametrize(
    "origin", ["people", "PEOPLE", "default.people", '"people"', "seen", "FROM people -- all"]
)
def test_tables_and_views(spark: Any, counts: Counts, origin: str) -> None:
    policy = policy_for(**{"from": origin})
    assert counts(load_cubes(policy, key=b"key")["t"]) == EXPECTED
    assert "spark_catalog.default.people" in relations_read(policy)["t"]


def test_a_unit_keeps_the_same_rows(
    spark: Any, database: duckdb.DuckDBPyConnection, counts: Counts
) -> None:
    columns = "SELECT {0} AS sex, 30 + i % 2 AS age, {1} AS pid, cast(i AS string) AS note"
    ours = columns.format("'F'", "i % 20").replace("string", "VARCHAR").replace("i % 2", "i % 2")
    database.execute(f"CREATE TABLE visit AS {ours} FROM range(200) AS numbers(i)")
    theirs = f"{columns.format(chr(39) + 'F' + chr(39), 'i % 20')} FROM range(200) AS numbers(i)"
    unit = {"column": "pid", "max_rows": 3}
    found = [
        counts(load_cubes(policy_for(privacy_unit=unit, **{"from": origin}), source, key=b"k")["t"])
        for origin, source in ((theirs, None), ("visit", database))
    ]
    assert found[0] == found[1]
    assert sum(found[0]) == 60


def test_a_total_is_public_for_a_table_alone(spark: Any) -> None:
    axes = {
        "sex": {"values": ["F", "M"], "other": "else"},
        "age": {"range": [0, 9], "clamp": True, "nullable": True},
    }
    load_cubes(policy_for(axes, neighbours="replace"), key=b"key")
    with pytest.raises(SourceError, match="may filter"):
        load_cubes(policy_for(axes, neighbours="replace", **{"from": "seen"}), key=b"key")


def test_a_public_table(spark: Any) -> None:
    policy = parse_policy(
        {
            "source": {"url": "spark://"},
            "public": {"region": {"from": "SELECT 'F' AS sex, 1.5 AS share"}},
            "tables": {"people": {"budget": {"epsilon": 1}, "attributes": AXES}},
        }
    )
    assert load_public(policy)["region"].column("sex").to_pylist() == ["F"]


@pytest.mark.parametrize(
    ("origin", "says", "detail"),
    [
        ("nobody", "cannot read it", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT sexx AS sex, age FROM people", "cannot read it", "UNRESOLVED_COLUMN"),
        ("SELECT age FROM people", "has no column sex", ""),
        ("SELECT 1; DROP TABLE people", "cannot read it", "PARSE_SYNTAX_ERROR"),
        (f"SELECT sex, cast(sex || '{SECRET}' AS int) AS age FROM people", "failed while", ""),
    ],
)
def test_the_custodian_is_told_what_does_not_fit(
    spark: Any, capfd: pytest.CaptureFixture[str], origin: str, says: str, detail: str
) -> None:
    with pytest.raises(SourceError) as caught:
        load_cubes(policy_for(**{"from": origin}), key=b"key")
    assert says in caught.value.message
    assert detail in (caught.value.detail or "")
    assert SECRET not in told(caught.value)
    assert SECRET not in "".join(capfd.readouterr())
