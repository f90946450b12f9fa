"""A ledger store on a server, for tests: it loses connections, also in the middle of a commit.

A server process keeps the records in memory; each client has one connection. The server ends a
transaction when it commits or rolls back, or when it finds the connection gone: then all of it is
dropped. A client whose connection is lost never knows whether its last request arrived.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from tallyveil import deadline
from tallyveil.accountant import Entry, LedgerAdvanced, LedgerStore, Seen
from tallyveil.accountant.store.chain import START, Position, linked
from tallyveil.accountant.store.ledger_records import AnswerRecord, ChargeRecord, R, Record
from tallyveil.errors import LedgerError
from tallyveil.mechanisms.units import from_units

__all__ = ["RemoteStore", "Server"]

Fault = Callable[[int, str], None]
_Table = list[tuple[Record, Position]]


class Server:
    """Serves one ledger at ``address``, in a process of its own until `stop`."""

    def __init__(self) -> None:
        self.address = str(Path(tempfile.mkdtemp(prefix="tv")) / "ledger")
        self._secret = secrets.token_bytes(32)
        self._tables: dict[type[Record], _Table] = {}
        self._pending: list[Record] = []
        self._kept, self._version = 0, 0
        self._writer: Any = None
        self._held: Counter[tuple[Any, int]] = Counter()
        self._checkpoint: bytes | None = None
        self._lock = threading.Lock()
        self._process = os.fork()
        if self._process == 0:
            try:
                self._run()
            finally:
                os._exit(1)
        while True:
            with suppress(OSError):
                Client(self.address, family="AF_UNIX").close()
                break

    def _run(self) -> None:
        with Listener(self.address, family="AF_UNIX", backlog=64) as listener:
            while True:
                client = listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def stop(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        shutil.rmtree(Path(self.address).parent)

    def _serve(self, client: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                asked, *arguments = client.recv()
                with self._lock:
                    reply = getattr(self, f"on_{asked}")(client, *arguments)
                client.send(reply)
        with self._lock:
            self._end(client)
            self._held = Counter({key: n for key, n in self._held.items() if key[0] is not client})

    def _end(self, client: Connection) -> None:
        if self._writer is client:
            self._writer, self._pending, self._kept = None, [], 0

    def _table(self, kind: type[Record]) -> _Table:
        return self._tables.setdefault(kind, [])

    def _records(self, kind: type[R]) -> list[R]:
        return [one for one, _ in self._table(kind) if isinstance(one, kind)]

    def _apply(self, client: Connection, number: int) -> int:
        """Commit the first pending records. All tables change at once, under the lock."""
        for record in self._pending[:number]:
            self._add(self._table(type(record)), record)
        self._version += number > 0
        self._end(client)
        return self._version

    def _add(self, table: _Table, record: Record) -> Position:
        before = table[-1][1] if table else START
        number = before.number + 1
        after = Position(number, linked(before.chain, number, *record))
        table.append((record, after))
        return after

    def on_secret(self, _: Connection) -> bytes:
        return self._secret

    def on_version(self, _: Connection) -> int:
        return self._version

    def on_snapshot(self, _: Connection) -> Any:
        return self._version, {kind: len(table) for kind, table in self._tables.items()}

    def on_begin(self, client: Connection, expected: Mapping[str, Seen]) -> Any:
        """None while another client writes, False if more is recorded than was expected."""
        if self._writer is not None:
            return None
        charges, answers = self._records(ChargeRecord), self._records(AnswerRecord)
        for table, seen in expected.items():
            answered = [charges[one.charge_id - 1] for one in answers[seen.answers :]]
            if any(one.table == table for one in (*charges[seen.charges :], *answered)):
                return False
        self._writer = client
        return self.on_snapshot(client)

    def on_read(self, client: Connection, kind: type[Record], start: int, end: int) -> _Table:
        table = [*self._table(kind)]
        if self._writer is client:
            for record in self._pending:
                if isinstance(record, kind):
                    self._add(table, record)
            end = len(table)
        return table[start:end]

    def on_append(self, client: Connection, record: Record) -> Position:
        table = [*self._table(type(record))]
        for pending in self._pending:
            if isinstance(pending, type(record)):
                self._add(table, pending)
        self._pending.append(record)
        return self._add(table, record)

    def on_keep(self, _: Connection) -> None:
        self._kept = len(self._pending)

    def on_commit(self, client: Connection) -> int:
        return self._apply(client, len(self._pending))

    def on_rollback(self, client: Connection) -> int:
        return self._apply(client, self._kept)

    def on_hold(self, client: Connection, charge_id: int) -> None:
        self._held[client, charge_id] += 1

    def on_let_go(self, client: Connection, charge_id: int) -> None:
        self._held[client, charge_id] -= 1

    def on_is_held(self, _: Connection, charge_id: int) -> bool:
        return any(n > 0 and key[1] == charge_id for key, n in self._held.items())

    def on_checkpoint(self, _: Connection) -> bytes | None:
        return self._checkpoint

    def on_write_checkpoint(self, _: Connection, content: bytes) -> None:
        self._checkpoint = content


class _View:
    """A `Snapshot` or a `Transaction`, on one connection for all of its time."""

    def __init__(self, store: RemoteStore, begun: tuple[int, dict[type[Record], int]]) -> None:
        self._store, self._connection = store, store.connection
        self.version: int | None
        self.version, self._ends = begun

    def call(self, asked: str, *arguments: Any) -> Any:
        if self._store.connection is not self._connection:
            raise self._store.lost()
        return self._store.call(asked, *arguments)

    def after(
        self, kind: type[R], seen: Position = START, most: int = -1, seal: object = None
    ) -> Iterator[tuple[R, Position]]:
        end = max(self._ends.get(kind, 0), seen.number)
        if most >= 0:
            end = min(end, seen.number + most)
        if seen.number and not self.outcome(kind, seen):
            raise LedgerError("the ledger remote has lost or altered charges")
        found = self.call("read", kind, seen.number, end)
        for record, position in found[: most if most >= 0 else None]:
            seen = Position(seen.number + 1, linked(seen.chain, seen.number + 1, *record))
            if seen != position:
                raise LedgerError("the ledger remote has lost or altered charges")
            yield record, seen

    def seal(self, kind: type[Record], seen: Position, number: int) -> None:
        """None is kept: each chain is computed again."""

    def end(self, kind: type[Record]) -> Position:
        number = self._ends.get(kind, 0)
        return self.call("read", kind, number - 1, number)[0][1] if number else START

    def outcome(self, kind: type[Record], position: Position) -> bool:
        found = self.call("read", kind, position.number - 1, position.number)[:1]
        return [end for _, end in found] == [position]

    def history(self, table: str | None, after: int, through: int) -> list[Entry]:
        return [
            Entry(
                end.number, dt.datetime.fromisoformat(one.time), one.analyst, one.table, one.sql,
                one.mechanism, from_units(one.cost), one.measure, one.height,
            )
            for one, end in self.after(ChargeRecord)
            if table in (None, one.table) and after < end.number <= through
        ]  # fmt: skip

    def charged_tables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for one, _ in self.after(ChargeRecord):
            found.setdefault(one.table, one.time)
        return found

    def append(self, record: Record) -> Position:
        end: Position = self.call("append", record)
        return end

    def keep(self) -> None:
        self.call("keep")


class RemoteStore(LedgerStore):
    """A connection to a `Server`. ``fault`` is called before each request is sent, and before its
    reply is received, with a number and the request's name: an error loses the connection."""

    name = label = "remote"

    def __init__(self, address: str) -> None:
        self._address, self._pid = address, os.getpid()
        self._lock, self._numbers = threading.RLock(), itertools.count()
        self.fault: Fault = lambda number, asked: None
        self.connection: Connection | None = None
        self._inside: _View | None = None
        self.secret = self.call("secret")

    def lost(self) -> LedgerError:
        return LedgerError(f"the connection to the ledger {self.label} was lost")

    def lose(self) -> None:
        """Lose the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def call(self, asked: str, *arguments: Any) -> Any:
        with self._lock, ExitStack() as failed:
            failed.callback(self.lose)
            try:
                if self.connection is None:
                    self.connection = Client(self._address, family="AF_UNIX")
                self.fault(next(self._numbers), asked)
                self.connection.send((asked, *arguments))
                self.fault(next(self._numbers), asked)
                reply = self.connection.recv()
            except (OSError, EOFError) as error:
                raise self.lost() from error
            failed.pop_all()
            return reply

    @contextmanager
    def _entered(self, view: _View) -> Iterator[None]:
        self._inside = view
        try:
            yield
        finally:
            self._inside = None

    @contextmanager
    def snapshot(self) -> Iterator[_View]:
        if self._inside is not None:
            yield self._inside
            return
        deadline.check()
        view = _View(self, self.call("snapshot"))
        with self._entered(view):
            yield view

    @contextmanager
    def transaction(self, expected: Mapping[str, Seen] | None = None) -> Iterator[_View]:
        while (begun := self.call("begin", expected or {})) is None:
            deadline.check()
            time.sleep(0.001)
        if begun is False:
            raise LedgerAdvanced
        view = _View(self, begun)
        view.version = None
        with ExitStack() as failed:
            failed.callback(self._roll_back, view)
            with self._entered(view):
                yield view
                version = view.call("commit")
            failed.pop_all()
        view.version = version

    def _roll_back(self, view: _View) -> None:
        with suppress(LedgerError):
            view.call("rollback")

    def version(self) -> int | None:
        if os.getpid() != self._pid:
            raise LedgerError(f"the ledger {self.label} was opened by another process")
        number: int = self.call("version")
        return number

    def position(self) -> int | None:
        return None

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def hold(self, charge_id: int) -> None:
        with suppress(LedgerError):
            self.call("hold", charge_id)

    def let_go(self, charge_id: int) -> None:
        with suppress(LedgerError):
            self.call("let_go", charge_id)

    def is_held(self, charge_id: int) -> bool:
        with suppress(LedgerError):
            return bool(self.call("is_held", charge_id))
        return False

    has_checkpoint = True

    def checkpoint(self) -> bytes | None:
        content: bytes | None = self.call("checkpoint")
        return content

    def write_checkpoint(self, parts: Iterable[bytes | memoryview]) -> None:
        with suppress(LedgerError):
            self.call("write_checkpoint", b"".join(parts))

    def close(self) -> None:
        self.lose()
