"""The transaction block, as far as a PostgreSQL client observes it, as a table.

Answers are read-only and a charge is never refunded, so a block has no effect on data. It exists
because clients and pools rely on its states, tags, warnings and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tallyveil.errors import TransactionAborted
from tallyveil.gate.interface import Notice, Result, Statement, StatementKind
from tallyveil.proxy.client_memory import ConnectionMemory, size_of
from tallyveil.proxy.protocol_errors import NoActiveTransaction, UndefinedSavepoint

__all__ = ["DISCARD_ALL", "IDLE", "IN_BLOCK", "IN_FAILED_BLOCK", "TRANSACTION_KINDS", "Transaction"]

IDLE: Final = "I"
IN_BLOCK: Final = "T"
IN_FAILED_BLOCK: Final = "E"


class _Step(NamedTuple):
    """The next status, the tag to send (None for the statement's own), and a warning."""

    status: str
    tag: str | None = None
    warning: Notice | None = None


def _warning(sqlstate: str, message: str) -> Notice:
    return Notice(message, sqlstate=sqlstate, severity="WARNING")


_ALREADY: Final = _warning("25001", "there is already a transaction in progress")
_NONE: Final = _warning("25P01", "there is no transaction in progress")

_STEPS: Final[dict[tuple[str, StatementKind], _Step]] = {
    (IDLE, "begin"): _Step(IN_BLOCK),
    (IDLE, "commit"): _Step(IDLE, "COMMIT", _NONE),
    (IDLE, "rollback"): _Step(IDLE, "ROLLBACK", _NONE),
    (IN_BLOCK, "begin"): _Step(IN_BLOCK, None, _ALREADY),
    (IN_BLOCK, "commit"): _Step(IDLE, "COMMIT"),
    (IN_BLOCK, "rollback"): _Step(IDLE, "ROLLBACK"),
    (IN_BLOCK, "savepoint"): _Step(IN_BLOCK),
    (IN_BLOCK, "rollback_to"): _Step(IN_BLOCK, "ROLLBACK"),
    (IN_FAILED_BLOCK, "commit"): _Step(IDLE, "ROLLBACK"),
    (IN_FAILED_BLOCK, "rollback"): _Step(IDLE, "ROLLBACK"),
    (IN_FAILED_BLOCK, "rollback_to"): _Step(IN_BLOCK, "ROLLBACK"),
}

TRANSACTION_KINDS: Final = frozenset(kind for _, kind in _STEPS)

_APART: Final = TRANSACTION_KINDS | {"empty"}
DISCARD_ALL: Final = "DISCARD ALL"
"""The statement after one of these is the first of its transaction: DISCARD ALL commits, too."""

_SAVEPOINT: Final = 1024
"""Bytes of a savepoint in addition to its name, including the settings to return to."""


class Transaction:
    """The transaction block of one connection. ``status`` is the one that ReadyForQuery sends.

    ``implicit`` is true while several statements form one transaction without BEGIN: those of one
    message, or those executed since the last Sync.
    """

    def __init__(self, holding: ConnectionMemory) -> None:
        self.status = IDLE
        self.implicit = False
        self._holding = holding
        self._savepoints: list[tuple[str | None, object]] = []  # their names and settings

    @property
    def open(self) -> bool:
        return self.status != IDLE

    @property
    def depth(self) -> int:
        """The number of savepoints."""
        return len(self._savepoints)

    @property
    def settings(self) -> object | None:
        """The settings when the last savepoint was established; None without a savepoint."""
        return self._savepoints[-1][1] if self._savepoints else None

    @property
    def sound(self) -> bool:
        """Whether the block has not failed, so that queries are answered."""
        return self.status != IN_FAILED_BLOCK

    def fail(self) -> None:
        """Handle an error: an open block fails, and only its end is accepted from then on."""
        if self.status == IN_BLOCK:
            self.status = IN_FAILED_BLOCK

    def go_on(self, statement: Statement) -> None:
        """Note that a statement was executed and no Sync has arrived since."""
        if not (self.open or statement.kind in _APART or statement.tag == DISCARD_ALL):
            self.implicit = True

    def check(self, statement: Statement) -> None:
        """Raise TransactionAborted (25P02) if the block has failed and refuses the statement."""
        allowed = (self.status, statement.kind) in _STEPS or statement.kind == "empty"
        if self.status == IN_FAILED_BLOCK and not allowed:
            raise TransactionAborted(
                "current transaction is aborted, commands ignored until end of transaction block",
                hint="Send ROLLBACK first.",
            )

    def run(self, statement: Statement, settings: Callable[[], object]) -> Result:
        """Execute a statement whose kind is in TRANSACTION_KINDS. ``settings()`` returns a snapshot
        of the current settings.

        Raises NoActiveTransaction (25P01), UndefinedSavepoint (3B001), TooMuchKept and OutOfMemory.
        """
        step = _STEPS.get((self.status, statement.kind))
        if step is None:
            self.check(statement)
            raise NoActiveTransaction(f"{statement.tag} can only be used in transaction blocks")
        if statement.kind in ("savepoint", "rollback_to"):
            self._move_savepoints(statement, settings)
        self.status = step.status
        if not self.open:
            self._release(0)
        notices = () if step.warning is None else (step.warning,)
        return Result(None, (), step.tag or statement.tag, notices)

    def _move_savepoints(self, statement: Statement, settings: Callable[[], object]) -> None:
        """Establish, release, or return to a savepoint: the statement's target, or the last one if
        it has none."""
        if statement.tag == "SAVEPOINT":
            self._holding.take(_size(statement.target))
            self._savepoints.append((statement.target, settings()))
            return
        depth = len(self._savepoints)
        while depth and statement.target not in (None, self._savepoints[depth - 1][0]):
            depth -= 1
        if not depth:
            raise UndefinedSavepoint(
                "no such savepoint"
                if statement.target is None
                else f'savepoint "{statement.target}" does not exist'
            )
        # ROLLBACK TO keeps the savepoint itself, RELEASE does not.
        self._release(depth if statement.kind == "rollback_to" else depth - 1)

    def _release(self, depth: int) -> None:
        """Drop all but the first ``depth`` savepoints."""
        self._holding.give(sum(_size(name) for name, _ in self._savepoints[depth:]))
        del self._savepoints[depth:]


def _size(name: str | None) -> int:
    return _SAVEPOINT + size_of(name)
