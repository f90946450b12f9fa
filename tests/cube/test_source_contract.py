"""One contract for all sources: the awkward table has the same cube, cell by cell, through each.

Each source holds the columns whose values its format can hold. The oracle is DuckDB's own table of
the same rows, whose reading `test_reading_rules` compares with a slow oracle.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.parquet
import pytest

from tallyveil.cube import load_cubes
from tallyveil.policy import Policy, parse_policy

UTC = dt.UTC
TEXTS = [
    "F",
    "f",
    " F",
    "F ",
    "",
    "F\0",
    "é",
    "e\u0301",
    "a'b\"c,d\t;",
    "line\nline",
    "NULL",
    "x" * 3000,
]
NUMBERS = [0.0, -0.0, 1e300, -1e300, math.inf, -math.inf, math.nan, 2.5, 3.0, -7.25, 1e-300, 9e15]
WHOLE = [0, 1, -1, 9, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 5, 7, 10]
DAYS = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]
DAYS += [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
FAR = [2**31 - 1, 1 - 2**31, 2**31 - 2, 2_000_000, 20_454]  # infinity, -infinity and days
TIMES = [
    dt.datetime(2026, 1, 1, 23, 59, 59, 999999),
    dt.datetime(2026, 1, 2),
    dt.datetime(1, 1, 1),
    dt.datetime(1969, 12, 31, 23, 0, 0, 1),
]
DIGITS = [Decimal(sign + "9" * 36 + cents) for sign in ("", "-") for cents in (".99", ".00")]
DIGITS += [Decimal("3.00"), Decimal("2.50"), Decimal("-0.01")]
TRUTHS = [True, False]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "words": (pa.string(), TEXTS),
    "number": (pa.float64(), NUMBERS),
    "whole": (pa.int64(), WHOLE),
    "day": (pa.date32(), DAYS),
    "far": (pa.int32(), FAR),
    "moment": (pa.timestamp("us"), TIMES),
    "zoned": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=UTC) for moment in TIMES]),
    "digits": (pa.decimal128(38, 2), DIGITS),
    "truth": (pa.bool_(), TRUTHS),
}
ROWS = 60
WEEK = [dt.date(2026, 1, 1), dt.date(2026, 1, 5)]
DATE = {"range": WEEK, "other": True, "nullable": True}
AXES: dict[str, Any] = {
    "words": {"values": [t for t in TEXTS if "\0" not in t], "other": "rest", "nullable": True},
    "number": {"bins": [-8, 0, 2.5, 3, 1e300], "clamp": True, "nullable": True},
    "numbered": {"column": "number", "range": [0, 9], "other": True, "nullable": True},
    "whole": {"range": [-1, 9], "clamp": True, "nullable": True},
    "wide": {"column": "whole", "values": [2**63 - 1, -(2**63), 2**53 + 1], "other": True},
    "day": DATE,
    "far": {"range": WEEK, "clamp": True, "nullable": True},
    "moment": DATE,
    "zoned": DATE,
    "instant": {
        "column": "zoned",
        "range": [dt.datetime(2025, 12, 31, 23, tzinfo=UTC), dt.datetime(2026, 1, 2, tzinfo=UTC)],
        "step": "30 minutes",
        "other": True,
    },
    "digits": {"range": [0, 3], "clamp": True, "nullable": True},
    "binned": {"column": "digits", "bins": [-1, 0, 2, 3], "other": True, "nullable": True},
    "truth": {"values": [True, False], "nullable": True},
}


def awkward() -> pa.Table:
    """Every value of each column, and NULL, beside each other in many ways."""
    columns = {}
    for step, (name, (kind, values)) in enumerate(COLUMNS.items(), 1):
        known = [None, *values]
        columns[name] = pa.array([known[(n * step) % len(known)] for n in range(ROWS)], kind)
    columns["far"] = columns["far"].view(pa.date32())
    return pa.table(columns)


def as_text(value: Any) -> Any:
    """A value as a program writes it to a file of text."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def as_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def csv_text(table: pa.Table, delimiter: str) -> str:
    lines = [delimiter.join(table.column_names)]
    for row in table.to_pylist():
        fields = (
            "" if v is None else '"' + v.replace('"', '""') + '"'
            for v in map(as_text, row.values())
        )
        lines.append(delimiter.join(fields))
    return "\n".join(lines) + "\n"


def json_lines(table: pa.Table) -> str:
    rows = ({k: as_json(v) for k, v in row.items() if v is not None} for row in table.to_pylist())
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
            file.write(text)
    else:
        path.write_text(text, encoding="utf-8", newline="")


