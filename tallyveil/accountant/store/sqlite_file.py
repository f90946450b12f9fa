"""The ledger's SQLite file: checked when opened, used in transactions, and never another file.

It uses a rollback journal, not a write-ahead log: so the file alone is the ledger whenever nothing
is being written, and deleting the journal loses no charge. The journal is kept between transactions
(PERSIST), which halves the time of a commit.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tallyveil import deadline
from tallyveil.accountant.store.file_header import Header
from tallyveil.accountant.store.ledger_schema import (
    check_format,
    create_file,
    create_tables,
    remove_draft,
)
from tallyveil.errors import LedgerError

__all__ = ["SqliteFile", "Written"]

# Seconds to wait for other processes in all, and between two checks of the deadline.
_BUSY_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_IN_USE = 0  # the number of no charge, held while the file is open
_COUNTS = 1 << 32  # the number of different positions
_UNREADABLE = (
    "Nothing is answered without a ledger. See that the file, its directory and the disk are in"
    " order, and restore a damaged ledger from its backup."
)
_LOCKED = (
    "Another program has locked the file. Find out which, for example a backup or an open sqlite3"
    " shell, and end its transaction."
)


def _is_busy(error: Exception) -> bool:
    """Whether another process has the file locked. Python's own errors have no code."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


class Written:
    """The version that a transaction left behind, None before its end and if it failed."""

    version: int | None = None


