"""Where tables come from: files, object stores, lakes, databases, data frames and DuckDB.

`open_source` says what all of them are asked for. What DuckDB reads by itself is a `DuckDBSource`;
what has a library of its own is a `StreamedSource`. Each kind that a policy may name is a
`SourceKind` in `policy.source_kinds`, and a line of the table below. Files are read in a private
in-memory DuckDB, a DuckDB file read-only, and a connection that was passed through a cursor of it,
so that no setting and no object of the caller's changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from types import MappingProxyType
from typing import Final

import duckdb

from tallyveil.cube.sources.adbc import ADBC
from tallyveil.cube.sources.csv_file import CSV, TSV, lines_skipped
from tallyveil.cube.sources.data_frame import Given, Passed, connected
from tallyveil.cube.sources.duckdb_source import DuckDBSource, failed, words
from tallyveil.cube.sources.file_kinds import ARROW, DUCKDB, Opener, file_database
from tallyveil.cube.sources.json_file import JSON
from tallyveil.cube.sources.lake_tables import DELTA, ICEBERG
from tallyveil.cube.sources.listing import is_there
from tallyveil.cube.sources.open_source import OpenSource, Rows
from tallyveil.cube.sources.parquet_files import PARQUET
from tallyveil.cube.sources.postgresql import POSTGRESQL, PostgreSQLSource
from tallyveil.cube.sources.spark import SPARK
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, PublicTable, Source

__all__ = [
    "DuckDBSource",
    "Given",
    "OpenSource",
    "Passed",
    "PostgreSQLSource",
    "Rows",
    "check_files",
    "connected",
    "failed",
    "file_database",
    "is_there",
    "opened",
    "opened_file",
    "opened_public",
    "unreadable_lines",
    "words",
]

_KINDS: Final[Mapping[str, Opener]] = MappingProxyType(
    {
        "parquet": PARQUET,
        "csv": CSV,
        "tsv": TSV,
        "json": JSON,
        "arrow": ARROW,
        "duckdb": DUCKDB,
        "delta": DELTA,
        "iceberg": ICEBERG,
        "postgresql": POSTGRESQL,
        "spark": SPARK,
        "adbc": ADBC,
    }
)


def check_files(policy: Policy) -> None:
    """Look whether the files are there that the policy names; none is opened.

    Raises SourceError with all that are missing.
    """
    files = (policy.source, *(table.file for table in policy.public.values()))
    missing = [file for file in files if file is not None and not is_there(file)]
    if missing:
        raise _missing(missing)


def unreadable_lines(policy: Policy) -> int | None:
    """How many lines of the source cannot be read, None if it has no lines. An exact, confidential
    number, for the custodian alone. Raises SourceError."""
    file = policy.source
    lines = file is not None and file.kind.name in ("csv", "tsv")
    return lines_skipped(file) if file is not None and lines else None


def _missing(files: Sequence[Source]) -> SourceError:
    first, *others = (f"{file.key}: there is no file {file.shown}" for file in files)
    return SourceError(
        first,
        detail="\n".join(others) or None,
        hint="Put it there, or correct the path: a relative one begins at the policy's folder.",
    )


def opened(policy: Policy, passed: Passed = None) -> AbstractContextManager[OpenSource]:
    """What was passed as the source, or else the policy's source.

    Raises SourceError where there is no source, or it cannot be opened.
    """
    if passed is None:
        return closing(_named(policy))
    if isinstance(passed, duckdb.DuckDBPyConnection):
        return closing(_given(passed))
    return nullcontext(passed)


def opened_public(table: PublicTable, file: Source) -> closing[OpenSource]:
    """The file of a public table, which goes by the table's name too.

    Raises SourceError where the file is not there, or cannot be opened.
    """
    return closing(opened_file(file, [table.name], public=True))


def _given(connection: duckdb.DuckDBPyConnection) -> OpenSource:
    try:
        return DuckDBSource(connection.cursor())
    except duckdb.Error:
        raise SourceError("the DuckDB connection passed as source is closed") from None


def _named(policy: Policy) -> OpenSource:
    if policy.source is None:
        raise SourceError(
            "the policy names no source",
            hint='Add [source] with url = "people.parquet" to it, or pass an open DuckDB '
            "connection as source.",
        )
    return opened_file(policy.source, policy.tables, public=False)


def opened_file(file: Source, names: Iterable[str], *, public: bool) -> OpenSource:
    """A source by its url, which goes by these names if it names no tables itself. Where it is
    ``public``, its contents may be looked at to open it.

    Raises SourceError.
    """
    if not is_there(file):
        raise _missing([file])
    kind = _KINDS[file.kind.name]
    try:
        return (kind.public if public else kind.confidential)(file, names)
    except duckdb.Error as error:
        # DuckDB's own message may quote what it found in the file.
        raise SourceError(
            f"{file.key}: {file.shown} cannot be opened as {file.kind.name} (DuckDB's"
            f" {type(error).__name__})",
            hint="If this process has the file open already, pass that connection as source.",
        ) from None
