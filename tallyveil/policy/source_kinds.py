"""The kinds of sources that a policy may name; `cube.sources` opens them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FORMATS", "OBJECT_STORE", "SUPPORTED", "SourceKind", "source_kind"]


OBJECT_STORE: Final = "s3://"


@dataclass(frozen=True)
class SourceKind:
    """A kind of files by their names' ``endings`` or the policy's ``format``, or of another source
    by its url's ``schemes``.

    - ``several``: it holds several named relations.
    - ``parts``: files of it, in a folder or by a pattern, are one relation.
    - ``folder``: it is a folder by itself.
    - ``left_out`` describes the records that cannot be read; None if every record is a row.
    """

    name: str
    words: str
    endings: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    several: bool = False
    parts: bool = False
    folder: bool = False
    left_out: str | None = None


_LEFT_OUT: Final = "lines that are not UTF-8, or longer than 2 MB"
_KINDS: Final = (
    SourceKind("parquet", "a Parquet file", (".parquet",), parts=True),
    SourceKind("csv", "a CSV file", (".csv", ".csv.gz"), parts=True, left_out=_LEFT_OUT),
    SourceKind("tsv", "a TSV file", (".tsv", ".tsv.gz"), parts=True, left_out=_LEFT_OUT),
    SourceKind(
        "json",
        "a JSON file",
        (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
        parts=True,
    ),
    SourceKind("arrow", "an Arrow file", (".arrow", ".feather"), parts=True),
    SourceKind("duckdb", "a DuckDB file", (".duckdb", ".ddb", ".db"), several=True),
    SourceKind("delta", "a Delta table", folder=True),
    SourceKind("iceberg", "an Iceberg table", folder=True),
    SourceKind(
        "postgresql",
        "a PostgreSQL database",
        schemes=("postgresql://", "postgres://"),
        several=True,
    ),
    SourceKind("spark", "Spark", schemes=("spark://",), several=True),
    SourceKind("adbc", "a database with an ADBC driver", schemes=("adbc://",), several=True),
)

FORMATS: Final = tuple(kind.name for kind in _KINDS if not kind.schemes)

*_FIRST, _LAST = (
    f"{k.words} ({', '.join((*k.endings, *k.schemes))})" for k in _KINDS if not k.folder
)
SUPPORTED: Final = f"{', '.join(_FIRST)} or {_LAST}"


def source_kind(url: str, form: str | None = None) -> SourceKind | None:
    """Return the kind by the policy's ``form``, the url's scheme or the name's ending, or None."""
    scheme, separator, _ = url.partition("://")
    stored = f"{scheme.lower()}://" == OBJECT_STORE
    if separator and not stored:
        found = (kind for kind in _KINDS if f"{scheme.lower()}://" in kind.schemes and not form)
    elif form is not None:
        found = (kind for kind in _KINDS if kind.name == form and not kind.schemes)
    else:
        found = (kind for kind in _KINDS if url.lower().endswith(kind.endings or ("\0",)))
    kind = next(found, None)
    return None if kind is not None and stored and kind.several else kind
