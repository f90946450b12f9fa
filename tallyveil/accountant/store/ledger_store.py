"""What the accountant needs of a store: the only way in which it reads and writes a ledger.

A store has a table for each kind of record (`ledger_records`). Records are appended in
transactions, one after the other; their numbers have no gaps, and whoever sees a record sees all
before it. So a `Position` says how much of a table somebody has read. A chain (`chain`) runs
through each table.

Many processes may have the same ledger open, each by a store of its own, which one thread uses at a
time. What a transaction appended is durable once it ends without an error. If it ends with one, it
left nothing behind but what `Transaction.keep` covers, except that a store may be lost while it
commits: `Transaction.outcome`, in a later transaction, tells what became of it.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeAlias

from tallyveil.accountant.charges import Entry
from tallyveil.accountant.store.chain import START, Position
from tallyveil.accountant.store.ledger_records import R, Record

__all__ = [
    "LedgerAdvanced", "LedgerStore", "Seal", "Seen", "Snapshot", "Transaction", "VersionAdvanced",
]  # fmt: skip

_Purpose: TypeAlias = Literal["data", "rows", "marks", "cubes"]


class LedgerAdvanced(Exception):
    """More was charged or answered since a charge was decided on. The charge was not made."""


class VersionAdvanced(Exception):
    """The rows of ``table`` were replaced by another version since a charge was decided on. The
    charge was not made."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table


class Seen(NamedTuple):
    """The numbers of the last charge and the last answer that a decision knows."""

    charges: int
    answers: int


class Seal(NamedTuple):
    """The ``digest`` of the records up to the one at ``end``, whose chain was found whole. To
    compare it takes less time than to compute the chain again."""

    end: Position
    digest: bytes


class Snapshot(Protocol):
    """A consistent view of all that was committed before it."""

    @property
    def version(self) -> int | None:
        """The `LedgerStore.version` of this view."""

    def after(
        self, kind: type[R], seen: Position = START, most: int = -1, seal: Seal | None = None
    ) -> Iterator[tuple[R, Position]]:
        """The records of a kind after ``seen``, each with its position; at most ``most``, if given.
        A ``seal`` is of just these records.

        Raises LedgerError if the chain is broken or the record at ``seen`` is missing.
        """

    def seal(self, kind: type[Record], seen: Position, number: int) -> Callable[[], Seal] | None:
        """Read so many records after ``seen``, of which there are as many. What is returned finds
        their seal, also once the view has ended; None where a store has none.

        Both raise what `after` raises.
        """

    def end(self, kind: type[Record]) -> Position:
        """The position of the last record of a kind."""

    def outcome(self, kind: type[Record], position: Position) -> bool:
        """Whether the record is in the ledger: of a witness, or one that an earlier transaction
        appended, though that ended with an error."""

    def history(self, table: str | None, after: int, through: int) -> Iterable[Entry]:
        """The charges of these numbers, or a table's of them, oldest first. All are read when it
        returns."""

    def charged_tables(self) -> dict[str, str]:
        """The tables with charges, each with the time of the first."""


class Transaction(Snapshot, Protocol):
    """A view that no other transaction can change before this one ends. Once it ended, ``version``
    is the one that it left behind, whatever others have appended since; None if it failed."""

    def append(self, record: Record) -> Position:
        """Append a record, and return its position."""

    def keep(self) -> None:
        """From now on, what was appended so far becomes durable whatever fails afterwards, unless
        the store itself fails."""


class LedgerStore(Protocol):
    """``name`` is for custodians, ``label`` for clients, who must not learn of directories. Other
    keys are derived from ``secret``."""

    name: str
    label: str
    secret: bytes

    def key(self, purpose: _Purpose) -> bytes:
        """A secret key for one purpose, the same in every process and for ever."""
        return hashlib.blake2b(purpose.encode(), key=self.secret, digest_size=32).digest()

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Hold a snapshot; inside another one or a transaction, the same.

        Others may have to wait for its end, so what takes long does not belong inside. Can be
        stopped until it is entered: raises what `deadline.check` raises."""

    @abstractmethod
    def transaction(
        self, expected: Mapping[str, Seen] | None = None
    ) -> AbstractContextManager[Transaction]:
        """A transaction: exclusive, atomic, and durable once the block ends without an error.

        Raises LedgerAdvanced if more was charged or answered about a table of ``expected`` than its
        decision knows, and LedgerError if it is not known to be durable. Can be stopped until it is
        entered: raises what `deadline.check` raises."""

    @abstractmethod
    def version(self) -> int | None:
        """A number that changes with each commit of any process; None if it is not known now.
        Raises LedgerError in a process that did not open the store."""

    @abstractmethod
    def position(self) -> int | None:
        """As `version`, but never waits and never raises; any thread may call it. None also where
        only this process can append."""

    def unchanged(self, position: int) -> bool:
        """Whether nothing was committed since this `position`, apart from what this store has been
        writing in one transaction since. Any thread may call it."""
        return self.position() == position

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait until others may have appended something or let go of a charge, ``seconds`` at most.
        Any thread may call it."""

    @abstractmethod
    def hold(self, charge_id: int) -> None:
        """Mark a charge as being answered, until `let_go` or the end of this process. No error is
        raised where that is impossible: then nobody waits for the answer."""

    @abstractmethod
    def let_go(self, charge_id: int) -> None:
        """End one `hold`."""

    @abstractmethod
    def is_held(self, charge_id: int) -> bool:
        """Whether any process may still be answering the charge; False if that cannot be known."""

    @property
    @abstractmethod
    def has_checkpoint(self) -> bool:
        """Whether the store keeps checkpoints."""

    @abstractmethod
    def checkpoint(self) -> bytes | None:
        """The last checkpoint written by any process, which may be damaged; None if there is
        none."""

    @abstractmethod
    def write_checkpoint(self, parts: Iterable[bytes | memoryview]) -> None:
        """Replace the checkpoint, by these parts one after the other. It is a cache: no error is
        raised if that fails."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, and let go of all that it holds."""
