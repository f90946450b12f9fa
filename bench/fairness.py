"""How long a cached count of one analyst takes beside what another analyst does.

A table of four attributes (110 × 240 × 2 × 10 values). One analyst asks the same count again and
again, a pause between two; every answer but the first comes from history. Beside that, one case
after another:

- `alone`: nothing;
- `490 sums`: another analyst sends statements of 490 different sums;
- `26,400 groups`: another analyst sends GROUP BY of 26,400 groups;
- `4 connections of groups`: another analyst does so on four connections;
- `half-widths`: another analyst sends GROUP BY of 2,200 groups for a half-width;
- `16 heavy connections`: another analyst sends both kinds on 16 connections;
- `199 half-open sockets`: as many sockets send a byte of a startup packet now and then, and 24
  newcomers connect meanwhile, each of whom asks the count once.

Heavy statements are all fresh, so that each is planned, bought and released. The cases share a
ledger, so that each has the answers of those before in its history. ``finished`` says how many of
them were answered within the case's time, ``failed`` how many were refused or timed out, and
``refused`` how many newcomers found no place.

``longest_ms`` is the longest collection of garbage, which stops all threads of the server, and
``longest_full_ms`` the longest full one, in processor time, so that other programs on the machine
count little; the aim is 50 ms. ``times_alone`` is the 99th percentile as a multiple of that of the
case alone, in the same run. After each count the analyst sends SELECT 1, whose 99th percentile is
``wait_p99_ms``: what is waited, without the count's own work, which looks at what was bought
meanwhile.

    make bench NAME=fairness
    LENGTH=60 make bench NAME=fairness            seconds of each case
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from bench.house import made, pauses, served
from bench.measure import clocked, percentiles, report

LENGTH: Final = float(os.environ.get("LENGTH", "20"))
ROWS: Final = int(os.environ.get("ROWS", "200000"))
PAUSE: Final = 0.02
CACHED: Final = b"SELECT count(*) FROM person WHERE a < 30 AND c = 'F'"


def sums() -> Iterator[str]:
    """490 sums over the records that some constants choose, others in each statement."""
    for a in itertools.cycle(range(20, 110)):
        items = ", ".join(f"sum(CASE WHEN b < {n % 230 + 5} THEN d + {n} END)" for n in range(490))
        yield f"SELECT {items} FROM person WHERE a < {a}"


def groups() -> Iterator[str]:
    for d in itertools.cycle(range(1, 10)):
        yield f"SELECT a, b, count(*) FROM person WHERE d <> {d} GROUP BY a, b"


def half_widths() -> Iterator[str]:
    yield "SET dp.source = auto"
    for n in itertools.count():
        yield f"SET dp.half_width = {400 - n % 300}"
        yield "SELECT a, d, count(*) FROM person GROUP BY a, d"
        yield f"SELECT a, c, d, count(*) FROM person WHERE b <> {n % 240} GROUP BY a, c, d"


@dataclass
class Load:
    """Connections of one analyst that send one heavy statement after another until they stop."""

    port: int
    statements: list[Callable[[], Iterator[str]]]
    finished: int = 0
    failed: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Load:
        self._open = [self._connect() for _ in self.statements]
        self._sending = [
            threading.Thread(target=self._send, args=(connection, made()), daemon=True)
            for connection, made in zip(self._open, self.statements, strict=True)
        ]
        for thread in self._sending:
            thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for connection in self._open:
            copy = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
            with copy, contextlib.suppress(OSError):
                copy.shutdown(socket.SHUT_RDWR)
        for thread, connection in zip(self._sending, self._open, strict=True):
            thread.join()
            connection.close()

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect(_address(self.port, "heavy"), autocommit=True)
        connection.execute("SET dp.source = fresh")
        return connection

    def _send(
        self, connection: psycopg.Connection[tuple[object, ...]], statements: Iterator[str]
    ) -> None:
        while not self._stopped.is_set():
            try:
                connection.execute(next(statements).encode())
            except psycopg.Error as error:
                if error.sqlstate is None:
                    return
                self.failed += not self._stopped.is_set()
            else:
                self.finished += not self._stopped.is_set()


def _address(port: int, user: str) -> str:
    return f"postgresql://{user}@127.0.0.1:{port}/bench"


@contextmanager
def half_open(port: int, count: int = 199) -> Iterator[None]:
    """Sockets that send a startup packet a byte at a time, and come back when they are closed."""
    packet = struct.pack("!ii", 9_000, 3 << 16) + b"user\0"
    stopped = threading.Event()

    def connect() -> tuple[socket.socket, Iterator[int]]:
        made = socket.create_connection(("127.0.0.1", port), timeout=5)
        return made, itertools.chain(packet, itertools.repeat(ord("x")))

    def trickle() -> None:
        while not stopped.wait(0.5):
            for number, (each, rest) in enumerate(open_ones):
                try:
                    each.sendall(bytes([next(rest)]))
                except OSError:
                    each.close()
                    with contextlib.suppress(OSError):
                        open_ones[number] = connect()

    open_ones = [connect() for _ in range(count)]
    sending = threading.Thread(target=trickle, daemon=True)
    sending.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        stopped.set()
        sending.join()
        for each, _ in open_ones:
            each.close()


def cached(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, float]:
    """Of a cached count every now and then for the length of a case, and of SELECT 1 after it."""
    times: list[float] = []
    waits: list[float] = []
    end = time.monotonic() + LENGTH
    while time.monotonic() < end:
        for own, sql in ((times, CACHED), (waits, b"SELECT 1")):
            clocked(own, lambda sql=sql: connection.execute(sql).fetchall())
            time.sleep(PAUSE)
    return percentiles(times) | {"wait_p99_ms": percentiles(waits)["p99_ms"]}


def newcomers(port: int, count: int = 24) -> tuple[list[float], int]:
    """Milliseconds from connecting to the cached answer, and how many were not let in."""
    times: list[float] = []
    refused = 0

    def come() -> None:
        with psycopg.connect(_address(port, "newcomer"), connect_timeout=5) as connection:
            connection.execute(CACHED).fetchall()

    for _ in range(count):
        try:
            clocked(times, come)
        except psycopg.OperationalError:
            refused += 1
    return times, refused


def heavy(port: int, name: str) -> AbstractContextManager[Load | None]:
    loads = {
        "490 sums": [sums],
        "26,400 groups": [groups],
        "4 connections of groups": [groups] * 4,
        "half-widths": [half_widths],
        "16 heavy connections": [sums, groups] * 8,
    }
    return Load(port, loads[name]) if name in loads else nullcontext()


CASES: Final = (
    "alone",
    "490 sums",
    "26,400 groups",
    "4 connections of groups",
    "half-widths",
    "16 heavy connections",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        policy = made(Path(name), ROWS)
        alone = float("nan")
        for case in CASES:
            with served(policy) as (port, _):
                figures = _heavy_case(port, case)
            alone = figures["p99_ms"] if case == "alone" else alone
            ratio = round(figures["p99_ms"] / alone, 2)
            figures |= {"times_alone": ratio, **pauses(policy)}
            report(bench="fairness", case=case, **figures)
        with served(policy) as (port, _):
            _half_open_case(port)


def _heavy_case(port: int, case: str) -> dict[str, float]:
    with psycopg.connect(_address(port, "light"), autocommit=True) as connection:
        connection.execute(CACHED).fetchall()
        with heavy(port, case) as load:
            times = cached(connection)
            finished, failed = (0, 0) if load is None else (load.finished, load.failed)
    return times | {"finished": finished, "failed": failed}


def _half_open_case(port: int) -> None:
    with psycopg.connect(_address(port, "light"), autocommit=True) as connection:
        connection.execute(CACHED).fetchall()
        with half_open(port):
            found, refused = newcomers(port)
            times = cached(connection)
    report(bench="fairness", case="199 half-open sockets", **times, finished=0)
    figures = percentiles(found) if found else {}
    report(bench="fairness", case="newcomers beside them", **figures, refused=refused)


if __name__ == "__main__":
    main()
