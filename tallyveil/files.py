"""What is written to the disk for good."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["flush"]


def flush(path: Path) -> None:
    """Wait until a file, or what a folder lists, would outlive a power cut. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
