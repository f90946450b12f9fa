"""An object store on this machine: every format that lies in one is counted as a file is."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs as pafs
import pyarrow.parquet
import pytest

from tallyveil.cube import load_cubes, load_public
from tallyveil.errors import SourceError
from tallyveil.policy import parse_policy

SECRET = "hunter2"
AXES: dict[str, Any] = {
    "sex": {"values": ["F", "M"], "nullable": True},
    "age": {"range": [30, 31]},
}
ROWS = pa.table({"sex": ["F", "M", None], "age": [30, 31, 30]})
EXPECTED = [1, 0, 0, 1, 1, 0]
LINES = '{"sex": "F", "age": 30}\n{"sex": "M", "age": "31"}\n{"age": 30.0, "other": [1]}\n'
Counts = Callable[..., list[int]]


def loaded(base: Path, url: str, form: str | None = None) -> Any:
    source = {"url": url} if form is None else {"url": url, "format": form}
    tables = {"person": {"budget": {"epsilon": 1}, "attributes": AXES}}
    policy = parse_policy({"source": source, "tables": tables}, base=base)
    return load_cubes(policy, key=b"key")["person"]


@contextmanager
def store_served() -> Iterator[str]:
    """In a process of its own, since DuckDB keeps Python's lock while it waits."""
    pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    code = (
        "import sys, moto.server as m; s = m.ThreadedMotoServer('127.0.0.1', 0, verbose=False);"
        " s.start(); print(s.get_host_and_port()[1], flush=True); sys.stdin.read()"
    )
    program = [sys.executable, "-c", code]
    with subprocess.Popen(
        program, stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.terminate()


@pytest.fixture(scope="module")
def bucket() -> Iterator[pafs.FileSystem]:
    """People in every format."""
    with store_served() as url, pytest.MonkeyPatch.context() as environment:
        for key, value in {
            "AWS_ACCESS_KEY_ID": "reader",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ENDPOINT_URL": url,
        }.items():
            environment.setenv(key, value)
        store = pafs.S3FileSystem(endpoint_override=url, allow_bucket_creation=True)
        store.create_dir("bucket")
        for place in ("bucket/people.parquet", "bucket/a/y=1/x.parquet", "bucket/a/_x.parquet"):
            pyarrow.parquet.write_table(ROWS, place, filesystem=store)
        pyarrow.dataset.write_dataset(ROWS, "bucket/f", format="feather", filesystem=store)
        texts = {
            "people.csv": b"sex,age\nF,30\nM,31\n,30\n",
            "people.jsonl": LINES.encode(),
            "zip/x.tsv.gz": gzip.compress(b"sex\tage\nF\t30\nM\t31\n\t30\n"),
        }
        for name, text in texts.items():
            with store.open_output_stream(f"bucket/{name}", compression=None) as file:
                file.write(text)
        yield store


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("s3://bucket/people.parquet", None),
        ("s3://bucket/*.parquet", None),
        ("s3://bucket/**/y=*/x.parquet", None),
        ("s3://bucket/a", "parquet"),
        ("s3://bucket/people.csv", None),
        ("s3://bucket/people.jsonl", None),
        ("s3://bucket/zip/", "tsv"),
        ("s3://bucket/f/*.feather", None),
    ],
)
def test_an_object_store(
    tmp_path: Path, bucket: pafs.FileSystem, url: str, form: str | None, counts: Counts
) -> None:
    assert counts(loaded(tmp_path, url, form)) == EXPECTED


def test_public_tables_in_an_object_store(tmp_path: Path, bucket: pafs.FileSystem) -> None:
    files = {"a": "s3://bucket/people.csv", "b": "s3://bucket/zip/*.gz"}
    public = {"a": {"url": files["a"]}, "b": {"url": files["b"], "format": "tsv"}}
    tables = {"person": {"budget": {"epsilon": 1}, "attributes": AXES}}
    found = load_public(parse_policy({"public": public, "tables": tables}, base=tmp_path))
    assert {name: len(rows) for name, rows in found.items()} == {"a": 3, "b": 3}


@pytest.mark.parametrize("url", ["s3://bucket/none.parquet", "s3://nowhere/*.csv"])
def test_an_object_store_without_the_file(
    tmp_path: Path, bucket: pafs.FileSystem, url: str
) -> None:
    with pytest.raises(SourceError, match=r"^source\.url: ") as caught:
        loaded(tmp_path, url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.slow
def test_lakes_in_an_object_store(tmp_path: Path, bucket: pafs.FileSystem, counts: Counts) -> None:
    library = pytest.importorskip("deltalake", reason="deltalake is not installed")
    options = {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    library.write_deltalake("s3://bucket/delta", ROWS, storage_options=options)
    assert counts(loaded(tmp_path, "s3://bucket/delta", "delta")) == EXPECTED
    catalogs = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed")
    catalog = catalogs.SqlCatalog(
        "c",
        **{
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": "s3://bucket",
            "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
        },
    )
    catalog.create_namespace("n")
    catalog.create_table("n.rows", schema=ROWS.schema).append(ROWS)
    catalog.close()
    assert counts(loaded(tmp_path, "s3://bucket/n/rows", "iceberg")) == EXPECTED
