"""Parquet: every column has its type."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tallyveil.cube.sources.file_kind import FileKind, text, views

__all__ = ["PARQUET"]


def _relation(path: Path) -> str:
    return f"read_parquet({text(str(path))})"


PARQUET: Final = FileKind(confidential=views(_relation), public=views(_relation))
