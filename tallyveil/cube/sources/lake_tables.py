"""Delta and Iceberg tables in a folder or an object store, read by their own libraries.

What is read is the newest version of the table when it is opened: files that it no longer counts,
and rows that it has deleted, are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from tallyveil.cube.sources import object_store
from tallyveil.cube.sources.duckdb_source import DuckDBSource
from tallyveil.cube.sources.extra import imported
from tallyveil.cube.sources.file_kinds import Opener, called
from tallyveil.cube.sources.open_source import OpenSource
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.policy.source_kinds import OBJECT_STORE

__all__ = ["DELTA", "ICEBERG"]

# Files of one version are 00003-UUID.metadata.json or v3.metadata.json.
_VERSION: Final = re.compile(r"v?(\d+)(?:-[^/]*)?\.metadata\.json")


def _delta(source: Source, names: Iterable[str]) -> OpenSource:
    library = imported("deltalake", source.key)
    errors = (library.exceptions.DeltaError, library.exceptions.TableNotFoundError)
    table = _read(source, lambda: library.DeltaTable(source.location).to_pyarrow_dataset(), errors)
    return DuckDBSource.of(table, called(source, names))


def _iceberg(source: Source, names: Iterable[str]) -> OpenSource:
    library = imported("pyiceberg.table", source.key)
    errors = (imported("pyiceberg.exceptions", source.key).NoSuchTableError,)
    properties = {} if (url := object_store.endpoint()) is None else {"s3.endpoint": url}
    place = _metadata(source)

    def table() -> _Iceberg:
        return _Iceberg(library.StaticTable.from_metadata(place, properties))

    return DuckDBSource.of(_read(source, table, errors), called(source, names))


class _Iceberg:
    """Streams the rows each time that it is asked."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.__arrow_c_schema__ = table.schema().as_arrow().__arrow_c_schema__

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.scan().to_arrow_batch_reader().__arrow_c_stream__(requested_schema)


def _metadata(source: Source) -> str:
    """The table's newest metadata, or what the url names."""
    if source.url.endswith(".json"):
        return source.location
    store = object_store.filesystem(source) if source.stored else pafs.LocalFileSystem()
    folder = f"{source.location.removeprefix(OBJECT_STORE).rstrip('/')}/metadata"
    with object_store.reaching(source):
        infos = store.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    versions: dict[int, list[str]] = {}
    for info in infos:
        if found := _VERSION.fullmatch(info.base_name):
            versions.setdefault(int(found[1]), []).append(info.path)
    newest = versions[max(versions)] if versions else []
    if len(newest) != 1:
        raise SourceError(
            f"{source.key}: {source.shown} has {'several' if newest else 'no'} Iceberg metadata"
            f" {'of the newest version' if newest else 'files'}",
            hint='Name the file of the version to read: url = "…/metadata/….metadata.json".',
        )
    return f"{OBJECT_STORE if source.stored else ''}{newest[0]}"


# Of files that are not there or not whole, of contents that are none of the format, and of what a
# library cannot read yet.
_FAILURES: Final = (OSError, ValueError, NotImplementedError, pa.ArrowException)


def _read(source: Source, table: Callable[[], Any], errors: tuple[type[Exception], ...]) -> Any:
    try:
        return table()
    except (*errors, *_FAILURES) as error:
        # The library's own message may quote keys or what is stored.
        raise SourceError(
            f"{source.key}: {source.shown} cannot be read as {source.kind.words}"
            f" ({type(error).__name__})",
            hint="The table may have a feature that its library cannot read, such as Delta's"
            " deletion vectors. In an object store credentials are those of the environment.",
        ) from None


DELTA: Final = Opener(_delta, _delta)
ICEBERG: Final = Opener(_iceberg, _iceberg)
