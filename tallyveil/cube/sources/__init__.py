"""Where tables come from: a file of a known kind, a data frame, or an open DuckDB connection.

`open_source` says what all of them are asked for. What DuckDB reads by itself is a `DuckDBSource`;
what has a library of its own is a `StreamedSource`. Each kind that a policy may name is a
`SourceKind` in `policy.source_kinds`, and a line of the table below. Files are read in a private
in-memory DuckDB, a DuckDB file read-only, and a connection that was passed through a cursor of it,
so that no setting and no object of the caller's changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import Final

import duckdb

from tallyveil.cube.sources.csv_file import CSV
from tallyveil.cube.sources.data_frame import Given, connected
from tallyveil.cube.sources.duckdb_source import DuckDBSource
from tallyveil.cube.sources.file_kinds import DUCKDB, PARQUET, Opener
from tallyveil.cube.sources.open_source import OpenSource, Rows
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, PublicTable, Source

__all__ = ["Given", "OpenSource", "Rows", "check_files", "connected", "opened", "opened_public"]

_KINDS: Final[Mapping[str, Opener]] = MappingProxyType(
    {"parquet": PARQUET, "csv": CSV, "duckdb": DUCKDB}
)


def check_files(policy: Policy) -> None:
    """Look whether the files are there that the policy names; none is opened.

    Raises SourceError with all that are missing.
    """
    named = [(f"public.{name}.url", table.file) for name, table in policy.public.items()]
    files = [(key, file) for key, file in [("source.url", policy.source), *named] if file]
    missing = [(key, file) for key, file in files if file.missing]
    if missing:
        raise _missing(missing)


def _missing(files: Sequence[tuple[str, Source]]) -> SourceError:
    first, *others = (f"{key}: there is no file {file.shown}" for key, file in files)
    return SourceError(
        first,
        detail="\n".join(others) or None,
        hint="Put it there, or correct the path: a relative one begins at the policy's folder.",
    )


def opened(
    policy: Policy, connection: duckdb.DuckDBPyConnection | None = None
) -> closing[OpenSource]:
    """The connection's tables, or the policy's source.

    Raises SourceError where there is no source, or it cannot be opened.
    """
    return closing(_given(connection) if connection is not None else _named(policy))


def opened_public(table: PublicTable, file: Source) -> closing[OpenSource]:
    """The file of a public table, which goes by the table's name too.

    Raises SourceError where the file is not there, or cannot be opened.
    """
    return closing(_opened(f"public.{table.name}.url", file, [table.name], public=True))


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
    return _opened("source.url", policy.source, policy.tables, public=False)


def _opened(key: str, file: Source, names: Iterable[str], *, public: bool) -> OpenSource:
    if file.missing:
        raise _missing([(key, file)])
    kind = _KINDS[file.kind.name]
    try:
        return (kind.public if public else kind.confidential)(file, names)
    except duckdb.Error as error:
        # DuckDB's own message may quote what it found in the file.
        raise SourceError(
            f"{key}: {file.shown} cannot be opened as {file.kind.name} (DuckDB's"
            f" {type(error).__name__})",
            hint="If this process has the file open already, pass that connection as source.",
        ) from None
