"""The stores on which charging is tested: SQLite's file, and a server that loses connections."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from tallyveil.accountant import Ledger, LedgerStore
from tests.accountant.remote_store import RemoteStore, Server

__all__ = ["House", "Houses", "RemoteHouse", "SqliteHouse"]

Fault: TypeAlias = Callable[[int, str], None]


class House(Protocol):
    """A ledger, which any process may open."""

    commit: str
    lost: type[Exception]

    def open(self) -> LedgerStore: ...

    def fail(self, store: Any, fault: Fault) -> None:
        """Call ``fault`` before and after each step of an open store, with a number and the step's
        name: it fails there, if it raises ``lost`` as where the store is lost."""

    def undo(self, store: Any) -> None:
        """Let the store lose the transaction that is open."""

    def close(self) -> None: ...


Houses: TypeAlias = Callable[[], House]


class _Connection:
    """An SQLite connection that calls ``fault`` before and after each statement."""

    def __init__(self, real: sqlite3.Connection, fault: Fault) -> None:
        self._real, self._fault, self._numbers = real, fault, itertools.count()

    def execute(self, statement: str, *arguments: Any) -> Any:
        self._fault(next(self._numbers), statement)
        found = self._real.execute(statement, *arguments)
        self._fault(next(self._numbers), statement)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class SqliteHouse:
    commit, lost = "COMMIT", sqlite3.OperationalError

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger"

    def open(self) -> Ledger:
        return Ledger(self.path)

    def fail(self, store: Any, fault: Fault) -> None:
        real = getattr(store._connection, "_real", store._connection)
        store._connection = _Connection(real, fault)

    def undo(self, store: Any) -> None:
        store._connection.execute("ROLLBACK")

    def close(self) -> None:
        pass


class RemoteHouse:
    commit, lost = "commit", ConnectionError

    def __init__(self) -> None:
        self._server = Server()

    def open(self) -> RemoteStore:
        return RemoteStore(self._server.address)

    def fail(self, store: Any, fault: Fault) -> None:
        store.fault, store._numbers = fault, itertools.count()

    def undo(self, store: Any) -> None:
        store.lose()

    def close(self) -> None:
        self._server.stop()
