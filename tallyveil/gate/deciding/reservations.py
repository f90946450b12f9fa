"""Reservations of rows: no thread buys a row whose answer another is about to report.

This is no lock. A waiting thread holds nothing that others wait for, can be cancelled, and examines
history again once the other is done. So a reservation may be held while noise is drawn and
estimates are made, and purchases of different rows proceed concurrently.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tallyveil import deadline
from tallyveil.cache import cached_property
from tallyveil.locks import Rank, ranked_lock
from tallyveil.rewriter import Workload

__all__ = ["Reservations"]

_PAUSE: Final = 0.02  # seconds between two checks of the deadline


@dataclass(frozen=True, eq=False)
class _Reservation:
    workloads: Sequence[Workload]
    whole: frozenset[str]
    ended: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def rows(self) -> Mapping[str, frozenset[bytes]]:
        """By table; computed only if another thread buys at the same time."""
        rows: dict[str, frozenset[bytes]] = {}
        for workload in self.workloads:
            own = (key for column in workload.columns for key in column.row_keys)
            rows[workload.table] = rows.get(workload.table, frozenset()).union(own)
        # A key that all reservations of a whole table have in common.
        return rows | {table: rows.get(table, frozenset()) | {b""} for table in self.whole}

    def conflicts(self, other: _Reservation) -> bool:
        return any(
            not rows.isdisjoint(other.rows.get(table, ())) for table, rows in self.rows.items()
        )


class Reservations:
    """The reservations of one process."""

    def __init__(self) -> None:
        self._lock = ranked_lock(Rank.LEAF)
        self._taken: tuple[_Reservation, ...] = ()

    @contextmanager
    def of(self, workloads: Sequence[Workload], whole: Iterable[str]) -> Iterator[None]:
        """Reserve these rows, a workload for each table, and the ``whole`` of some tables: inside,
        no other thread has any of them.

        Raises QueryCanceled or StatementTooComplex if the deadline ends the wait.
        """
        mine = _Reservation(workloads, frozenset(whole))
        while (other := self._take(mine)) is not None:
            while not other.ended.wait(_PAUSE):
                with deadline.doing(deadline.Phase.OTHERS):
                    deadline.check()
        try:
            yield
        finally:
            with self._lock:
                self._taken = tuple(one for one in self._taken if one is not mine)
            mine.ended.set()

    def _take(self, mine: _Reservation) -> _Reservation | None:
        """Return a reservation that conflicts with this one, or None if this one is made."""
        while True:
            taken = self._taken
            for other in taken:
                if mine.conflicts(other):
                    return other
            with self._lock:
                if self._taken is taken:
                    self._taken = (*taken, mine)
                    return None
