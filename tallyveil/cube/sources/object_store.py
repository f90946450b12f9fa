"""Files in an S3-compatible object store, listed and read by pyarrow, and by DuckDB through it.

Credentials, region and endpoint are those of the environment and of AWS's own files, such as
AWS_ACCESS_KEY_ID, AWS_PROFILE and AWS_ENDPOINT_URL; the policy has none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.fs as pafs

from tallyveil.cube.sources.extra import imported
from tallyveil.errors import SourceError
from tallyveil.policy import Source

__all__ = ["endpoint", "files", "filesystem", "reaching", "register"]


def filesystem(source: Source) -> pafs.FileSystem:
    with reaching(source):
        if url := endpoint():
            return pafs.S3FileSystem(endpoint_override=url)
        return pafs.FileSystem.from_uri(source.url.rstrip("/"))[0]


def endpoint() -> str | None:
    """The url of a store other than Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def register(connection: duckdb.DuckDBPyConnection, source: Source) -> None:
    """Let DuckDB read the store's urls."""
    wrapper = imported("fsspec.implementations.arrow", source.key).ArrowFSWrapper
    store = type("S3", (wrapper,), {"protocol": "s3", "root_marker": ""})
    connection.register_filesystem(store(filesystem(source)))


def files(source: Source, folder: str) -> list[str]:
    """The objects in a folder and below, or the object of this name. Raises SourceError."""
    store = filesystem(source)
    with reaching(source):
        if store.get_file_info(folder).type == pafs.FileType.File:
            return [folder]
        below = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
        return [info.path for info in store.get_file_info(below) if info.is_file]


@contextmanager
def reaching(source: Source) -> Iterator[None]:
    """The store's own messages may hold keys: they are left out."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"{source.key}: {source.shown} cannot be reached ({type(error).__name__})",
            hint="The bucket, and the credentials, region and endpoint of the environment"
            " (AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ENDPOINT_URL) must fit each other.",
        ) from None
