"""Keeps a catalog running: starts it beside the server, and again whenever it ends."""

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
from tallyveil.catalog.schema import Statements
from tallyveil.errors import StatementTooComplex, TallyveilError
from tallyveil.events import report

__all__ = ["CatalogSupervisor"]

PATIENCE: Final = 10.0
"""Seconds that a statement waits for a catalog that is about to start."""

LOOK: Final = 0.1
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 60.0
"""Seconds between two looks whether it runs; before it is started again, twice that each time it
ends at once."""

SETTLED: Final = 30.0
SOON: Final = 1.0
"""Seconds that it has to run to be sound, and in which statements wait for it to be there again."""


class CatalogSupervisor:
    """``setup`` are the statements that fill it, made in its own thread, which also starts the
    processes: with that thread, and so with this process, they end.
    """

    def __init__(self, binaries: Binaries, setup: Iterable[Statements]) -> None:
        self._binaries = binaries
        self._setup = setup
        self._cluster: Cluster | None = None
        self._running = False
        self._settled = threading.Event()  # that it runs, or does not
        self._closing = threading.Event()
        self._why: str | None = None
        self._thread = threading.Thread(target=self._run, name="tallyveil-catalog", daemon=True)

    def start(self) -> None:
        """Return at once."""
        self._thread.start()

    def address(self) -> str:
        """The path of its socket. Waits while it starts; raises CatalogError if it does not in
        time, and QueryCanceled."""
        until = time.monotonic() + PATIENCE
        with contextlib.suppress(StatementTooComplex):  # it is no fault of the question's
            while not self._settled.wait(LOOK) and time.monotonic() < until:
                deadline.check()
        if not self._running or self._cluster is None:
            raise unavailable(self._why or "it is still starting")
        return self._cluster.socket

    def close(self) -> None:
        """End it, and remove what it kept."""
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
            lasted, why = 0.0, "it has ended, and is started again"
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
        """Seconds until it has ended, or is to."""
        seconds = 0.0
        while cluster.running and not self._closing.wait(LOOK):
            seconds += LOOK
        return seconds

    def _answers(self, cluster: Cluster, database: str) -> Iterator[bool]:
        while not self._closing.is_set():
            try:
                CatalogLink(cluster.socket, SUPERUSER, database).close()
                yield True
            except (CatalogError, Failed):
                yield False

    def _fill(self, socket: str) -> None:
        with contextlib.closing(CatalogLink(socket, SUPERUSER, TEMPLATE)) as link:
            run(link, f"CREATE ROLE {EVERYBODY} LOGIN", PATIENCE)
            for alternatives in self._setup:
                _first(link, alternatives)
            # So that who connects to postgres, as tools do at first, has a copy of that name.
            run(link, f"ALTER DATABASE postgres RENAME TO {ADMINISTRATION}", PATIENCE)
        with contextlib.closing(CatalogLink(socket, SUPERUSER, ADMINISTRATION)) as link:
            for statement in making(DATABASE):
                run(link, statement, PATIENCE)


def _first(link: CatalogLink, alternatives: Statements) -> None:
    """Run the first that works; the last has to."""
    for statement in alternatives[:-1]:
        try:
            run(link, statement, PATIENCE)
            return
        except CatalogError:
            continue
    run(link, alternatives[-1], PATIENCE)