class SqliteFile:
    """An open ledger file; ``path`` is None for a ledger in memory."""

    def __init__(self, path: str | Path, *, create: bool, secret: bytes | None) -> None:
        """Open ``path``, or create it with a ``secret`` (`create_tables`) if it is missing;
        ":memory:" is a ledger in memory.

        Raises LedgerError if it is missing and not ``create``, if it has another hard link, if it
        is corrupt, or no ledger.
        """
        self._pid = os.getpid()
        self._keeping = self._inside = self._undone = False
        self.path = None if str(path) == ":memory:" else Path(path).absolute()
        self._header: Header | None = None
        self.name = self.label = str(path)
        with self._reported("opened"):
            if self.path is not None and not self.path.exists():
                if not create:
                    raise LedgerError(
                        f"there is no ledger {self.name}",
                        hint="Restore it from its backup: a new ledger begins with the whole budget"
                        " for the same people. Only where there never was one, let it be made:"
                        " leave out must_exist of the policy's ledger once.",
                    )
                create_file(self.path, secret)
            self._check_one_name()
            self._identity = self._stat()
            self._connection = sqlite3.connect(
                path if self.path is None else f"{self.path.as_uri()}?mode=rw",
                uri=self.path is not None,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            with contextlib.ExitStack() as opened:
                opened.callback(self._connection.close)
                if self.path is None:
                    create_tables(self._connection, secret)
                else:
                    check_format(self._connection, self.name)
                    self._header = Header(self.path)
                    self.hold(_IN_USE)
                opened.pop_all()
        if self.path is not None:
            # From now on errors may reach clients, who must not learn of directories.
            self.label = self.path.name

    def close(self) -> None:
        """Close the file, and delete the journal unless another process is writing."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._header is not None:
            self._header.close()
            self._header = None

    def position(self) -> int | None:
        """A number that changes with each commit by any process; None if it is not known now, as
        for a ledger in memory. Takes no lock, and any thread may call it."""
        header = self._header
        try:
            if header is None or self._stat() != self._identity:
                return None
            return header.read()
        except OSError:
            return None

    def unchanged(self, position: int) -> bool:
        """SQLite counts a commit shortly before it is durable."""
        own = position if self._undone else (position + 1) % _COUNTS
        return self.position() in (position, own)

    def hold(self, charge_id: int) -> None:
        """Mark a charge as being answered (`Header.hold`). No error is raised where files cannot be
        locked: then nobody waits for the answer."""
        if self._header is not None:
            with contextlib.suppress(OSError):
                self._header.hold(charge_id)

    def let_go(self, charge_id: int) -> None:
        if self._header is not None:
            with contextlib.suppress(OSError):
                self._header.let_go(charge_id)

    def is_held(self, charge_id: int) -> bool:
        """Whether any process may still be answering the charge."""
        try:
            return self._header is not None and self._header.is_held(charge_id)
        except OSError:
            return False

    @property
    def in_use(self) -> bool:
        """Whether the file is open elsewhere too, in any process; False if that cannot be known."""
        try:
            return self._header is not None and self._header.is_shared(_IN_USE)
        except OSError:
            return False

    def version(self) -> int | None:
        """As `position`, but constant for a ledger in memory. Inside a transaction, after its first
        read, it is the transaction's. Raises LedgerError in a process that did not open it."""
        self._check_process()
        return 0 if self.path is None else self.position()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """A transaction that only reads; inside another one, that. While it is held, others cannot
        commit."""
        if self._inside:
            yield
            return
        # BEGIN takes no lock; the first read does.
        with self._transaction("read", "BEGIN", "SELECT 1 FROM sqlite_schema LIMIT 1"):
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Written]:
        """An exclusive transaction. What is yielded has the version that it left behind."""
        result = Written()
        with self._transaction("written", "BEGIN IMMEDIATE"):
            changes = self._connection.total_changes
            version = 0 if self._header is None else self._header.read()
            if version is None:
                raise LedgerError(
                    f"the ledger {self.label} was given a write-ahead log while in use",
                    hint="Restart to go on: this takes the log in, and writes without one.",
                )
            yield result
            # A transaction that changes nothing does not count.
            changed = self._header is not None and self._connection.total_changes != changes
        self._check_identity()
        result.version = (version + changed) % _COUNTS

    def keep(self) -> None:
        """Inside `_writing`: keep what was written so far, whatever fails afterwards."""
        self._connection.execute("SAVEPOINT kept")
        self._keeping = True

    @contextlib.contextmanager
    def _transaction(self, doing: str, *begin: str) -> Iterator[None]:
        self._check_process()
        self._check_identity()
        with self._reported(doing):
            self._keeping = self._undone = False
            try:
                self._begin(begin)
                self._inside = True
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._undo()
                raise
            finally:
                self._inside = False

    @deadline.taking(None)
    def _begin(self, statements: Sequence[str]) -> None:
        """Execute each as soon as no other process blocks it. Waits for no turn, since others wait
        for this."""
        end = time.monotonic() + _BUSY_SECONDS
        self._wait(_LOOK_SECONDS)
        try:
            for statement in statements:
                while not self._executed(statement, last=time.monotonic() >= end):
                    with deadline.doing(deadline.Phase.LEDGER):
                        deadline.check()
        finally:
            self._wait(_BUSY_SECONDS)

    def _executed(self, statement: str, *, last: bool) -> bool:
        try:
            self._connection.execute(statement)
        except sqlite3.OperationalError as error:
            if last or not _is_busy(error):
                raise
            return False
        return True

    def _wait(self, seconds: float) -> None:
        """Set how long each statement waits for other processes."""
        self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")

    def _undo(self) -> None:
        """End the transaction; only what `keep` covers stays."""
        self._undone = True  # before others can commit
        if self._keeping and self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK TO kept")
                self._connection.execute("COMMIT")
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _reported(self, doing: str) -> Iterator[None]:
        try:
            yield
        # SQLite's message may quote bytes of a damaged file that are no valid text.
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise LedgerError(
                f"the ledger {self.label} cannot be {doing}",
                detail=(error.strerror if isinstance(error, OSError) else None) or str(error),
                hint=_LOCKED if _is_busy(error) else _UNREADABLE,
            ) from error

    def _check_one_name(self) -> None:
        """Raise LedgerError if the file has another name. SQLite looks for the journal beside the
        name that it is given: under another one it would not find what a crash left half written.
        """
        if self.path is None or self.path.stat().st_nlink == 1:
            return
        remove_draft(self.path)
        if self.path.stat().st_nlink > 1:
            raise LedgerError(
                f"the ledger {self.name} has another hard link, under which its journal would not"
                " be found",
                hint="Remove the other name; make backups as copies.",
            )

    def _stat(self) -> tuple[int, int] | None:
        if self.path is None:
            return None
        stat = self.path.stat()
        return stat.st_dev, stat.st_ino

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise LedgerError(f"the ledger {self.label} was opened by another process")

    def _check_identity(self) -> None:
        """Raise LedgerError if the file was moved away, deleted or replaced."""
        try:
            if self._stat() == self._identity:
                return
            fate, otherwise = "replaced", "A restart counts only what the present file records."
        except OSError:
            fate, otherwise = "removed", "A restart without it begins a ledger with nothing spent."
        raise LedgerError(
            f"the ledger {self.label} was {fate} while in use",
            hint=f"Put the original file back, unless you restored or migrated it. {otherwise}",
        )
