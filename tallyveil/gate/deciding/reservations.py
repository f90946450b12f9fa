"""Who is buying which rows: nobody buys a row that somebody else is about to have the answer of.

It is no lock: whoever waits holds nothing that others wait for, looks up now and then to be
cancelled, and looks at history again when the other is done. So it may be held while noise is
drawn, and purchases of different rows go on beside each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from tallyveil import deadline
from tallyveil.locks import Rank, ranked_lock
from tallyveil.rewriter import Workload

__all__ = ["Reservations"]

# Between two looks.
_PAUSE: Final = 0.02


@dataclass(frozen=True, eq=False)
class _Reservation:
    workloads: Sequence[Workload]
    whole: frozenset[str]
    over: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def rows(self) -> Mapping[str, frozenset[bytes]]:
        """By table; worked out only if somebody else buys at the same time."""
        rows = {
            workload.table: frozenset(key for c in workload.columns for key in c.row_keys)
            for workload in self.workloads
        }
        # A row that all reservations of the whole table have in common.
        return rows | {table: rows.get(table, frozenset()) | {b""} for table in self.whole}

    def meets(self, other: _Reservation) -> bool:
        return any(
            not rows.isdisjoint(other.rows.get(table, ())) for table, rows in self.rows.items()
        )


class Reservations:
    """Of the threads of one process, which share it."""

    def __init__(self) -> None:
        self._lock = ranked_lock(Rank.LEAF)
        self._taken: tuple[_Reservation, ...] = ()

    @contextmanager
    def of(self, workloads: Sequence[Workload], whole: Iterable[str]) -> Iterator[None]:
        """Inside, nobody else has one of these rows, each table's in one workload, or the whole of
        one of these tables.

        Raises QueryCanceled or StatementTooComplex if the statement is to end before.
        """
        mine = _Reservation(workloads, frozenset(whole))
        while (other := self._take(mine)) is not None:
            while not other.over.wait(_PAUSE):
                deadline.check()
        try:
            yield
        finally:
            with self._lock:
                self._taken = tuple(one for one in self._taken if one is not mine)
            mine.over.set()

    def _take(self, mine: _Reservation) -> _Reservation | None:
        """Somebody who has one of the rows; if there is nobody, they are ours."""
        while True:
            taken = self._taken
            for other in taken:
                if mine.meets(other):
                    return other
            with self._lock:
                if self._taken is taken:
                    self._taken = (*taken, mine)
                    return None
