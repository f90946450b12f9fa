"""Which files a source names: one, those of a pattern, or all in a folder that have its endings."""

from __future__ import annotations

import os
import re
from fnmatch import translate
from pathlib import Path
from typing import Final

from tallyveil.cube.sources import object_store
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.policy.source_kinds import OBJECT_STORE

__all__ = ["is_there", "listed"]

_PATTERN: Final = re.compile(r"[*?\[]")
_HIDDEN: Final = re.compile(r"(^|/)[_.]")
_LOG: Final = re.compile(r"_delta_log/.*|metadata/[^/]*\.metadata\.json")


def is_there(source: Source) -> bool:
    """Whether a file or folder on this machine that the source names exists; true elsewhere."""
    if "://" in source.url:
        return True
    if source.path.is_dir():
        return source.kind.folder or source.kind.parts
    return source.path.is_file() or (source.kind.parts and _PATTERN.search(source.url) is not None)


def listed(source: Source) -> list[str]:
    """The files in the order of their names, without those that begin with _ or a dot.

    Raises SourceError where there is none, or they are the files of a table of another format.
    """
    place = source.location.removeprefix(OBJECT_STORE).rstrip("/")
    if not source.stored and source.path.is_file():
        return _plain(source, [place])
    pattern = _PATTERN.search(place)
    folder = place[: pattern.start()].rpartition("/")[0] if pattern else place
    names = object_store.files(source, folder) if source.stored else _files(Path(folder))
    below = {name: name[len(folder) :].lstrip("/") for name in names}
    if source.kind.name == "parquet" and any(map(_LOG.fullmatch, below.values())):
        raise SourceError(
            f"{source.key}: {source.shown} is a table of another format than Parquet, and some of"
            " its files may no longer count",
            hint='Give its format: format = "delta" or format = "iceberg".',
        )
    wanted = re.compile(_regular(place) if pattern else ".*").fullmatch
    found = [name for name, parts in below.items() if wanted(name) and not _HIDDEN.search(parts)]
    if not pattern and names != [place]:
        found = [name for name in found if name.lower().endswith(source.kind.endings)]
    if not found:
        raise SourceError(
            f"{source.key}: no file matches {source.shown}",
            hint="A folder's files need the endings of its format, and names that begin with"
            " neither _ nor a dot.",
        )
    return _plain(source, [f"{OBJECT_STORE if source.stored else ''}{name}" for name in found])


def _plain(source: Source, files: list[str]) -> list[str]:
    """DuckDB would read a name that is a pattern as one, and the same file more than once."""
    if any(map(_PATTERN.search, files)):
        raise SourceError(
            f"{source.key}: a file of {source.shown} has *, ? or [ in its name",
            hint="Rename it, or its folder.",
        )
    return sorted(files)


def _files(folder: Path) -> list[str]:
    within = ((os.path.normpath(place), names) for place, _, names in os.walk(folder))
    found = (os.path.join(place, name) for place, names in within for name in names)
    return [file for file in found if os.path.isfile(file)]


def _regular(pattern: str) -> str:
    """* stands for any characters within a name, and ** for any folders."""
    parts = []
    for part in pattern.split("/"):
        if part == "**":
            parts.append("(?:[^/]+/)*")
        else:
            within = translate(part).removesuffix(r"\Z").removesuffix(r"\z")
            parts.append(f"{within.replace('.*', '[^/]*')}/")
    return "".join(parts).removesuffix("/")
