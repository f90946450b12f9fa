"""Files by a pattern and in folders; JSON; lakes; and what a custodian is told."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from tallyveil.cube import check_files, load_cubes
from tallyveil.errors import PolicyError, SourceError
from tallyveil.policy import Policy, parse_policy

SECRET = "hunter2"
AXES: dict[str, Any] = {
    "sex": {"values": ["F", "M"], "nullable": True},
    "age": {"range": [30, 31]},
}
Counts = Callable[..., list[int]]


def declared(base: Path, source: dict[str, Any], **table: Any) -> Policy:
    tables = {"person": {"budget": {"epsilon": 1}, "attributes": AXES, **table}}
    return parse_policy({"source": source, "tables": tables}, base=base)


def loaded(base: Path, url: str, format: str | None = None, **table: Any) -> Any:
    source = {"url": url} if format is None else {"url": url, "format": format}
    return load_cubes(declared(base, source, **table), key=b"key")["person"]


# JSON ---------------------------------------------------------------------------------------

GOOD = '{"sex": "F", "age": 30}\n{"sex": "M", "age": "31"}\n{"age": 30.0, "other": [1]}\n'
HOSTILE = {
    "no JSON": b"nonsense\n",
    "cut off": b'{"sex": "F", "age": 30\n',
    "no UTF-8": b'{"sex": "\xff", "age": 30}\n',
    "half a surrogate": b'{"sex": "\\ud800", "age": 30}\n',
    "NUL": b"\x00\n",
    "no object": b'"F"\n',
    "an array": b"[1]\n",
    "deep": b'{"sex": ' + b"[" * 100_000 + b"]" * 100_000 + b', "age": 30}\n',
    "long": b'{"sex": "' + b"x" * 40_000_000 + b'", "age": 31}\n',
    "no end of line": b'{"sex": {"F": "M"}, "age": 1e400}',
    "a name of another case": b'{"SEX": "F", "AGE": 30}\n',
    "wrong types": b'{"sex": 5, "age": true}\n',
}


FIRST = ("no JSON", "NUL", "an array", "deep", "long", "no object")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_malformed_line_of_json_is_a_record_of_its_own(
    tmp_path: Path, name: str, counts: Counts
) -> None:
    lines = [HOSTILE[name], GOOD.encode()]
    (tmp_path / "people.ndjson").write_bytes(b"".join(lines if name in FIRST else lines[::-1]))
    axes = {name: {**axis, "other": True} for name, axis in AXES.items()}
    found = counts(loaded(tmp_path, "people.ndjson", attributes=axes), "sex")
    assert sum(found) == 4
    assert min(x - y for x, y in zip(found, [1, 1, 0, 1], strict=True)) >= 0


def test_json_has_the_columns_of_the_policy(tmp_path: Path, counts: Counts) -> None:
    (tmp_path / "people.json").write_text(json.dumps([{"sex": "F", "age": 30, "x": SECRET}]))
    assert counts(loaded(tmp_path, "people.json"))[0] == 1
    with pytest.raises(SourceError) as caught:
        loaded(tmp_path, "people.json", **{"from": "SELECT x AS sex, age FROM people"})
    assert SECRET not in str(caught.value)
    (tmp_path / "people.json").write_text('[{"sex": "F", "age": 30}, {"sex": ')
    with pytest.raises(SourceError, match="DuckDB failed to read it"):
        loaded(tmp_path, "people.json")


# Several files ------------------------------------------------------------------------------


def test_columns_go_by_name_and_types_widen(tmp_path: Path, counts: Counts) -> None:
    for name, columns in (
        ("a", {"age": [30, 31], "sex": ["F", "M"]}),
        ("b", {"sex": ["F", None], "age": ["30", "no number"]}),
        ("c", {"age": pa.array([31], pa.int8())}),
    ):
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    assert counts(loaded(tmp_path, "[a-c].parquet")) == [2, 0, 0, 1, 0, 1]


def test_types_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """No day of one file may have no place in the type of another: it would make loading fail."""
    days = pa.array([2**31 - 2], pa.int32()).view(pa.date32())
    for name, column in (("a", days), ("b", pa.array([0], pa.timestamp("us")))):
        rows = pa.table({"sex": column, "age": [30]})
        pyarrow.parquet.write_table(rows, tmp_path / f"{name}.parquet")
        pyarrow.feather.write_feather(rows, str(tmp_path / f"{name}.feather"))
    with pytest.raises(SourceError, match="has the types DATE and TIMESTAMP in different files"):
        loaded(tmp_path, "*.parquet")
    with pytest.raises(SourceError, match="have different columns"):
        loaded(tmp_path, "*.feather")


def test_folders_are_columns_of_text(tmp_path: Path, counts: Counts) -> None:
    for folder in ("sex=F", "sex=M", "sex=007"):
        (tmp_path / "people" / folder).mkdir(parents=True)
        (tmp_path / "people" / folder / "x.csv").write_text("age\n30\n31\n")
        (tmp_path / "people" / folder / ".x.csv").write_text("nonsense\n1\n")
    axes = {**AXES, "sex": {"values": ["F", "007"]}}
    for url in ("people", "people/", str(tmp_path / "people")):
        assert counts(loaded(tmp_path, url, "csv", attributes=axes)) == [1, 1, 1, 1]
    assert counts(loaded(tmp_path, "people/*/*.csv", attributes=axes)) == [1, 1, 1, 1]


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no file": ({"url": "nothing/*.parquet"}, "no file matches"),
    "no folder": ({"url": "nothing", "format": "csv"}, "there is no file"),
    "a pattern as a name": ({"url": "odd", "format": "csv"}, "or \\[ in its name"),
    "no file of the format": ({"url": "people", "format": "parquet"}, "no file matches"),
    "other columns": ({"url": "people/*.csv"}, "the first lines of the files .* differ"),
    "a Delta table": ({"url": "lake", "format": "parquet"}, "table of another format"),
    "its files": ({"url": "lake/**/*.parquet"}, "table of another format"),
    "no Delta table": ({"url": "people", "format": "delta"}, "cannot be read as a Delta table"),
    "no Iceberg table": ({"url": "people", "format": "iceberg"}, "no Iceberg metadata"),
    "no Arrow file": ({"url": "people/a.csv", "format": "arrow"}, "cannot be opened as Arrow"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_custodian_is_told_what_is_wrong(tmp_path: Path, name: str) -> None:
    for library, table in (("deltalake", "no Delta table"), ("pyiceberg", "no Iceberg table")):
        if name == table:
            pytest.importorskip(library)
    (tmp_path / "people").mkdir()
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    (tmp_path / "lake" / "_delta_log" / "0.json").write_text("{}")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "*.csv").write_text("sex,age\n")
    (tmp_path / "people" / "a.csv").write_text(f"sex,age\n{SECRET},30\n")
    (tmp_path / "people" / "b.csv").write_text(f"age,sex\n30,{SECRET}\n")
    source, says = MISTAKES[name]
    with pytest.raises(SourceError, match=says) as caught:
        load_cubes(declared(tmp_path, source), key=b"key")
    assert "source.url" in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"url": "people"}, "a folder or another name with its format"),
        ({"url": "people", "format": "xlsx"}, "source.format"),
        ({"url": f"s3://key:{SECRET}@bucket/x.csv"}, "without credentials"),
        ({"url": f"s3://bucket/x.csv?secret_key={SECRET}"}, "without credentials"),
        ({"url": "s3://bucket/x.duckdb"}, "expected a Parquet file"),
        ({"url": f"mysql://me:{SECRET}@host/x", "format": "csv"}, "expected a Parquet file"),
    ],
)
def test_a_policy_names_what_can_be_read(tmp_path: Path, source: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=says) as caught:
        declared(tmp_path, source)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("form", "library"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, form: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SourceError, match=f"needs the library {library}") as caught:
        loaded(tmp_path, ".", form)
    assert caught.value.hint == "pip install 'tallyveil[lake]'"


def test_deleted_rows_of_a_lake_are_not_counted(tmp_path: Path, counts: Counts) -> None:
    library = pytest.importorskip("deltalake", reason="deltalake is not installed")
    rows = pa.table({"sex": ["F", "M", "F", None], "age": [30, 31, 31, 30]})
    library.write_deltalake(str(tmp_path / "lake"), rows, partition_by=["sex"])
    library.DeltaTable(str(tmp_path / "lake")).delete("age = 31 AND sex = 'F'")
    assert counts(loaded(tmp_path, "lake", "delta")) == [1, 0, 0, 1, 1, 0]
    select = "SELECT sex, age FROM lake WHERE age = 30"
    assert counts(loaded(tmp_path, "lake", "delta", **{"from": select})) == [1, 0, 0, 0, 1, 0]


def test_a_source_that_goes_is_an_error_to_the_custodian(tmp_path: Path) -> None:
    (tmp_path / "people.parquet").write_bytes(b"PAR1" + SECRET.encode() * 100 + b"PAR1")
    policy = declared(tmp_path, {"url": "people.parquet"})
    check_files(policy)
    with pytest.raises(SourceError, match="cannot be opened as parquet") as caught:
        load_cubes(policy, key=b"key")
    (tmp_path / "people.parquet").unlink()
    with pytest.raises(SourceError, match="there is no file"):
        load_cubes(policy, key=b"key")
    assert SECRET not in str(caught.value)
