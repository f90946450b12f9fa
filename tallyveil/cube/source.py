"""Opening the confidential source. The connection is this room's own, and closed after loading.

A file is read in a private in-memory DuckDB, a DuckDB file read-only, and a connection that was
passed through a cursor of it, so that no setting and no object of the caller's changes.

CSV is comma-separated UTF-8 (RFC 4180) with its columns' names in the first line. The dialect is
fixed, not guessed, since a guess can turn on one record; every column is text; an empty field is
NULL; surplus fields are dropped, missing ones are NULL. A line that is not UTF-8, or longer than
DuckDB's 2 MB, is skipped. Quoting is the writer's duty: a quote that is opened and never closed
makes one field of all that follows. Where records come from hands that may not quote, Parquet has
no such trap.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from tallyveil.cube.reading import quoted
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, Source

__all__ = ["CONFIG", "check_files", "opened"]

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}


def check_files(policy: Policy) -> None:
    """Look whether the files are there that the policy names; none is opened.

    Raises SourceError with all that are missing.
    """
    named = [(f"public.{name}.url", table.file) for name, table in policy.public.items()]
    files = [(key, file) for key, file in [("source.url", policy.source), *named] if file]
    missing = [(key, file) for key, file in files if not file.path.is_file()]
    if missing:
        raise _missing(missing)


def _missing(files: Sequence[tuple[str, Source]]) -> SourceError:
    first, *others = (f"{key}: there is no file {file.path}" for key, file in files)
    return SourceError(
        first,
        detail="\n".join(others) or None,
        hint="Put it there, or correct the path: a relative one begins at the policy's folder.",
    )


@contextmanager
def opened(
    policy: Policy, connection: duckdb.DuckDBPyConnection | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor on which every table's ``from`` can be asked.

    Raises SourceError where there is no source, or it cannot be opened.
    """
    cursor = _cursor(policy, connection)
    try:
        yield cursor
    finally:
        cursor.close()


def _cursor(
    policy: Policy, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyConnection:
    if connection is not None:
        try:
            return connection.cursor()
        except duckdb.Error:
            raise SourceError("the DuckDB connection passed as source is closed") from None
    source = policy.source
    if source is None:
        raise SourceError(
            "the policy names no source",
            hint='Add [source] with url = "people.parquet" to it, or pass an open DuckDB '
            "connection as source.",
        )
    if not source.path.is_file():
        raise _missing([("source.url", source)])
    try:
        if source.kind == "duckdb":
            return duckdb.connect(str(source.path), read_only=True, config=CONFIG)
        return _file(policy, source)
    except duckdb.Error as error:
        # DuckDB's own message may quote what it found in the file.
        raise SourceError(
            f"source.url: {source.path} cannot be opened as {source.kind} "
            f"(DuckDB's {type(error).__name__})",
            hint="If this process has the file open already, pass that connection as source.",
        ) from None


def _file(policy: Policy, source: Source) -> duckdb.DuckDBPyConnection:
    """A private database in which the file goes by its stem and by every table's name."""
    memory = duckdb.connect(":memory:", config=CONFIG)
    relation = _csv(source.path) if source.kind == "csv" else _parquet(source.path)
    stem = source.path.name.split(".")[0]
    for name in dict.fromkeys(name.lower() for name in (stem, *policy.tables)):
        memory.execute(f"CREATE VIEW {quoted(name)} AS FROM {relation}")
    return memory


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _parquet(path: Path) -> str:
    return f"read_parquet({_text(str(path))})"


def _csv(path: Path) -> str:
    names = _header(path)
    columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({_text(str(path))}, columns = {{{columns}}}, auto_detect = false, "
        "header = true, delim = ',', quote = '\"', escape = '\"', "
        # In one thread, so that a malformed line is skipped alike in every run.
        # Not strict, since one line that ends differently from the others would fail them all.
        "ignore_errors = true, null_padding = true, parallel = false, strict_mode = false)"
    )


def _header(path: Path) -> list[str]:
    unpack = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        # Read ahead of the header there may be a record with bytes that are no UTF-8.
        with unpack(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
            names = next(csv.reader(lines), [])
    except (OSError, EOFError, csv.Error) as error:
        raise SourceError(
            f"source.url: the first line of {path} cannot be read as CSV ({type(error).__name__})"
        ) from None
    folded = {name.lower() for name in names}
    if not names or "" in folded or len(folded) != len(names):
        raise SourceError(
            f"source.url: the first line of {path} must name every column, each differently"
        )
    return names
