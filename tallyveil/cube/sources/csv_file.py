"""CSV and TSV: UTF-8 (RFC 4180) with the columns' names in the first line; a comma or a tab between
fields.

The dialect is fixed, not guessed, since a guess can turn on one record; every column is text; an
empty field is NULL; surplus fields are dropped, missing ones are NULL. A line that is not UTF-8, or
longer than DuckDB's 2 MB, is skipped. Quoting is the writer's duty: a quote that is opened and
never closed makes one field of all that follows. Where records come from hands that may not quote,
Parquet has no such trap. A public table's dialect and types are DuckDB's guesses.
"""

from __future__ import annotations

import csv
import io
from functools import partial
from types import MappingProxyType
from typing import Final

import duckdb

from tallyveil.cube.sources import object_store
from tallyveil.cube.sources.contents import unpacked
from tallyveil.cube.sources.duckdb_source import CONFIG
from tallyveil.cube.sources.file_kinds import Opener, one_relation, reader
from tallyveil.cube.sources.listing import listed
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.quoting import literal

__all__ = ["CSV", "TSV", "lines_skipped"]

_DELIMITERS: Final = MappingProxyType({"csv": ",", "tsv": "\t"})


def lines_skipped(source: Source) -> int:
    """The number of lines that cannot be read. Exact and confidential, for the custodian alone.
    Raises SourceError."""
    noted = "store_rejects = true, rejects_limit = 0"
    with duckdb_connection(config=CONFIG) as memory:
        if source.stored:
            object_store.register(memory, source)
        read = _confidential(_DELIMITERS[source.kind.name], memory, source, listed(source), noted)
        memory.execute(f"SELECT count(COLUMNS(*)) FROM {read}").fetchall()
        found = "SELECT count(DISTINCT (file_id, line)) FROM reject_errors"
        ((lines,),) = memory.execute(found).fetchall()
    return int(lines)


def _confidential(
    delimiter: str, _: duckdb.DuckDBPyConnection, source: Source, files: list[str], *more: str
) -> str:
    first, *others = (_header(delimiter, source, file) for file in files)
    if any(names != first for names in others):
        raise SourceError(
            f"{source.key}: the first lines of the files of {source.shown} differ",
            hint="All files of one source have the same columns in the same order.",
        )
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in first)
    return reader(
        "read_csv",
        files,
        f"columns = {{{columns}}}",
        f"delim = {literal(delimiter)}",
        "auto_detect = false, header = true, quote = '\"', escape = '\"'",
        # In one thread, so that a malformed line is skipped alike in every run.
        # Not strict, since one line that ends differently from the others would fail them all.
        "ignore_errors = true, null_padding = true, parallel = false, strict_mode = false",
        *more,
    )


def _header(delimiter: str, source: Source, file: str) -> list[str]:
    try:
        # Read ahead of the header there may be a record with bytes that are no UTF-8.
        with unpacked(source, file) as packed:
            lines = io.TextIOWrapper(packed, encoding="utf-8-sig", errors="replace", newline="")
            names = next(csv.reader(lines, delimiter=delimiter), [])
    except (OSError, EOFError, csv.Error) as error:
        raise SourceError(
            f"{source.key}: the first line of {source.shown} cannot be read as"
            f" {source.kind.words} ({type(error).__name__})"
        ) from None
    folded = {name.lower() for name in names}
    if not names or "" in folded or len(folded) != len(names):
        raise SourceError(
            f"{source.key}: the first line of {source.shown} must name every column, each"
            " differently"
        )
    return names


def _public(_: duckdb.DuckDBPyConnection, source: Source, files: list[str]) -> str:
    return reader("read_csv", files)


CSV: Final = Opener(one_relation(partial(_confidential, _DELIMITERS["csv"])), one_relation(_public))
TSV: Final = Opener(one_relation(partial(_confidential, _DELIMITERS["tsv"])), one_relation(_public))
