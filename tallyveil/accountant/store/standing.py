"""Reading a state while this process waits for the disk to make a transaction durable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tallyveil.accountant.store.ledger_store import LedgerStore
from tallyveil.locks import Rank, ranked_lock

__all__ = ["Standing"]


class Standing:
    """Whether a state stands still, up to date, because a transaction is being written.

    From the transaction's first read to its end no other process commits. Nothing of it is in the
    state before it has ended, and nobody was told of it. So whoever reads the state meanwhile is
    before it, and need not wait for it. Threads may share it.
    """

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._position: int | None = None
        self._lock = ranked_lock(Rank.LEAF)

    def begin(self) -> None:
        """The state has everything that was committed, and does not change before `end`. Call it
        inside the transaction."""
        with self._lock:
            self._position = self._store.position()

    def end(self) -> None:
        """Wait until nobody reads the state: it changes from now on."""
        with self._lock:
            self._position = None

    @contextmanager
    def read(self) -> Iterator[bool]:
        """Whether the state stands still, and does so inside. Take no other lock there."""
        with self._lock:
            before = self._position
            yield before is not None and self._store.unchanged(before)
