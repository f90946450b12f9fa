"""The kinds of files that a policy may name as a source; `cube.sources` opens them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SUPPORTED", "SourceKind", "source_kind"]


@dataclass(frozen=True)
class SourceKind:
    """A kind of file. ``several``: whether a file holds several named relations. ``left_out``
    describes the records that cannot be read; None if every record is a row.
    """

    name: str
    words: str
    endings: tuple[str, ...]
    several: bool = False
    left_out: str | None = None


_KINDS: Final = (
    SourceKind("parquet", "a Parquet file", (".parquet",)),
    SourceKind(
        "csv",
        "a CSV file",
        (".csv", ".csv.gz"),
        left_out="lines that are not UTF-8, or longer than 2 MB",
    ),
    SourceKind("duckdb", "a DuckDB file", (".duckdb", ".ddb", ".db"), several=True),
)

*_FIRST, _LAST = (f"{kind.words} ({', '.join(kind.endings)})" for kind in _KINDS)
SUPPORTED: Final = f"{', '.join(_FIRST)} or {_LAST}"


def source_kind(url: str) -> SourceKind | None:
    """Return the kind by the file's ending, or None for any other."""
    plain = "://" not in url
    return next((k for k in _KINDS if plain and url.lower().endswith(k.endings)), None)
