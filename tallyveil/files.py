"""Durable files: written so that they survive a power failure."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["flush", "write_new"]


def flush(path: Path) -> None:
    """Flush a file, or a folder's list of files, to the disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a new file and flush it to the disk. Only its owner may read it unless ``mode`` allows
    more. Raises FileExistsError if the file exists, OSError if it cannot be written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
