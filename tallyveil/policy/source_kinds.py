"""The kinds of sources that a policy may name; `cube.sources` opens them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SUPPORTED", "SourceKind", "source_kind"]


@dataclass(frozen=True)
class SourceKind:
    """A kind of file by its name's ``endings``, or of another source by its url's ``schemes``.

    ``several``: whether it holds several named relations. ``left_out`` describes the records that
    cannot be read; None if every record is a row.
    """

    name: str
    words: str
    endings: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
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

*_FIRST, _LAST = (f"{k.words} ({', '.join((*k.endings, *k.schemes))})" for k in _KINDS)
SUPPORTED: Final = f"{', '.join(_FIRST)} or {_LAST}"


def source_kind(url: str) -> SourceKind | None:
    """Return the kind by the url's scheme or the file's ending, or None for any other."""
    scheme, separator, _ = url.partition("://")
    if separator:
        return next((k for k in _KINDS if f"{scheme.lower()}://" in k.schemes), None)
    return next((k for k in _KINDS if k.endings and url.lower().endswith(k.endings)), None)
