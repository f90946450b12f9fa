"""Run a `Server` until it ends: in the foreground, or in a thread for tests and demos."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, Self, TypeVar

from tallyveil.events import report
from tallyveil.proxy.housekeeping import short_pauses
from tallyveil.proxy.processes import WorkerSupervisor
from tallyveil.proxy.server import Server

__all__ = ["ServerThread", "leave", "run"]


R = TypeVar("R", Server, WorkerSupervisor)


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # which only servers need

    return uvloop.new_event_loop()


def run(
    server: R,
    *,
    ready: Callable[[R], None] | None = None,
    reload: Callable[[], None] = lambda: report("nothing to reload"),
    ending: Callable[[], None] = lambda: None,
) -> bool:
    """Serve until SIGINT or SIGTERM, then shut down cleanly. Calls ``ready`` once it listens,
    ``ending`` at the first of these signals, and ``reload`` at each SIGHUP, on a thread of its own.

    Returns whether all statements have ended. If not, one cannot be stopped, and its thread keeps
    the process alive: `leave` ends it.

    Raises OSError if it cannot listen on the address.
    """

    async def main() -> None:
        loop = asyncio.get_running_loop()
        # A worker reports that it is ready while it starts. A reload may follow at once.
        loop.add_signal_handler(signal.SIGHUP, loop.run_in_executor, None, reload)
        await server.start()
        closing: list[asyncio.Task[None]] = []

        def stop() -> None:
            if not closing:
                ending()
                closing.append(loop.create_task(server.close()))

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        if ready is not None:
            ready(server)
        await server.serve_forever()

    with short_pauses(), asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(main())
    return not server.busy


def leave() -> NoReturn:
    """End the process at once. What is committed to the ledger survives, as after any crash."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


class ServerThread:
    """A server on an event loop and thread of its own; a context manager.

    Entering returns once the server listens, and raises what `Server.start` raises.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._ready = threading.Event()
        self._failure: OSError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="tallyveil-server", daemon=True)

    @property
    def port(self) -> int:
        return self.server.port

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def close(self) -> None:
        """Stop the server and wait for it. May be called twice."""
        if self._loop is not None and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self.server.close(), self._loop).result()
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self.server.start()
        except OSError as error:
            self._failure = error
            return
        finally:
            self._ready.set()
        await self.server.serve_forever()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
