"""What other processes on the same ledger are buying: their rows are waited for, not bought again.

A charge without an answer says which rows somebody is about to have the answer of. As with
`reservations`, whoever waits holds nothing that others wait for. A process may die before it
answers, so that nobody waits for a charge that has been known for `PATIENCE` seconds.
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
_PAUSE: Final = 0.005  # seconds between two looks


@dataclass(eq=False)
class Elsewhere:
    """Of one accountant. Threads may share it."""

    accountant: Accountant

    def settled(self, workloads: Sequence[Workload]) -> int:
        """How much was `taken_in` when no other process was known to have charged, and not
        answered yet, any of these rows: what is looked up from now on is up to date with that.

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
        """No other process tells of its commits: the ledger has to be looked at again."""
        deadline.check()
        time.sleep(_PAUSE)


def _rows(workload: Workload) -> Iterator[tuple[str, bytes]]:
    return ((workload.table, key) for column in workload.columns for key in column.row_keys)
