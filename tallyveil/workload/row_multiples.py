"""Rows of several columns that are multiples of one another.

A statement may ask a row in several columns, or several multiples of it: count(*) and sum(2), or of
the groups of a both count(*) and sum(a). All are known from an answer to one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tallyveil import deadline
from tallyveil.workload.workload import Column

__all__ = ["Multiples", "Place"]


class Place(NamedTuple):
    """A row of a column, which is ``content`` times the primitive row of its name."""

    column: int
    row: int
    content: int


@dataclass(frozen=True, eq=False)
class Multiples:
    """The ``groups`` of at least two rows with one name. Rows of zeros are in none: they are
    exact.

    ``alike``: the columns in sets that ask the same rows, in the same order and steps, if no group
    has rows of several sets or several rows of one column; else None."""

    groups: tuple[tuple[Place, ...], ...] = ()
    alike: tuple[tuple[int, ...], ...] | None = ()

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Multiples:
        """The multiples among all rows of the columns. Cached with the first column."""
        if not columns or (len(columns) == 1 and not columns[0].repeats):
            return _NONE
        kept, others = _CACHE.setdefault(columns[0], {}), tuple(columns[1:])
        found = kept.get(others)
        if found is None:
            groups = tuple(_groups(columns))
            found = kept[others] = cls(groups, _alike(columns, groups) if groups else ())
        return found


_NONE = Multiples()
_CACHE: WeakKeyDictionary[Column, dict[tuple[Column, ...], Multiples]] = WeakKeyDictionary()


def _groups(columns: Sequence[Column]) -> Iterator[tuple[Place, ...]]:
    every = [column.row_keys for column in columns]
    if len(frozenset[bytes]().union(*every)) == sum(map(len, every)):
        return
    places: dict[bytes, list[Place]] = {}
    for number, column in enumerate(columns):
        zeros = frozenset(column.zeros.tolist())
        for row, (key, content) in enumerate(deadline.stoppable([*column.named_rows])):
            if row not in zeros:
                places.setdefault(key, []).append(Place(number, row, content))
    yield from (tuple(own) for own in places.values() if len(own) > 1)


def _alike(
    columns: Sequence[Column], groups: Sequence[Sequence[Place]]
) -> tuple[tuple[int, ...], ...] | None:
    sets: dict[object, list[int]] = {}
    for number, column in enumerate(columns):
        sets.setdefault(column.row_names, []).append(number)
    every = [tuple(own) for own in sets.values()]
    filled = sum(columns[own[0]].height - len(columns[own[0]].zeros) for own in every if own[1:])
    pure = len(groups) == filled and all(
        tuple(place.column for place in group) in every for group in groups
    )
    return tuple(own for own in every if own[1:]) if pure else None
