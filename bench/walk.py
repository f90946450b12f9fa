"""How far a statement walks: Python calls, files and changes of room.

A call is that of a function of the package. The room changes where a function of another folder of
the package is called than by the last call of the thread. Unless it is the first of its kind,
statements like the one that is counted have been answered before, so that imports, caches and
templates are as they are in use. The numbers do not depend on the machine's speed.

    make bench NAME=walk
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg

import tallyveil
from bench.house import made
from bench.measure import report
from tallyveil.gate import Gate
from tallyveil.policy import load_policy
from tallyveil.proxy import Server, ServerThread, Trust

PACKAGE = str(Path(tallyveil.__file__).parent)
WARMING = 5

COUNT = "SELECT count(*) FROM person WHERE a < {n} AND b >= {n}"
GROUPS = "SELECT b, count(*) FROM person WHERE a < {n} AND d < 5 GROUP BY b"
STATEMENTS = {"fresh count": COUNT, "fresh GROUP BY, 100 groups": GROUPS}
BOUGHT = "SELECT a, count(*) FROM person WHERE b < {n} GROUP BY a"
FREE = "SELECT a, count(*) AS n FROM person WHERE b < {n} GROUP BY a"


class Walk:
    """Counts what all threads started after it execute, while it is ``on``."""

    def __init__(self) -> None:
        self.on = False
        self.calls: Counter[str] = Counter()
        self.changes = 0
        self._rooms: dict[str, str | None] = {}
        self._last: dict[int, str] = {}
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def _room(self, frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        if path not in self._rooms:
            inside = path.startswith(PACKAGE)
            self._rooms[path] = path[len(PACKAGE) + 1 :].split("/")[0] if inside else None
        return self._rooms[path]

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.on or event != "call" or (room := self._room(frame)) is None:
            return
        self.calls[frame.f_code.co_filename] += 1
        thread = threading.get_ident()
        self.changes += self._last.get(thread) != room
        self._last[thread] = room

    @contextmanager
    def counted(self, case: str, where: str) -> Iterator[None]:
        self.calls.clear()
        self.changes, self.on = 0, True
        try:
            yield
        finally:
            self.on = False
        knowledge = sum(n for path, n in self.calls.items() if f"{PACKAGE}/knowledge/" in path)
        report(
            case=case,
            where=where,
            files=len(self.calls),
            room_changes=self.changes,
            calls=self.calls.total(),
            calls_in_knowledge=knowledge,
        )


def walked(walk: Walk, ask: Callable[[str], object], where: str) -> None:
    """Report a statement of a new kind, some asked after ``WARMING`` like them, and a free one."""
    ask("SELECT c, sum(d) FROM person GROUP BY c")
    with walk.counted("count, the first of its kind", where):
        ask(COUNT.format(n=40))
    for case, statement in STATEMENTS.items():
        for n in range(1, WARMING + 1):
            ask(statement.format(n=n))
        with walk.counted(case, where):
            ask(statement.format(n=WARMING + 1))
    with walk.counted("repeated count", where):
        ask(COUNT.format(n=WARMING + 1))
    for n in range(10, 10 + WARMING):
        ask(BOUGHT.format(n=n))
        ask(FREE.format(n=n))
    ask(BOUGHT.format(n=20))
    with walk.counted("free GROUP BY, 50 groups", where):
        ask(FREE.format(n=20))


def main() -> None:
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        policy = made(Path(folder), 10_000, 50, 100)
        with tallyveil.connect(policy) as connection:
            walked(walk, lambda sql: connection.execute(sql).fetchall(), "in process")
    with tempfile.TemporaryDirectory() as folder:
        policy = made(Path(folder), 10_000, 50, 100)
        with closing(Gate(load_policy(policy))) as gate:
            server = Server(gate.session, port=0, auth=Trust())
            with (
                ServerThread(server) as running,
                psycopg.connect(
                    f"postgresql://alice@127.0.0.1:{running.port}/people", autocommit=True
                ) as client,
            ):
                walked(walk, lambda sql: client.execute(sql).fetchall(), "over the wire")


if __name__ == "__main__":
    main()
