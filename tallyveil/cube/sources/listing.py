"""Which files a source names: one, those of a pattern, or all in a folder that have its endings."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tallyveil.cube.sources import object_store
from tallyveil.errors import SourceError
from tallyveil.policy import Source

__all__ = ["is_there", "listed"]

_PATTERN: Final = "*?["
# Of tables that are folders of Parquet files, of which some may no longer count.
_LOGS: Final = ("_delta_log", "metadata")


def is_there(source: Source) -> bool:
    """Whether a file or folder on this machine that the source names exists; true elsewhere."""
    if "://" in source.url:
        return True
    if source.path.is_dir():
        return source.kind.folder or source.kind.parts
    return source.path.is_file() or (_is_pattern(source) and bool(_matching(source)))


def listed(source: Source) -> list[str]:
    """The files in the order of their names, without those that begin with _ or a dot.

    Raises SourceError where there is none, or a folder is the table of another format.
    """
    found = object_store.files(source) if source.stored else _local(source)
    if not found:
        raise SourceError(
            f"{source.key}: no file matches {source.shown}",
            hint="A folder's files need the endings of its format, and names that begin with"
            " neither _ nor a dot.",
        )
    return found


def _local(source: Source) -> list[str]:
    path = source.path
    if path.is_file():
        return [str(path)]
    if not path.is_dir():
        return _matching(source)
    if source.kind.name == "parquet" and any((path / log).is_dir() for log in _LOGS):
        raise SourceError(
            f"{source.key}: {source.shown} is a table of another format than Parquet, and some of"
            " its files may no longer count",
            hint='Give its format: format = "delta" or format = "iceberg".',
        )
    files = (file for file in path.rglob("*") if file.is_file())
    return _counted((str(f) for f in files if f.name.lower().endswith(source.kind.endings)), path)


def _matching(source: Source) -> list[str]:
    found = (name for name in glob.iglob(str(source.path), recursive=True) if Path(name).is_file())
    return _counted(found, _fixed(source.path))


def _is_pattern(source: Source) -> bool:
    return any(mark in source.url for mark in _PATTERN)


def _fixed(path: Path) -> Path:
    """The folder before the first pattern."""
    parts = path.parts
    first = next(i for i, part in enumerate(parts) if any(mark in part for mark in _PATTERN))
    return Path(*parts[:first])


def _counted(names: Iterable[str], below: Path) -> list[str]:
    own = ((name, Path(name).relative_to(below).parts) for name in names)
    return sorted(name for name, parts in own if not any(part[0] in "_." for part in parts))
