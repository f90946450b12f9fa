"""JSON: an object a line, or one array of objects, which only a file named .json can be.

No record decides how others are read: the columns are those that the policy names, and each is
text. A string is its characters, anything else the text of its JSON; null and a missing member are
NULL. Of newline-delimited files every line that is not blank is a record, and one that is no JSON
object has NULL everywhere. An array is one document, which its writer must get right: a mistake in
it, or an object of more than 16 MB, makes loading fail. A public table's columns and types are
DuckDB's guesses.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import duckdb

from tallyveil.cube.sources.contents import unpacked
from tallyveil.cube.sources.file_kinds import Opener, one_relation, reader
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.quoting import literal

__all__ = ["JSON"]

_CHUNK: Final = 2**20
_LEAST: Final = 2**24  # DuckDB's own limit of an object


def _confidential(_: duckdb.DuckDBPyConnection, source: Source, files: list[str]) -> str:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in source.columns)
    arrays, longest = set(), _LEAST
    for file in files:
        array, length = _shape(source, file)
        arrays.add(array)
        longest = max(longest, length)
    if len(arrays) > 1:
        raise SourceError(
            f"{source.key}: of the files of {source.shown} some are arrays and some are not"
        )
    return reader(
        "read_json",
        files,
        f"columns = {{{columns}}}",
        f"format = '{'array' if arrays == {True} else 'newline_delimited'}'",
        f"auto_detect = false, ignore_errors = true, maximum_object_size = {longest}",
    )


def _shape(source: Source, file: str) -> tuple[bool, int]:
    """Whether the file is an array, and how long a line can be that no limit may refuse."""
    try:
        with unpacked(source, file) as contents:
            chunk = contents.read(_CHUNK)
            array = chunk.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
            if array and ".json" in PurePosixPath(file).suffixes:
                return True, 0
            longest = run = 0
            while chunk:
                run = 2 * _CHUNK if b"\n" in chunk else run + _CHUNK
                longest = max(longest, run)
                chunk = contents.read(_CHUNK)
    except (OSError, EOFError) as error:
        raise SourceError(
            f"{source.key}: {source.shown} cannot be read as JSON ({type(error).__name__})"
        ) from None
    return False, longest


def _public(_: duckdb.DuckDBPyConnection, source: Source, files: list[str]) -> str:
    return reader("read_json", files)


JSON: Final = Opener(one_relation(_confidential), one_relation(_public))
