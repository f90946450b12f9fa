"""The supervisor: accepts clients, passes them to workers, and replaces workers that die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallyveil.events import report
from tallyveil.proxy.admission.entrance import ConnectionSlots, listen
from tallyveil.proxy.admission.limits import ServerLimits
from tallyveil.proxy.errors import TooManyConnections
from tallyveil.proxy.interruption import worker_of
from tallyveil.proxy.processes.link import LinkMessage, WorkerLink

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


class _Worker:
    """One worker process. ``open`` is the number of its sockets, ``users`` counts those that are
    logged in, by user."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, link: WorkerLink) -> None:
        self.number: Final = number
        self.process: Final = process
        self.link: Final = link
        self.ready = False
        self.must_reload = False
        self.open = 0
        self.users: Counter[str] = Counter()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


class WorkerSupervisor:
    """``count`` workers that serve ``host`` and ``port``. Each is a process that runs ``command``;
    its last argument is the file descriptor of its end of the link. It reads ``job`` as JSON from
    standard input, with its ``worker`` number, the number of ``workers`` and the ``port`` added.

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
        self._places: Final = ConnectionSlots(limits)
        self._workers: dict[int, _Worker] = {}
        self._listeners: list[socket.socket] = []
        self._started = self._accepting = self._closing = False
        self._declared = False
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
        self._listeners = listen(self.host, self._requested_port)
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
        self._accept_again()
        report("listening", host=self.host, port=self.port, workers=self._count)

    @property
    def port(self) -> int:
        number: int = self._listeners[0].getsockname()[1]
        return number

    async def serve_forever(self) -> None:
        """Return after `close` was called and every worker has ended."""
        if self._closed is not None:
            await self._closed.wait()

    async def close(self) -> None:
        """Stop listening and end the workers; kill those that still run after `GRACE` seconds."""
        self._closing = True
        self._stop_accepting()
        for listener in self._listeners:
            listener.close()
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
            worker = await self._launch(number, ready)
            status = await worker.process.wait()
            worker.link.read_rest()
            self._forget(worker)
            if not ready.done():
                ready.set_exception(WorkerFailed())
                return
            if time.monotonic() - began > STEADY:
                pause = FIRST_PAUSE
            report("worker ended", level=logging.ERROR, worker=number, status=status, pause=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _launch(self, number: int, ready: asyncio.Future[None]) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(theirs.fileno()),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            )

        def receive(message: LinkMessage, _: socket.socket | None) -> None:
            if message["is"] == "ready" and not ready.done():
                ready.set_result(None)
            self._receive(worker, message)

        def lost() -> None:
            self._lost(worker)

        link = WorkerLink(ours, self._loop, receive, lost)
        link.when_drained(self._accept_again)
        worker = self._workers[number] = _Worker(number, process, link)
        if process.stdin is not None:
            # One worker, once, lets the budgets of the policy hold as it was read at the start.
            budgets = "recorded" if self._declared else "declared"
            self._declared = True
            own = {"worker": number, "budgets": budgets}
            job = {**self._job, **own, "workers": self._count, "port": self.port}
            with contextlib.suppress(OSError):  # the worker may have died already
                process.stdin.write(json.dumps(job).encode())
                await process.stdin.drain()
                process.stdin.close()
        return worker

    def _receive(self, worker: _Worker, message: LinkMessage) -> None:
        match message:
            case {"is": "ready"}:
                worker.ready = True
                report("worker ready", worker=worker.number, process=worker.process.pid)
                if worker.must_reload:
                    worker.signal(signal.SIGHUP)
                self._accept_again()
            case {"is": "admit", "number": number, "user": user, "database": database}:
                self._admit(worker, number, user, database)
            case {"is": "left", "user": user}:
                worker.open -= 1
                if user is not None:
                    worker.users[user] -= 1
                    self._places.give(user)
            case {"is": "cancel", "pid": pid}:
                other = self._workers.get(worker_of(pid))
                if other is not None:
                    other.link.send(message)

    def _admit(self, worker: _Worker, number: int, user: str, database: str) -> None:
        answer: LinkMessage = {"is": "admitted", "number": number}
        try:
            answer["database"] = self._places.take(user, database)
            worker.users[user] += 1
        except TooManyConnections as error:
            answer |= {"is": "refused", "message": error.message, "detail": error.detail}
        worker.link.send(answer)

    def _lost(self, worker: _Worker) -> None:
        """The link to the worker is lost: give it no more clients, and kill it after `GRACE`
        seconds unless it ends."""
        worker.ready = False
        self._loop.call_later(GRACE, worker.signal, signal.SIGKILL)

    def _forget(self, worker: _Worker) -> None:
        """The worker and all its connections have ended: release their places."""
        worker.ready = False
        worker.link.close()
        for user in worker.users.elements():
            self._places.give(user)
        worker.users.clear()
        if self._workers.get(worker.number) is worker:
            del self._workers[worker.number]

    # Clients

    def _accept_again(self) -> None:
        if self._started and not self._accepting and not self._closing:
            self._accepting = True
            for listener in self._listeners:
                self._loop.add_reader(listener, self._accept, listener)

    def _stop_accepting(self) -> None:
        """Let further clients wait in the operating system's queue."""
        if self._accepting:
            self._accepting = False
            for listener in self._listeners:
                self._loop.remove_reader(listener)

    def _accept(self, listener: socket.socket) -> None:
        worker = self._least_loaded()
        if worker is None:
            self._stop_accepting()
            return
        try:
            client, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # too many open files, for example
            report("cannot accept", level=logging.ERROR, error=type(error).__name__)
            self._stop_accepting()
            self._loop.call_later(1.0, self._accept_again)
            return
        worker.open += 1
        worker.link.send({"is": "client"}, client)

    def _least_loaded(self) -> _Worker | None:
        """The worker with fewest sockets, of those that are ready and whose link is not full."""
        free = (w for w in self._workers.values() if w.ready and not w.link.full)
        return min(free, key=lambda w: w.open, default=None)
