"""The supervisor: opens the port, starts the workers, and replaces those that die."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallyveil.events import report
from tallyveil.proxy.admission.connection_slots import ConnectionSlots, shared_file
from tallyveil.proxy.admission.port_listener import listen
from tallyveil.proxy.admission.server_limits import ServerLimits

__all__ = ["WorkerFailed", "WorkerSupervisor"]

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
"""Seconds before a worker that died is replaced: the first pause, doubled each time up to the
longest."""

STEADY: Final = 60.0
"""Seconds that a worker must run for its replacement to wait only for the first pause again."""

GRACE: Final = 4.0
"""Seconds that workers get to end."""


class WorkerFailed(Exception):
    """A worker died at the start. It has written the reason to standard error."""


@dataclass(eq=False)
class _Worker:
    """One worker process, and our end of the socket between it and us."""

    number: int
    process: asyncio.subprocess.Process
    end: socket.socket
    ready: bool = False
    must_reload: bool = False

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


class WorkerSupervisor:
    """``count`` workers that serve ``host`` and ``port``. Each is a process that runs ``command``;
    its last argument is the descriptor of its end of a socket to the supervisor. It reads ``job``
    as JSON from standard input, with what a `WorkerListener` needs added: its ``worker`` number,
    the ``port``, and the descriptors of the ``sockets`` that listen there, of the shared ``slots``,
    and of the pipes for cancel requests to each worker: to read ``requests``, to ``forward`` them.

    The supervisor has the methods of a `Server` that `run` needs.
    """

    def __init__(
        self,
        command: Sequence[str],
        job: Mapping[str, Any],
        count: int,
        host: str,
        port: int,
        limits: ServerLimits,
    ) -> None:
        self.host = host
        self._command, self._job, self._count = tuple(command), dict(job), count
        self._requested_port = port
        self._limits = limits
        self._workers: dict[int, _Worker] = {}
        self._sockets: list[socket.socket] = []
        self._pipes: list[tuple[int, int]] = []
        self._started = self._declared = False
        self._closed: asyncio.Event | None = None
        self._keep_tasks: list[asyncio.Task[None]] = []
        self.busy = False

    async def start(self) -> None:
        """Listen, and start the workers. The first starts alone and creates the files that all
        need. Until all are ready clients wait in the operating system's queue: those that the first
        accepted would stay with it, and the others start late while it works for them.

        Raises OSError if it cannot listen on the address, and WorkerFailed if a worker dies before
        it is ready.
        """
        self._loop = asyncio.get_running_loop()
        self._sockets = listen(self.host, self._requested_port)
        self._file = shared_file()
        self._slots = ConnectionSlots(self._limits, 0, self._file)
        self._pipes = [os.pipe() for _ in range(self._count + 1)]
        for descriptor in itertools.chain(*self._pipes):
            os.set_blocking(descriptor, False)
        self._closed = asyncio.Event()
        first, *others = [
            (number, self._loop.create_future()) for number in range(1, self._count + 1)
        ]
        async with contextlib.AsyncExitStack() as failed:
            failed.push_async_callback(self.close)
            for group in ([first], others):
                self._keep_tasks += [self._loop.create_task(self._keep(*each)) for each in group]
                await asyncio.gather(*(ready for _, ready in group))
            failed.pop_all()
        self._started = True
        self._begin([worker for worker in self._workers.values() if worker.ready])
        report("listening", host=self.host, port=self.port, workers=self._count)

    @property
    def port(self) -> int:
        number: int = self._sockets[0].getsockname()[1]
        return number

    async def serve_forever(self) -> None:
        """Return after `close` was called and every worker has ended."""
        if self._closed is not None:
            await self._closed.wait()

    async def close(self) -> None:
        """Stop listening and end the workers; kill those that still run after `GRACE` seconds."""
        for listening in self._sockets:
            listening.close()
        for keeper in self._keep_tasks:
            keeper.cancel()
        workers = tuple(self._workers.values())
        for worker in workers:
            worker.signal(signal.SIGTERM)
        ends = [self._loop.create_task(worker.process.wait()) for worker in workers]
        if ends:
            _, late = await asyncio.wait(ends, timeout=GRACE)
            for worker in workers if late else ():
                worker.signal(signal.SIGKILL)
            await asyncio.wait(ends)
        for worker in workers:
            self._forget(worker)
        for descriptor in itertools.chain(*self._pipes):
            os.close(descriptor)
        self._pipes = []
        os.close(self._file)
        if self._closed is not None:
            self._closed.set()

    def reload(self) -> None:
        """Have each worker read users and certificates again. Any thread may call this."""
        self._loop.call_soon_threadsafe(self._reload)

    def _reload(self) -> None:
        for worker in self._workers.values():
            if worker.ready:
                worker.signal(signal.SIGHUP)
            else:  # it may have read them already, but cannot handle a signal yet
                worker.must_reload = True

    # Workers

    async def _keep(self, number: int, ready: asyncio.Future[None]) -> None:
        """Keep a worker of this number running for as long as the supervisor runs."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            worker = await self._launch(number)
            following = self._loop.create_task(self._follow(worker, ready))
            try:
                status = await worker.process.wait()
                await asyncio.wait([following], timeout=GRACE)  # it may have said that it is ready
            finally:
                following.cancel()
            self._forget(worker)
            if not ready.done():
                ready.set_exception(WorkerFailed())
                return
            if time.monotonic() - began > STEADY:
                pause = FIRST_PAUSE
            report("worker ended", level=logging.ERROR, worker=number, status=status, pause=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _launch(self, number: int) -> _Worker:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        sockets = [listening.fileno() for listening in self._sockets]
        passed = [theirs.fileno(), self._file, *sockets, *itertools.chain(*self._pipes)]
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(theirs.fileno()),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=passed,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            )
        worker = self._workers[number] = _Worker(number, process, ours)
        # One worker, once, lets the budgets of the policy hold as it was read at the start.
        budgets = "recorded" if self._declared else "declared"
        self._declared = True
        requests, forward = zip(*self._pipes, strict=True)
        job = self._job | {"worker": number, "port": self.port, "budgets": budgets}
        job |= {"sockets": sockets, "slots": self._file}
        job |= {"requests": requests, "forward": forward}
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # the worker may have died already
                process.stdin.write(json.dumps(job).encode())
                await process.stdin.drain()
                process.stdin.close()
        return worker

    async def _follow(self, worker: _Worker, ready: asyncio.Future[None]) -> None:
        """Let a worker that is ready accept clients, once all are. When it has closed its end of
        the socket, kill it after `GRACE` seconds unless it ends."""
        with contextlib.suppress(OSError):
            if await self._loop.sock_recv(worker.end, 1):
                worker.ready = True
                report("worker ready", worker=worker.number, process=worker.process.pid)
                if worker.must_reload:
                    worker.signal(signal.SIGHUP)
                if not ready.done():
                    ready.set_result(None)
                if self._started:
                    self._begin([worker])
                await self._loop.sock_recv(worker.end, 1)
        worker.ready = False
        self._slots.end(worker.number)
        self._loop.call_later(GRACE, worker.signal, signal.SIGKILL)

    def _begin(self, workers: Sequence[_Worker]) -> None:
        """Let workers that are ready accept clients."""
        for worker in workers:
            self._slots.begin(worker.number)  # all, before the first accepts
        for worker in workers:
            with contextlib.suppress(OSError):  # the worker may have died already
                worker.end.send(b"\1")

    def _forget(self, worker: _Worker) -> None:
        """The worker and all its connections have ended: release their places."""
        worker.ready = False
        worker.end.close()
        self._slots.forget(worker.number)
        if self._workers.get(worker.number) is worker:
            del self._workers[worker.number]
