"""CSV: comma-separated UTF-8 (RFC 4180) with its columns' names in the first line.

The dialect is fixed, not guessed, since a guess can turn on one record; every column is text; an
empty field is NULL; surplus fields are dropped, missing ones are NULL. A line that is not UTF-8, or
longer than DuckDB's 2 MB, is skipped. Quoting is the writer's duty: a quote that is opened and
never closed makes one field of all that follows. Where records come from hands that may not quote,
Parquet has no such trap. A public table's dialect and types are DuckDB's guesses.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Final

from tallyveil.cube.sources.file_kinds import Opener, public_views, views
from tallyveil.errors import SourceError
from tallyveil.quoting import literal

__all__ = ["CSV"]


def _confidential(path: Path) -> str:
    names = _header(path)
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({literal(str(path))}, columns = {{{columns}}}, auto_detect = false, "
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


CSV: Final = Opener(
    confidential=views(_confidential),
    public=public_views(lambda path: f"read_csv({literal(str(path))})"),
)
