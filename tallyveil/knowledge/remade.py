"""Estimates made again from the answers that the ledger records for them.

They are cached by their basis, those of one basis in arrays: a table has many, for as long as it
is served, and an object for each would keep the collector of garbage busy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Basis, decode_column
from tallyveil.arrays import IntArray
from tallyveil.cache import Cache
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.answers.recorded_answer import content_at
from tallyveil.knowledge.direct_answers import with_direct_answer
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import ANY_KINDS, WRITTEN_OUT, System
from tallyveil.workload.workload import Column

__all__ = ["Remade"]

_PARTS: Final = 16
"""Blocks of the rows of one basis. A cache keeps only one value of more than an eighth of it."""


class Remade:
    """The estimates of one table's rows from given bases. Threads may share it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._found = _Found()

    def put(self, basis: Basis, rows: Mapping[bytes, tuple[int, Estimate]]) -> None:
        """Cache estimates from one basis, each with the content of its row, by the row's key."""
        self._found.put(basis, rows)

    def find(self, key: bytes, content: int, basis: Basis) -> Estimate | None:
        """The estimate of the row of this key and content, if it is cached."""
        return self._found.find_all([(key, content, basis)])[0]

    def estimates(
        self, column: Column, pairs: Sequence[tuple[int, Basis]]
    ) -> list[Estimate | None]:
        """The estimate for each pair of a row of the column and a basis, cached or made again."""
        keys = [(column.row_keys[row], content_at(column, row), basis) for row, basis in pairs]
        found = self._found.find_all(keys)
        missing: dict[Basis, list[int]] = {}
        for place, (_, basis) in enumerate(pairs):
            if found[place] is None:
                missing.setdefault(basis, []).append(place)
        for basis, places in missing.items():
            rows = np.array([pairs[place][0] for place in places], dtype=np.int64)
            for place, one in zip(places, self._derive(column.take(rows), basis), strict=True):
                found[place] = one
        return found

    def _derive(self, part: Column, basis: Basis) -> list[Estimate | None]:
        """Make the estimates of some rows from ``basis`` again, and cache them."""
        if basis.parts:
            estimates = [self._summed(basis, *row) for row in part.named_rows]
        else:
            estimates = self.make(part, basis, WRITTEN_OUT)
        every = zip(part.named_rows, estimates, strict=True)
        self._found.put(
            basis, {key: (content, one) for (key, content), one in every if one is not None}
        )
        return estimates

    def _summed(self, basis: Basis, key: bytes, content: int) -> Estimate | None:
        """The estimate of the row of this key and content as the sum of the basis's parts; None if
        the basis is not for a multiple of this row, or a part cannot be made again."""
        if key != basis.summed:
            return None
        found = list[Estimate]()
        for part in basis.parts:
            deadline.check()
            for one in self.make(decode_column(part.rows), part.basis, WRITTEN_OUT):
                if one is None:
                    return None
                found.append(one)
        whole = Estimate.total(found)
        if content != basis.content:
            whole = whole.times(content / basis.content)
        return replace(whole, basis=basis)

    def make(
        self, part: Column, basis: Basis, work: int, *, every: bool = False
    ) -> list[Estimate | None]:
        """The estimates of some rows, or None, from as much of ``basis`` as fits in ``work``
        entries; if ``every``, from all of it."""
        state = self._state
        unknown: list[Estimate | None] = [None] * part.height
        if basis.last >= state.recorded:
            return unknown
        exact = not basis.whole and not basis.own
        found = unknown
        if basis.whole or exact:
            kinds = 0 if basis.rough else ANY_KINDS
            system = System.of(state, [part], basis.whole, work, kinds, thorough=True)
            if system is None or (every and len(system.used) < len(basis.whole)):
                return unknown
            found = system.from_exact() if exact else system.solved()[0]
        for number in basis.own:
            found = [
                with_direct_answer(state, estimate, number, *row)
                for estimate, row in zip(found, part.named_rows, strict=True)
            ]
        return found


@dataclass(frozen=True, eq=False)
class _Block:
    """Estimates of rows from one basis. Row ``places[key]`` has the i-th entry of each field; its
    content was ``contents[i]``."""

    places: Mapping[bytes, int]
    contents: tuple[int, ...]
    values: tuple[float, ...]
    numbers: tuple[IntArray, ...]
    weights: tuple[NoiseWeights, ...]
    bases: tuple[Basis, ...]
    draws: tuple[IntArray | None, ...]

    @classmethod
    def of(cls, rows: Mapping[bytes, tuple[int, Estimate]]) -> _Block:
        contents, made = zip(*rows.values(), strict=True)
        return cls(
            {key: place for place, key in enumerate(rows)},
            contents,
            tuple(one.value for one in made),
            tuple(one.numbers for one in made),
            tuple(one.weights for one in made),
            tuple(one.basis for one in made),
            tuple(one.draws for one in made),
        )

    def extended(self, by: _Block) -> _Block:
        """These estimates, and those of other rows."""
        start = len(self.contents)
        return _Block(
            {**self.places, **{key: start + place for key, place in by.places.items()}},
            self.contents + by.contents,
            self.values + by.values,
            self.numbers + by.numbers,
            self.weights + by.weights,
            self.bases + by.bases,
            self.draws + by.draws,
        )

    def find(self, key: bytes, content: int) -> Estimate | None:
        place = self.places.get(key)
        if place is None:
            return None
        estimate = Estimate(
            self.values[place],
            self.numbers[place],
            self.weights[place],
            self.bases[place],
            self.draws[place],
        )
        before = self.contents[place]
        return estimate if content == before else estimate.times(content / before)

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        return 300 + 300 * len(self.contents) + 16 * sum(map(len, self.numbers))


class _Found:
    """A cache of estimates by basis and row key, for all multiples of a row. Thread-safe.

    The rows of one basis are in several blocks, so that none of many rows is too large to keep.
    """

    def __init__(self) -> None:
        self._cache: Cache[_Block] = Cache(200_000, 1 << 28, lambda _, block: block.size)

    def put(self, basis: Basis, rows: Mapping[bytes, tuple[int, Estimate]]) -> None:
        parts: dict[int, dict[bytes, tuple[int, Estimate]]] = {}
        for key, row in rows.items():
            parts.setdefault(key[0] % _PARTS, {})[key] = row
        for part, own in parts.items():
            before = self._cache.find((part, basis))
            if before is not None:
                own = {key: row for key, row in own.items() if key not in before.places}
            if own:
                block = _Block.of(own)
                block = block if before is None else before.extended(block)
                self._cache.put((part, basis), block)

    def find_all(self, rows: Sequence[tuple[bytes, int, Basis]]) -> list[Estimate | None]:
        """The estimate for each row's key, content and basis, or None."""
        blocks: dict[tuple[int, int], _Block | None] = {}  # by identity: a basis may be long
        found = list[Estimate | None]()
        for key, content, basis in rows:
            part = key[0] % _PARTS
            if (part, id(basis)) not in blocks:
                blocks[part, id(basis)] = self._cache.find((part, basis))
            block = blocks[part, id(basis)]
            found.append(None if block is None else block.find(key, content))
        return found
