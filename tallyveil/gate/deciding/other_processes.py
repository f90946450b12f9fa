"""Waits for rows that other processes on the same ledger are buying, instead of buying them again.

A charge without an answer shows which rows a process is about to receive. What was bought for a
half-width may meet it only together with history. Then its buyer records how its estimates were
made, right after the answer. Whoever still lacks such rows waits for that too: by itself it might
use other answers, and find less.

As with `reservations`, a waiting thread holds nothing that others wait for, and can be cancelled.
It waits for as long as the buyer lives and is at work (`Accountant.answering`): a process that dies
is not waited for, and a long draw is not bought twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tallyveil import deadline
from tallyveil.accountant import Accountant
from tallyveil.rewriter import Workload

__all__ = ["OtherProcesses"]

_PAUSE: Final = 0.005  # seconds between two readings of the ledger


@dataclass(eq=False)
class OtherProcesses:
    """For one accountant's ledger. Threads may share it."""

    accountant: Accountant

    def settled(self, workloads: Sequence[Workload], *, reported: bool) -> int:
        """Wait until no other process is known to have charged any of these rows and to be about to
        answer or, if ``reported``, to report what follows from the answer. Return how much was
        `events_read` then: later look-ups are at least as recent.

        Raises what `deadline.check` raises.
        """
        rows: set[tuple[str, bytes]] = set()
        while True:
            seen = self.accountant.events_read
            going_on = self.accountant.bought_elsewhere()
            awaited = [charge for charge, answered in going_on if reported or not answered]
            if not awaited:
                return seen
            rows = rows or {row for workload in workloads for row in _rows(workload)}
            if all(rows.isdisjoint(_rows(charge.workload)) for charge in awaited):
                return seen
            self._pause()

    def _pause(self) -> None:
        """Pause before the ledger is read again."""
        with deadline.doing(deadline.Phase.OTHERS):
            deadline.check()
        self.accountant.wait(_PAUSE)


def _rows(workload: Workload) -> Iterator[tuple[str, bytes]]:
    return ((workload.table, key) for column in workload.columns for key in column.row_keys)
