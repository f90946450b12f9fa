"""A file's bytes, unpacked, wherever it lies."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from tallyveil.cube.sources import object_store
from tallyveil.policy import Source
from tallyveil.policy.source_kinds import OBJECT_STORE

__all__ = ["unpacked"]


@contextmanager
def unpacked(source: Source, file: str) -> Iterator[IO[bytes]]:
    """Raises OSError and EOFError."""
    with _opened(source, file) as packed:
        if not file.lower().endswith(".gz"):
            yield packed
            return
        with gzip.open(packed) as found:
            yield cast(IO[bytes], found)


def _opened(source: Source, file: str) -> Any:
    if not source.stored:
        return open(file, "rb")
    return object_store.filesystem(source).open_input_file(file.removeprefix(OBJECT_STORE))
