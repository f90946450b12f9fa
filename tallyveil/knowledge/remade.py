"""Estimates made again from the answers that the ledger records for them.

Each is cached by its row's key and its basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Basis, decode_column
from tallyveil.cache import Cache
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.knowledge.answers.recorded_answer import content_at
from tallyveil.knowledge.direct_answers import with_direct_answer
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import ANY_KINDS, WRITTEN_OUT, System
from tallyveil.workload.workload import Column

__all__ = ["Remade"]


class Remade:
    """The estimates of one table's rows from given bases. Threads may share it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._found = _Found()

    def put(self, key: bytes, content: int, basis: Basis, estimate: Estimate) -> None:
        self._found.put(key, content, basis, estimate)

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
        for (row, basis), estimate in zip(pairs, found, strict=True):
            if estimate is None:
                missing.setdefault(basis, []).append(row)
        if not missing:
            return found
        for basis, rows in missing.items():
            self._derive(column.take(np.array(rows, dtype=np.int64)), basis)
        return self._found.find_all(keys)

    def _derive(self, part: Column, basis: Basis) -> None:
        """Make the estimates of some rows from ``basis`` again, and cache them."""
        if basis.parts:
            estimates = [self._summed(basis, *row) for row in part.named_rows]
        else:
            estimates = self.make(part, basis, WRITTEN_OUT)
        for (key, content), estimate in zip(part.named_rows, estimates, strict=True):
            if estimate is not None:
                self._found.put(key, content, basis, estimate)

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
            system = System.of(state, [part], basis.whole, work, kinds)
            if system is None or (every and len(system.used) < len(basis.whole)):
                return unknown
            found = system.from_exact() if exact else system.solved()[0]
        for number in basis.own:
            found = [
                with_direct_answer(state, estimate, number, *row)
                for estimate, row in zip(found, part.named_rows, strict=True)
            ]
        return found


class _Found:
    """A cache of estimates by row key and basis, for all multiples of a row. Thread-safe."""

    def __init__(self) -> None:
        self._cache: Cache[tuple[int, Estimate]] = Cache(
            200_000, 1 << 28, lambda _, found: 300 + 16 * len(found[1].numbers)
        )

    def put(self, key: bytes, content: int, basis: Basis, estimate: Estimate) -> None:
        self._cache.put((key, basis), (content, estimate))

    def find_all(self, rows: Sequence[tuple[bytes, int, Basis]]) -> list[Estimate | None]:
        """The estimate for each row's key, content and basis, or None."""
        every = self._cache.find_all([(key, basis) for key, _, basis in rows])
        return [
            None
            if found is None
            else found[1]
            if found[0] == content
            else found[1].times(content / found[0])
            for found, (_, content, _) in zip(every, rows, strict=True)
        ]
