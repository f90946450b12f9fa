"""What one recorded or exact answer gives for its own rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from tallyveil.accountant import Answer
from tallyveil.cache import Cache
from tallyveil.inference import NoiseLaw, Noises
from tallyveil.knowledge.answers.known import Known
from tallyveil.mechanisms import mechanism
from tallyveil.workload.workload import Column

__all__ = ["answer_at", "content_at", "noises_of", "place_of", "places_of", "spread_of"]

_LESS: Final = 1 - 1e-9


def answer_at(answer: Answer, place: int) -> Known:
    """The answer of the row at this place of its column."""
    value, law = int(answer.values[place]), answer.law
    if law is None:
        return Known.in_range(answer.mechanism, answer.scale, value)
    return Known.with_noise(value, law)


def place_of(column: Column, key: bytes, guess: int) -> int:
    """The place of the row with this key; ``guess`` is tried first. Of several, that of the
    greatest |content|, whose noise is relatively least."""
    keys, contents = column.row_names
    if len(keys) == 1:
        return 0
    near = guess < len(keys) and keys[guess] == key
    if near and not column.repeats:
        return guess
    found = _places(column)[key]
    alike = near and contents is not None and abs(contents[guess]) == abs(contents[found])
    return guess if alike else found


def places_of(column: Column, asked: Column, rows: Sequence[int]) -> Sequence[int] | None:
    """The places of some rows of the column ``asked``; None if these are all rows in their order.
    No two rows of either column may be multiples of one another."""
    keys, own = asked.row_keys, column.row_keys
    if len(rows) == len(keys) and own == keys:
        return None
    places = _places(column)
    return [row if row < len(own) and own[row] == keys[row] else places[keys[row]] for row in rows]


def content_at(column: Column, place: int) -> int:
    """The content of the row at this place."""
    contents = column.row_contents
    return 1 if contents is None else contents[place]


_PLACES: Final[Cache[tuple[Column, Mapping[bytes, int]]]] = Cache(
    64, 1 << 26, lambda _, kept: kept[0].nbytes + 100 * len(kept[1])
)


def _places(column: Column) -> Mapping[bytes, int]:
    def made() -> tuple[Column, Mapping[bytes, int]]:
        keys, contents = column.row_names
        order: Sequence[int] = range(len(keys))
        if contents is not None:
            order = sorted(order, key=lambda n: abs(contents[n]))
        return column, {keys[n]: n for n in order}

    return _PLACES.get(column, made)[1]


def noises_of(answer: Answer) -> Noises | None:
    return None if answer.law is None else _of_law(answer.law)


@lru_cache(maxsize=4096)
def _of_law(law: NoiseLaw) -> Noises:
    return Noises.of(type(law), law.scale)


def spread_of(answer: Answer) -> float:
    """The spread by which answers of one kind are compared. Noise that is drawn together counts as
    slightly less than independent noise of its scale."""
    law = answer.law
    if law is None:
        return _ranged_spread(answer.mechanism, answer.scale)
    return law.variance * (1 if answer.together is None else _LESS)


@lru_cache(maxsize=4096)
def _ranged_spread(name: str, scale: float) -> float:
    return mechanism(name).spread(scale)
