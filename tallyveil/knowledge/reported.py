"""What was once reported of a row, which is never worse later.

The ledger says from which answers a reported estimate was made. So it can be made again, by any
process, though later answers may have left those no place among what is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import ROW_BYTES, Basis, Derivation
from tallyveil.cache import Cache
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Estimated, Known
from tallyveil.knowledge.answers.estimate import Criterion, Estimate, improves, surpasses
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import ANY_WORK, System
from tallyveil.workload.workload import Column

__all__ = ["TOGETHER", "Reported", "better"]

TOGETHER: Final = 2_000  # rows between two looks at the deadline


class Reported:
    """The estimates of a table's rows that were reported. Threads may share it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._derived: Cache[Estimate] = Cache(
            200_000, 1 << 28, lambda _, one: 300 + 16 * len(one.numbers)
        )

    def unknown(
        self, column: Column, rows: Sequence[Known | None], by: Criterion
    ) -> list[Derivation]:
        """How the estimates among what is reported of a column's rows were made, as far as the
        ledger does not know and the rows' own answers do not tell."""
        deadline.check()
        if isinstance(rows, Alike):
            return []
        found: dict[Basis, list[bytes]] = {}
        for key, row in zip(column.row_keys, rows, strict=True):
            if not isinstance(row, Estimated) or row.estimate.alone:
                continue
            estimate = row.estimate
            if estimate.basis not in self._state.bases(key):
                self._derived.put((key, estimate.basis), estimate)
                found.setdefault(estimate.basis, []).append(key[:ROW_BYTES])
        return [Derivation(tuple(keys), basis, by) for basis, keys in found.items()]

    def sums(
        self, column: Column, rows: Sequence[Known | None], by: Criterion, number: int
    ) -> list[Derivation]:
        """How the rows of which nothing is known by itself follow from the recorded column
        ``number``, whose rows they are sums of, as far as the ledger does not know."""
        pairs = zip(column.row_keys, rows, strict=True)
        keys = [key for key, row in pairs if row is None and not self._state.bases(key)]
        found = tuple(key[:ROW_BYTES] for key in keys)
        return [Derivation(found, Basis((number,)), by)] if found else []

    def at_least(
        self, column: Column, rows: Sequence[Estimate | None], aim: Aim
    ) -> tuple[Estimate | None, ...]:
        """What was reported of each row, unless the row here improves on it."""
        if not self._state.has_bases:
            return tuple(rows)
        found, by = list(rows), aim.criterion
        for start in range(0, len(found), TOGETHER):
            deadline.check()
            keys = enumerate(column.row_keys[start : start + TOGETHER], start)
            reported = {row: bases for row, key in keys if (bases := self._state.bases(key, by))}
            pairs = [(row, basis) for row, bases in reported.items() for basis in bases]
            best: dict[int, Estimate | None] = {}
            for (row, _), one in zip(pairs, self._made(column, pairs), strict=True):
                best[row] = better(best.get(row), one, by)
            for row, one in best.items():
                now = found[row]
                if now is None or (one is not None and not improves(now, one, by, aim.confidence)):
                    found[row] = one
        return tuple(found)

    def _made(self, column: Column, pairs: Sequence[tuple[int, Basis]]) -> list[Estimate | None]:
        """For each row of the column and basis the estimate, which may have to be made again."""
        keys = [(column.row_keys[row], basis) for row, basis in pairs]
        found = self._derived.find_all(keys)
        missing: dict[Basis, list[int]] = {}
        for (row, basis), estimate in zip(pairs, found, strict=True):
            if estimate is None:
                missing.setdefault(basis, []).append(row)
        if not missing:
            return found
        for basis, rows in missing.items():
            self._derive(column.take(np.array(rows, dtype=np.int64)), basis)
        return self._derived.find_all(keys)

    def _derive(self, part: Column, basis: Basis) -> None:
        """Make again the estimates of some rows that were made from ``basis``."""
        state = self._state
        if max((*basis.whole, *basis.own), default=0) >= state.recorded:
            return
        system = System.of(state, [part], basis.whole, ANY_WORK)  # it was done before
        estimates = [None] * part.height if system is None else system.solved()[0]
        for key, first in zip(part.row_keys, estimates, strict=True):
            estimate = first
            for number in basis.own:
                estimate = state.with_own(estimate, number, key)
            if estimate is not None:
                self._derived.put((key, basis), estimate)


def better(first: Estimate | None, second: Estimate | None, by: Criterion) -> Estimate | None:
    """The better of two estimates, the first where they are equals."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first
