"""Where tables come from: a file of a known kind, a data frame, or an open DuckDB connection.

A connection is this room's own, and closed after loading: a file is read in a
private in-memory DuckDB, a DuckDB file read-only, and a connection that was passed through a cursor
of it, so that no setting and no object of the caller's changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import Final

import duckdb

from tallyveil.cube.sources.csv_file import CSV
from tallyveil.cube.sources.data_frame import Given, connected
from tallyveil.cube.sources.file_kinds import DUCKDB, PARQUET, FileKind
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, PublicTable, Source
from tallyveil.policy.mistakes import without_passwords

__all__ = ["Given", "check_files", "connected", "opened", "opened_public", "reason"]

_KINDS: Final[Mapping[str, FileKind]] = MappingProxyType(
    {"parquet": PARQUET, "csv": CSV, "duckdb": DUCKDB}
)


_ABOUT_SQL: Final = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)


def check_files(policy: Policy) -> None:
    """Look whether the files are there that the policy names; none is opened.

    Raises SourceError with all that are missing.
    """
    named = [(f"public.{name}.url", table.file) for name, table in policy.public.items()]
    files = [(key, file) for key, file in [("source.url", policy.source), *named] if file]
    missing = [(key, file) for key, file in files if not file.path.is_file()]
    if missing:
        raise _missing(missing)


def _shown(file: Source) -> str:
    """The path, which may be a mistyped url with a password."""
    return without_passwords(str(file.path))


def _missing(files: Sequence[tuple[str, Source]]) -> SourceError:
    first, *others = (f"{key}: there is no file {_shown(file)}" for key, file in files)
    return SourceError(
        first,
        detail="\n".join(others) or None,
        hint="Put it there, or correct the path: a relative one begins at the policy's folder.",
    )


def reason(error: duckdb.Error) -> str | None:
    """DuckDB's words about the custodian's own SQL, or None if they may quote what is stored.

    Further lines list the source's columns, which in a file without a header are a record.
    """
    if not isinstance(error, _ABOUT_SQL):
        return None
    return without_passwords(str(error).split("\n", 1)[0].partition(": ")[2])


def opened(
    policy: Policy, connection: duckdb.DuckDBPyConnection | None
) -> closing[duckdb.DuckDBPyConnection]:
    """A cursor on which every table's ``from`` can be asked.

    Raises SourceError where there is no source, or it cannot be opened.
    """
    return closing(_cursor(policy, connection))


def opened_public(table: PublicTable, file: Source) -> closing[duckdb.DuckDBPyConnection]:
    """A connection on which the public table's ``from`` can be asked.

    Raises SourceError where the file is not there, or cannot be opened.
    """
    return closing(_file(f"public.{table.name}.url", file, [table.name], public=True))


def _cursor(
    policy: Policy, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyConnection:
    if connection is not None:
        try:
            return connection.cursor()
        except duckdb.Error:
            raise SourceError("the DuckDB connection passed as source is closed") from None
    if policy.source is None:
        raise SourceError(
            "the policy names no source",
            hint='Add [source] with url = "people.parquet" to it, or pass an open DuckDB '
            "connection as source.",
        )
    return _file("source.url", policy.source, policy.tables, public=False)


def _file(
    key: str, file: Source, names: Iterable[str], *, public: bool
) -> duckdb.DuckDBPyConnection:
    if not file.path.is_file():
        raise _missing([(key, file)])
    kind = _KINDS[file.kind.name]
    try:
        return (kind.public if public else kind.confidential)(file.path, names)
    except duckdb.Error as error:
        # DuckDB's own message may quote what it found in the file.
        raise SourceError(
            f"{key}: {_shown(file)} cannot be opened as {file.kind.name} (DuckDB's"
            f" {type(error).__name__})",
            hint="If this process has the file open already, pass that connection as source.",
        ) from None
