"""Keep a catalog running: start it beside the server, and restart it whenever it ends."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

from tallyveil import deadline
from tallyveil.catalog.binaries import Binaries, NoPostgreSQL
from tallyveil.catalog.cluster import Cluster, sweep
from tallyveil.catalog.link import CatalogError, CatalogLink, Failed, run, unavailable
from tallyveil.catalog.pool import ADMINISTRATION, DATABASE, EVERYBODY, SUPERUSER, TEMPLATE, making
from tallyveil.errors import StatementTooComplex, TallyveilError
from tallyveil.events import report

__all__ = ["CatalogSupervisor"]

MAX_WAIT: Final = 10.0
"""Seconds that a statement waits for a catalog that is about to start."""

LOOK: Final = 0.1
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 60.0
"""Seconds: between two checks whether it runs; from its end to a restart, doubled each time it ends
early, up to the longest."""

SETTLED: Final = 30.0
SOON: Final = 1.0
"""Seconds: how long it must run for the next restart to be quick again; statements wait for a
restart if the pause before it is shorter than this."""


class CatalogSupervisor:
    """A thread that runs a catalog. ``setup`` yields the statements that fill it; the thread
    iterates over it. The thread also starts the processes, so that they end with it, and with this
    process.
    """

    def __init__(self, binaries: Binaries, setup: Iterable[str]) -> None:
        self._binaries = binaries
        self._setup = setup
        self._cluster: Cluster | None = None
        self._running = False
        self._settled = threading.Event()  # set unless it is starting
        self._closing = threading.Event()
        self._why: str | None = None
        self._thread = threading.Thread(target=self._run, name="tallyveil-catalog", daemon=True)

    def start(self) -> None:
        """Start the catalog; does not wait until it runs."""
        self._thread.start()

    def address(self) -> str:
        """The path of the catalog's socket. Waits while it starts. Raises CatalogError if it does
        not start in time, and QueryCanceled."""
        until = time.monotonic() + MAX_WAIT
        # A time limit reached here is the catalog's fault, so it is reported as unavailable below.
        with contextlib.suppress(StatementTooComplex):
            while not self._settled.wait(LOOK) and time.monotonic() < until:
                deadline.check()
        if not self._running or self._cluster is None:
            raise unavailable(self._why or "it is still starting")
        return self._cluster.socket

    def close(self) -> None:
        """End the catalog and remove its files."""
        self._closing.set()
        if self._cluster is not None:
            self._cluster.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            sweep()
            self._supervise()
        except NoPostgreSQL as error:
            self._fail(str(error))
        except (OSError, subprocess.SubprocessError, Failed, TallyveilError) as error:
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            self._running = False
            self._settled.set()
            if self._cluster is not None:
                self._cluster.stop()
                self._cluster.remove()

    def _fail(self, why: str) -> None:
        self._why = why
        self._running = False
        if self._closing.is_set():
            return
        report("no catalog", level=logging.WARNING, reason=why)

    def _supervise(self) -> None:
        cluster = self._cluster = Cluster(self._binaries)
        cluster.make()
        pause, fill = FIRST_PAUSE, True
        while not self._closing.is_set():
            lasted, why = 0.0, "it ended and is being restarted"
            try:
                cluster.start(self._answers(cluster, TEMPLATE if fill else ADMINISTRATION))
                if fill:
                    self._fill(cluster.socket)
                    fill = False
                self._running = True
                self._settled.set()
                report("catalog started", version=self._binaries.version)
                lasted = self._watch(cluster)
            except NoPostgreSQL as error:
                why = str(error)
            pause = FIRST_PAUSE if lasted > SETTLED else min(2 * pause, LONGEST_PAUSE)
            if pause < SOON:
                self._settled.clear()
            self._fail(why)
            if pause >= SOON:
                self._settled.set()
            self._closing.wait(pause)

    def _watch(self, cluster: Cluster) -> float:
        """Wait until it has ended, or `close` was called. Returns the seconds that it ran."""
        seconds = 0.0
        while cluster.running and not self._closing.wait(LOOK):
            seconds += LOOK
        return seconds

    def _answers(self, cluster: Cluster, database: str) -> Iterator[bool]:
        """Yield, at each call, whether a connection can be made."""
        while not self._closing.is_set():
            try:
                CatalogLink(cluster.socket, SUPERUSER, database).close()
                yield True
            except (CatalogError, Failed):
                yield False

    def _fill(self, socket: str) -> None:
        with contextlib.closing(CatalogLink(socket, SUPERUSER, TEMPLATE)) as link:
            run(link, f"CREATE ROLE {EVERYBODY} LOGIN", MAX_WAIT)
            for statement in self._setup:
                run(link, statement, MAX_WAIT)
            # Tools first connect to a database named postgres. The rename lets them have a copy of
            # the template under that name.
            run(link, f"ALTER DATABASE postgres RENAME TO {ADMINISTRATION}", MAX_WAIT)
        with contextlib.closing(CatalogLink(socket, SUPERUSER, ADMINISTRATION)) as link:
            for statement in making(DATABASE):
                run(link, statement, MAX_WAIT)
