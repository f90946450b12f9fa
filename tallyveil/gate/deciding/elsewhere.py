"""Waits for rows that other processes on the same ledger are buying, instead of buying them again.

A charge without an answer shows which rows a process is about to receive. What was bought for a
half-width may meet it only together with history. Then its buyer records how its estimates were
made, right after the answer. Whoever still lacks such rows waits for that too: by itself it might
use other answers, and find less.

As with `reservations`, a waiting thread holds nothing that others wait for. A process may die
before it answers or reports, so waiting for a charge ends once it has been known for `PATIENCE`
seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tallyveil import deadline
from tallyveil.accountant import Accountant, Charge
from tallyveil.knowledge import Knowledge
from tallyveil.rewriter import Workload

__all__ = ["PATIENCE", "Elsewhere"]

PATIENCE: Final = 2.0
_PAUSE: Final = 0.005  # seconds between two readings of the ledger


@dataclass(eq=False)
class Elsewhere:
    """For one accountant's ledger. Threads may share it."""

    accountant: Accountant
    knowledge: Mapping[str, Knowledge]

    def settled(self, workloads: Sequence[Workload], *, reported: bool) -> int:
        """Wait until no other process is known to have charged any of these rows without an answer
        yet or, with ``reported``, without a report of what follows from the answer. Return how much
        was `taken_in` then: later look-ups are at least as recent.

        Raises what `deadline.check` raises.
        """
        rows: set[tuple[str, bytes]] = set()
        while True:
            seen = self.accountant.taken_in
            if not self.accountant.awaits_others:
                return seen
            since = time.monotonic() - PATIENCE
            charged = self.accountant.charged_by_others(since)
            answered = self.accountant.answered_by_others(since)
            if not charged and not (reported and answered):
                return seen
            rows = rows or {row for workload in workloads for row in _rows(workload)}
            if all(rows.isdisjoint(_rows(charge.workload)) for charge in charged) and not any(
                self._unreported(number, charge, rows) for number, charge in answered if reported
            ):
                return seen
            self._pause()

    def _unreported(self, number: int, charge: Charge, rows: set[tuple[str, bytes]]) -> bool:
        """Whether the answer to this charge has some of the rows, and none was reported yet."""
        if rows.isdisjoint(_rows(charge.workload)):
            return False
        return not self.knowledge[charge.table].reported(number, charge.workload.columns)

    def _pause(self) -> None:
        """Pause before the ledger is read again: processes do not announce their commits."""
        deadline.check()
        time.sleep(_PAUSE)


def _rows(workload: Workload) -> Iterator[tuple[str, bytes]]:
    return ((workload.table, key) for column in workload.columns for key in column.row_keys)
