"""Parquet: every column has its type."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tallyveil.cube.sources.file_kind import FileKind, public_views, views
from tallyveil.quoting import literal

__all__ = ["PARQUET"]


def _relation(path: Path) -> str:
    return f"read_parquet({literal(str(path))})"


PARQUET: Final = FileKind(confidential=views(_relation), public=public_views(_relation))
