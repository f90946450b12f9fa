"""A source's tables, as its schema describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyveil.cube.source_contents import Contents

__all__ = ["SourceColumn", "SourceTable"]


@dataclass(frozen=True)
class SourceColumn:
    """``labels`` are those of a declared enumeration. ``references`` is the table and column of a
    foreign key."""

    name: str
    type: str
    nullable: bool
    labels: tuple[str, ...] | None = None
    references: str | None = None


@dataclass(frozen=True)
class SourceTable:
    """``written`` is the table in SQL; ``origin`` what a policy's ``from`` must say, empty if the
    source is this table. ``keys`` are the columns of its primary and unique keys; ``checks`` its
    conditions, as SQL. ``contents`` is what its rows hold, if they were looked at."""

    name: str
    written: str
    origin: str
    columns: tuple[SourceColumn, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    checks: tuple[str, ...] = ()
    contents: Mapping[str, Contents] = field(default_factory=dict)