def parts(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The table in parts by a column of text, in folders named as Hive names them."""
    for truth in (True, False, None):
        known = pc.field("truth").is_null() if truth is None else pc.field("truth") == truth
        folder = "__HIVE_DEFAULT_PARTITION__" if truth is None else str(truth).lower()
        yield f"truth={folder}", table.filter(known).drop_columns("truth")


def duckdb_file(folder: Path, rows: pa.Table) -> dict[str, Any]:
    with duckdb.connect(str(folder / "rows.duckdb")) as database:
        database.execute("CREATE TABLE t AS FROM rows")
    return {"url": "rows.duckdb"}


def parquet(folder: Path, table: pa.Table) -> dict[str, Any]:
    pyarrow.parquet.write_table(table, folder / "rows.parquet")
    return {"url": "rows.parquet"}


def parquet_pattern(folder: Path, table: pa.Table) -> dict[str, Any]:
    for number, part in enumerate([table.slice(0, 20), table.slice(20)]):
        (folder / "a" / str(number)).mkdir(parents=True)
        pyarrow.parquet.write_table(part, folder / "a" / str(number) / "x.parquet")
    pyarrow.parquet.write_table(table, folder / "a" / "_left_out.parquet")
    return {"url": "a/**/*.parquet"}


def parquet_folder(folder: Path, table: pa.Table) -> dict[str, Any]:
    for name, part in parts(table):
        (folder / "rows" / name).mkdir(parents=True)
        pyarrow.parquet.write_table(part, folder / "rows" / name / "x.parquet")
    write(folder / "rows" / "_SUCCESS", "")
    return {"url": "rows", "format": "parquet"}


def arrow(folder: Path, table: pa.Table) -> dict[str, Any]:
    pyarrow.feather.write_feather(table, str(folder / "rows.feather"))
    return {"url": "rows.feather"}


def text_file(name: str, text: Callable[[pa.Table], str]) -> Callable[..., dict[str, Any]]:
    def made(folder: Path, table: pa.Table) -> dict[str, Any]:
        write(folder / name, text(table))
        return {"url": name}

    return made


def csv_folder(folder: Path, table: pa.Table) -> dict[str, Any]:
    for name, part in parts(table):
        write(folder / "rows" / name / "x.csv.gz", csv_text(part, ","))
    return {"url": str(folder / "rows"), "format": "csv"}


def json_array(folder: Path, table: pa.Table) -> dict[str, Any]:
    rows = [json.loads(line) for line in json_lines(table).splitlines()]
    write(folder / "rows.json", json.dumps(rows, indent=1))
    return {"url": "rows.json"}


def delta(folder: Path, table: pa.Table) -> dict[str, Any]:
    library = pytest.importorskip("deltalake", reason="deltalake is not installed")
    library.write_deltalake(str(folder / "rows"), table.slice(0, 20))
    library.write_deltalake(str(folder / "rows"), table, mode="overwrite")
    return {"url": "rows", "format": "delta"}


def iceberg(folder: Path, table: pa.Table) -> dict[str, Any]:
    library = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")
    catalog = library.SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    made = catalog.create_table("n.rows", schema=table.schema)
    made.append(table.slice(0, 20))
    made.append(table.slice(20))
    catalog.close()
    return {"url": "n/rows", "format": "iceberg"}


def sqlite(folder: Path, table: pa.Table) -> dict[str, Any]:
    pytest.importorskip("adbc_driver_sqlite", reason="adbc-driver-sqlite is not installed")
    with closing(sqlite3.connect(folder / "rows.sqlite")) as database, database:
        database.execute(f"CREATE TABLE t ({', '.join(table.column_names)})")
        rows = [
            [v if isinstance(v, int | float) else as_text(v) for v in row.values()]
            for row in table.to_pylist()
        ]
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return {"url": f"adbc://sqlite?uri={folder}/rows.sqlite"}


def duckdb_by_adbc(folder: Path, table: pa.Table) -> dict[str, Any]:
    pytest.importorskip("adbc_driver_manager", reason="adbc-driver-manager is not installed")
    library = pytest.importorskip("adbc_driver_duckdb").driver_path()
    path = folder / duckdb_file(folder, table)["url"]
    return {"url": f"adbc://{library}?entrypoint=duckdb_adbc_init&path={path}"}


ALL = tuple(COLUMNS)
LAKE = tuple(name for name in COLUMNS if name != "far")
TEXT = tuple(name for name in LAKE if name != "zoned")
SOURCES: dict[str, tuple[Callable[..., dict[str, Any]], tuple[str, ...]]] = {
    "duckdb": (duckdb_file, ALL),
    "parquet": (parquet, ALL),
    "parquet pattern": (parquet_pattern, ALL),
    "parquet folder": (parquet_folder, ALL),
    "arrow": (arrow, ALL),
    "csv": (text_file("rows.csv", lambda table: csv_text(table, ",")), TEXT),
    "csv folder": (csv_folder, TEXT),
    "tsv": (text_file("rows.tsv.gz", lambda table: csv_text(table, "\t")), TEXT),
    "json lines": (text_file("rows.jsonl", json_lines), TEXT),
    "json lines packed": (text_file("rows.json.gz", json_lines), TEXT),
    "json array": (json_array, TEXT),
    "delta": (delta, LAKE),
    "iceberg": (iceberg, LAKE),
    "sqlite": (sqlite, tuple(name for name in LAKE if name != "zoned")),
    "duckdb by adbc": (duckdb_by_adbc, ALL),
}


def declared(source: dict[str, Any] | None, base: Path, columns: Iterable[str]) -> Policy:
    axes = {n: axis for n, axis in AXES.items() if axis.get("column", n) in columns}
    table = {"budget": {"epsilon": 1}, "attributes": axes}
    keys = {} if source is None else {"source": source}
    return parse_policy({**keys, "tables": {"t": table}}, base=base)


@pytest.mark.parametrize("name", SOURCES)
def test_the_awkward_table_has_one_cube(
    name: str, tmp_path: Path, counts: Callable[..., list[int]]
) -> None:
    made, columns = SOURCES[name]
    rows = awkward().select(columns)
    found = load_cubes(declared(made(tmp_path, rows), tmp_path, columns), key=b"key")["t"]
    same = {"words": "words", "number": "number"}
    if columns is TEXT:
        # Text is a number where it has digits alone, and a CSV field cannot tell '' from NULL.
        same["number"] = "CASE WHEN isfinite(number) THEN number END"
        same["words"] = "words" if "json" in name else "nullif(words, '')"
    replaced = ", ".join(f"{expression} AS {column}" for column, expression in same.items())
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS SELECT * REPLACE ({replaced}) FROM rows")
        expected = load_cubes(declared(None, tmp_path, columns), database, key=b"key")["t"]
    for axis in expected.domain.names:
        assert counts(found, axis) == counts(expected, axis), axis
    assert found.digest(b"key") == expected.digest(b"key")
