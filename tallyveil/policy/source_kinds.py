"""The kinds of files that a policy may name as a source; `cube.sources` opens them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal, TypeAlias

__all__ = ["SUPPORTED", "SourceKind", "every_record_is_a_row", "source_kind"]

SourceKind: TypeAlias = Literal["parquet", "csv", "duckdb"]

_ENDINGS: Final = MappingProxyType[str, SourceKind](
    {
        ".parquet": "parquet",
        ".csv": "csv",
        ".csv.gz": "csv",
        ".duckdb": "duckdb",
        ".ddb": "duckdb",
        ".db": "duckdb",
    }
)

# Of other kinds, records that cannot be read are left out.
_WHOLE: Final = frozenset[SourceKind]({"parquet", "duckdb"})


SUPPORTED: Final = (
    "a Parquet file (.parquet), a CSV file (.csv, .csv.gz) or a DuckDB file (.duckdb, .ddb, .db)"
)


def source_kind(url: str) -> SourceKind | None:
    """By the file's ending; None for anything else."""
    endings = (end for end in _ENDINGS if url.lower().endswith(end) and "://" not in url)
    return next((_ENDINGS[end] for end in endings), None)


def every_record_is_a_row(url: str | None) -> bool:
    """Whether no record of the source can be unreadable. A table in memory (None) has none such."""
    return url is None or source_kind(url) in _WHOLE
