"""What is written to the disk for good."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["flush", "write_new"]


def flush(path: Path) -> None:
    """Wait until a file, or what a folder lists, would outlive a power cut. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make a file, for its owner alone unless ``mode`` says otherwise, that outlives a power cut.
    Raises OSError, FileExistsError if it is there already."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
