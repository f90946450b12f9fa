"""Waits for rows that other processes on the same ledger are buying, instead of buying them again.

A charge without an answer shows which rows a process is about to receive. As with `reservations`,
a waiting thread holds nothing that others wait for. A process may die before it answers, so waiting
for a charge ends once it has been known for `PATIENCE` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tallyveil import deadline
from tallyveil.accountant import Accountant
from tallyveil.rewriter import Workload

__all__ = ["PATIENCE", "Elsewhere"]

PATIENCE: Final = 2.0
_PAUSE: Final = 0.005  # seconds between two readings of the ledger


@dataclass(eq=False)
class Elsewhere:
    """For one accountant's ledger. Threads may share it."""

    accountant: Accountant

    def settled(self, workloads: Sequence[Workload]) -> int:
        """Wait until no other process is known to have charged any of these rows without an answer
        yet. Return how much was `taken_in` then: later look-ups are at least as recent.

        Raises what `deadline.check` raises.
        """
        rows: set[tuple[str, bytes]] = set()
        while True:
            seen = self.accountant.taken_in
            if not self.accountant.awaits_others:
                return seen
            rows = rows or {row for workload in workloads for row in _rows(workload)}
            others = self.accountant.charged_by_others(time.monotonic() - PATIENCE)
            if all(rows.isdisjoint(_rows(charge.workload)) for charge in others):
                return seen
            self._pause()

    def _pause(self) -> None:
        """Pause before the ledger is read again: processes do not announce their commits."""
        deadline.check()
        time.sleep(_PAUSE)


def _rows(workload: Workload) -> Iterator[tuple[str, bytes]]:
    return ((workload.table, key) for column in workload.columns for key in column.row_keys)
