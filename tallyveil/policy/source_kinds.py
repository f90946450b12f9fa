"""The kinds of files that a policy may name as a source; `cube.sources` opens them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal, TypeAlias

__all__ = ["SUPPORTED", "SourceKind", "source_kind"]

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


SUPPORTED: Final = (
    "a Parquet file (.parquet), a CSV file (.csv, .csv.gz) or a DuckDB file (.duckdb, .db)"
)


def source_kind(url: str) -> SourceKind | None:
    """By the file's ending; None for anything else."""
    endings = (end for end in _ENDINGS if url.lower().endswith(end) and "://" not in url)
    return next((_ENDINGS[end] for end in endings), None)
