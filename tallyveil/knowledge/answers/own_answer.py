"""What one recorded or exact answer gives for its own rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from tallyveil.accountant import Answer
from tallyveil.cache import Cache
from tallyveil.inference import NoiseLaw, Noises
from tallyveil.knowledge.answers.answer import InRange, ranged
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.released_answer import Released
from tallyveil.mechanisms import mechanism
from tallyveil.workload.workload import Column

__all__ = ["alike", "answer_at", "content_at", "noises_of", "place_of", "spread_of"]

_LESS: Final = 1 - 1e-9


def answer_at(answer: Answer, place: int) -> Released | InRange:
    """The answer of the row at this place of its column."""
    value, law = int(answer.values[place]), answer.law
    return ranged(answer.mechanism, answer.scale, value) if law is None else Released.of(value, law)


def alike(
    best: Mapping[tuple[int, ...], Answer | None],
    held: Sequence[tuple[int, ...]],
    keys: Sequence[bytes],
) -> Alike | None:
    """The answers of the rows with these ``keys``, or None unless all noise has one law. ``best``
    has the best answer for each set of columns that a row is ``held`` by."""
    laws = {numbers: None if one is None else one.law for numbers, one in best.items()}
    noisy = {law for law in laws.values() if law is not None and law.scale}
    if None in laws.values() or len(noisy) != 1:
        return None
    values = [
        int(one.values[place_of(one.column, key, n)])
        for n, (key, numbers) in enumerate(zip(keys, held, strict=True))
        if (one := best[numbers]) is not None
    ]
    noiseless = {numbers for numbers, law in laws.items() if law not in noisy}
    exact = frozenset(n for n, numbers in enumerate(held) if numbers in noiseless)
    return Alike(values, noisy.pop(), exact)


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
