"""The entrance of a worker: the supervisor passes it the sockets of its clients."""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Final

from tallyveil.proxy.errors import AdminShutdown, TooManyConnections
from tallyveil.proxy.processes.link import LinkMessage, WorkerLink

__all__ = ["Assigned"]


class Assigned:
    """The entrance of worker number ``worker``. Its supervisor listens on ``port`` and has the
    other end of the socket ``end``. If the supervisor ends, the worker ends itself by SIGTERM.

    The methods are those of `admission.entrance.Listening`.
    """

    def __init__(self, worker: int, port: int, end: socket.socket) -> None:
        self.worker = worker
        self.port = port
        self._end: Final = end
        self._lock = threading.Lock()
        self._pending: dict[int, Future[str]] = {}
        self._numbers = itertools.count()
        self._closed = False
        self._connecting: set[asyncio.Task[None]] = set()

    async def open(
        self, protocol: Callable[[], asyncio.Protocol], cancel: Callable[[int, bytes], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol, self._cancel = protocol, cancel
        orphaned = partial(signal.raise_signal, signal.SIGTERM)
        self._link = WorkerLink(self._end, self._loop, self._receive, orphaned)
        self._link.send({"is": "ready"})

    def close(self) -> None:
        self._link.close()
        with self._lock:
            self._closed = True
            for answer in self._pending.values():
                answer.cancel()

    def admit(self, user: str, database: str) -> str:
        answer: Future[str] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._closed:
                raise _closing()
            self._pending[number] = answer
        question = {"is": "admit", "number": number, "user": user, "database": database}
        self._loop.call_soon_threadsafe(self._link.send, question)
        try:
            return answer.result()
        except CancelledError:
            raise _closing() from None
        finally:
            with self._lock:
                del self._pending[number]

    def left(self, user: str | None) -> None:
        self._link.send({"is": "left", "user": user})

    def cancel(self, pid: int, secret: bytes) -> None:
        self._link.send({"is": "cancel", "pid": pid, "secret": secret.hex()})

    def _receive(self, message: LinkMessage, passed: socket.socket | None) -> None:
        match message:
            case {"is": "client"} if passed is not None:
                self._begin(passed)
            case {"is": "cancel", "pid": pid, "secret": secret}:
                self._cancel(pid, bytes.fromhex(secret))
            case {"is": "admitted", "number": number, "database": database}:
                self._answer(number, database)
            case {"is": "refused", "number": number, "message": text, "detail": detail}:
                self._answer(number, TooManyConnections(text, detail=detail))

    def _answer(self, number: int, reply: str | TooManyConnections) -> None:
        with self._lock:
            answer = self._pending.get(number)
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if isinstance(reply, str):
            answer.set_result(reply)
        else:
            answer.set_exception(reply)

    def _begin(self, passed: socket.socket) -> None:
        task = self._loop.create_task(self._connect(passed))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, passed: socket.socket) -> None:
        passed.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._protocol, passed)
        except OSError:  # the client has left meanwhile
            passed.close()
            self.left(None)


def _closing() -> AdminShutdown:
    return AdminShutdown("the server is shutting down")
