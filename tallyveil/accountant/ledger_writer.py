"""Appending to a ledger what its state was checked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from tallyveil import deadline
from tallyveil.accountant.budgets.pricing import Priced
from tallyveil.accountant.ledger_state import BATCH, LedgerState, Unread
from tallyveil.accountant.releases import Of
from tallyveil.accountant.store.chain import Position
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    ChargeRecord,
    DerivationRecord,
    Record,
    now,
)
from tallyveil.accountant.store.ledger_store import LedgerStore, Seen, Transaction
from tallyveil.accountant.store.standing import Standing
from tallyveil.errors import TallyveilError

__all__ = ["LedgerWriter", "append_answers", "append_charges"]

_LOOKS: Final = (True, True, True, True, False)
"""For each look after lost charges whether they are written again."""


class LedgerWriter:
    """Writes to a ledger what its ``state`` allows. Used under the accountant's lock. The state is
    ``standing`` while it waits for the disk."""

    def __init__(self, ledger: LedgerStore, state: LedgerState, standing: Standing) -> None:
        self._ledger = ledger
        self._state = state
        self._standing = standing

    @contextmanager
    def writing(self, expected: Mapping[str, Seen] | None = None) -> Iterator[Transaction]:
        """A transaction, with everything in the ledger read. Unless the state is `settled`
        afterwards, what was appended is read back, so the state never lacks what the ledger holds.

        Others wait for it, so it is begun again if they have charged much since `refresh`. Raises
        what `LedgerStore.transaction` raises."""
        state = self._state
        while True:
            state.refresh()
            with ExitStack() as after, self._ledger.transaction(expected) as transaction:
                unread = Unread() if state.is_current else state.unread(transaction)
                if len(unread.charges) <= BATCH:
                    state.settled(None)
                    state.read(unread)
                    self._standing.begin()
                    after.callback(self._standing.end)
                    yield transaction
                    return

    def rewrite_lost_charges(
        self,
        priced: Sequence[Priced],
        analyst: str,
        ends: Sequence[Position],
        versions: Mapping[str, int],
        *,
        drawn: bool,
    ) -> Sequence[Position] | None:
        """The positions of charges that were appended up to ``ends`` by a transaction that ended
        with an error; none if the ledger does not hold them, None if that cannot be known.

        If their answers were ``drawn``, they are written again where a store has lost them: SQLite
        may roll back a transaction that cannot be written, and a connection may be lost. No
        deadline stops it: otherwise a cancel would take the charge back. They are about these
        ``versions``: they cannot be written under a later one."""
        written = [ends]
        for again in _LOOKS:
            with suppress(TallyveilError), deadline.unlimited():
                with self.writing() as transaction:
                    for one in written:
                        if transaction.outcome(ChargeRecord, one[-1]):
                            return one
                    later = any(
                        self._state.version(one.charge.table) != versions.get(one.charge.table, 0)
                        for one in priced
                    )
                    if later or not (drawn and again):
                        return ()
                    quote, _ = self._state.plan(priced, analyst, custodian=True)
                    if not quote.allowed:
                        return ()
                    written.append(append_charges(transaction, priced, analyst))
                return written[-1]
        return None

    def holds(self, kind: type[Record], position: Position) -> bool:
        """Whether a record is in the ledger, though the transaction that appended it ended with an
        error; False also if that cannot be known."""
        with suppress(TallyveilError), deadline.unlimited(), self.writing() as transaction:
            return transaction.outcome(kind, position)
        return False

    def derive(self, of: Of, derivations: Sequence[bytes], analyst: str) -> None:
        """Write how estimates of rows were made, as far as there is room, if that version is the
        table's last."""
        room = self._state.memory.room_for_derivations(of.table, analyst)
        kept = [body for body in derivations if len(body) <= room]
        if not kept:
            return
        with self.writing() as transaction:
            if self._state.version(of.table) == of.version:
                for body in kept:
                    transaction.append(DerivationRecord(of.table, analyst, body))


def append_charges(
    transaction: Transaction, priced: Sequence[Priced], analyst: str
) -> list[Position]:
    """Append charges, and return the position of each."""
    return [
        transaction.append(
            ChargeRecord(
                now(),
                analyst,
                one.charge.table,
                one.charge.mechanism,
                one.charge.sql,
                one.loss.bound,
                sum(one.charge.heights),
                one.columns,
                one.loss.measure,
            )
        )
        for one in priced
    ]


def append_answers(transaction: Transaction, encoded: Mapping[int, bytes]) -> Position:
    """Append the answers to charges, at least one, and return the position of the last."""
    ends = [transaction.append(AnswerRecord(number, body)) for number, body in encoded.items()]
    return ends[-1]
