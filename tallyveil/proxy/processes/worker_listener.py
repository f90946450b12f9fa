"""How clients reach a worker: it accepts them itself, but leaves them to workers with fewer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from tallyveil.events import report
from tallyveil.proxy.admission.connection_slots import ConnectionSlots
from tallyveil.proxy.admission.server_limits import ServerLimits
from tallyveil.proxy.interruption import LONGEST_SECRET, worker_of

__all__ = ["WorkerListener"]

MAX_WAIT: Final = 1.0
LOOK: Final = 0.002
"""Seconds that a worker leaves a client to workers with fewer, which may be busy; and between two
looks whether one of them has accepted it."""

_CANCEL: Final = struct.Struct(f"!IB{LONGEST_SECRET}s")
"""A cancel request in a pipe: small enough to be written at once, whoever else writes there."""


class WorkerListener:
    """The listener of one worker. ``job`` comes from its `WorkerSupervisor`, which has the other
    end of the socket ``end``. If the supervisor ends, the worker ends itself by SIGTERM.

    The methods are those of `admission.port_listener.PortListener`.
    """

    def __init__(self, job: Mapping[str, Any], end: socket.socket, limits: ServerLimits) -> None:
        self.worker: Final[int] = job["worker"]
        self.port: Final[int] = job["port"]
        self.slots: Final = ConnectionSlots(limits, self.worker, job["slots"])
        self._sockets: Final = [socket.socket(fileno=number) for number in job["sockets"]]
        self._requests: Final[int] = job["requests"][self.worker]
        self._forward: Final[dict[int, int]] = dict(enumerate(job["forward"]))
        self._end: Final = end
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(
        self, protocol: Callable[[], asyncio.Protocol], cancel: Callable[[int, bytes], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol, self._cancel = protocol, cancel
        self._loop.add_reader(self._requests, self._read_requests)
        for one in (self._end, *self._sockets):
            one.setblocking(False)
        self._run(self._follow())

    def close(self) -> None:
        self.slots.end(self.worker)
        for task in self._tasks:
            task.cancel()
        self._loop.remove_reader(self._requests)
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        with contextlib.suppress(OSError):  # the supervisor has ended
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()

    def left(self) -> None:
        self.slots.count(-1)

    def cancel(self, pid: int, secret: bytes) -> None:
        pipe = self._forward.get(worker_of(pid))
        if pipe is not None and len(secret) <= LONGEST_SECRET:
            with contextlib.suppress(OSError):  # a worker that reads no requests gets no more
                os.write(pipe, _CANCEL.pack(pid, len(secret), secret))

    def _read_requests(self) -> None:
        for pid, size, secret in _CANCEL.iter_unpack(os.read(self._requests, 64 * _CANCEL.size)):
            self._cancel(pid, secret[:size])

    async def _follow(self) -> None:
        """Accept clients from the supervisor's word on, until it ends."""
        with contextlib.suppress(OSError):
            await self._loop.sock_sendall(self._end, b"\1")
            if await self._loop.sock_recv(self._end, 1):
                for listening in self._sockets:
                    self._run(self._accept_all(listening))
                await self._loop.sock_recv(self._end, 1)
        signal.raise_signal(signal.SIGTERM)

    async def _accept_all(self, listening: socket.socket) -> None:
        waiting, readable = select.poll(), asyncio.Event()
        waiting.register(listening, select.POLLIN)
        while True:
            self._loop.add_reader(listening, readable.set)
            await readable.wait()
            self._loop.remove_reader(listening)
            readable.clear()
            until = self._loop.time() + MAX_WAIT
            while self.slots.others_have_fewer() and waiting.poll(0) and self._loop.time() < until:
                await asyncio.sleep(LOOK)
            try:
                client, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                continue  # another worker has accepted it, or it has left
            except OSError as error:  # too many open files, for example
                report("cannot accept", level=logging.ERROR, error=type(error).__name__)
                await asyncio.sleep(1.0)
                continue
            self.slots.count(1)
            self._run(self._connect(client))

    async def _connect(self, client: socket.socket) -> None:
        client.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._protocol, client)
        except OSError:  # the client has left meanwhile
            client.close()
            self.left()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
