"""How long a statement runs on after its cancel, whatever it is at.

Each statement spends its time in another phase, and is cancelled at random moments, over the wire:
every other one is prepared first, as drivers do, which parses and describes it. What has been
charged is drawn and recorded before the cancel takes effect. Meant are at most 200 ms.

Beside the wall time stands what no other process can add to: what the server's workers computed
between the cancel and the end (`cpu`), and the longest that the statement computes between two
looks at its deadline (`looks`). Of the slowest cancel it says how long its worker waited for a core
(`core`), and the collector stopped all threads (`collector`); the rest it waited for other threads,
the disk, or the watchdog that interrupts DuckDB.

    make bench NAME=cancel
    REPEATS=20 make bench NAME=cancel
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import duckdb
import psycopg
from psycopg.pq import TransactionStatus

from bench.looks import looking, warm_memory
from bench.measure import percentiles, report
from tallyveil import TallyveilError, parse_policy
from tallyveil.gate import Gate
from tallyveil.proxy import Server, ServerThread
from tallyveil.proxy.housekeeping import short_pauses

__all__ = [
    "STATEMENTS",
    "Cancelled",
    "Spent",
    "cancel_after",
    "connected",
    "opened",
    "statement",
]

REPEATS = int(os.environ.get("REPEATS", "8"))

# Within so many seconds of its beginning a statement is cancelled.
_WITHIN: Final = 1.0
_PATIENCE: Final = 120.0

_FILTERS: Final = ", ".join(
    f"count(*) FILTER (WHERE a > {n} AND c < {1 + n % 9})" for n in range(150)
)

# {n} makes each one another statement, which nothing is known of.
STATEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "long disjunction": "SELECT count(*) FROM t WHERE "
        + " OR ".join(f"a = {{n}} AND b = {k}" for k in range(1200)),
        "wide CASE": "SELECT CASE a "
        + " ".join(f"WHEN {k} + 0 * {{n}} THEN 'g{k % 50}'" for k in range(1200))
        + " END, count(*) FROM t GROUP BY 1",
        "chain of common tables": "WITH q0 AS (SELECT a, b FROM t), "
        + ", ".join(f"q{k} AS (SELECT a + 0 AS a, b FROM q{k - 1})" for k in range(1, 60))
        + " SELECT count(*) FROM q59 WHERE a > {n}",
        "domain of 4,000,000 cells": "SELECT sum(sqrt(a * b + {n})) FROM t",
        "classes of 4,000,000 cells": "SELECT count(*) FROM t WHERE "
        + " OR ".join(f"a % {7 + k} = {{n}} AND b > {9 * k}" for k in range(150)),
        "groups of 4,000,000 cells": "SELECT a * b % 9999 + {n}, count(*) FROM t GROUP BY 1",
        "two sums": "SELECT sum(a + {n}), sum(b) FROM t",
        "many filters": f"SELECT {_FILTERS} FROM t WHERE b > {{n}}",
        "20,000 groups": "SELECT a, c, count(*) FROM t WHERE b > {n} GROUP BY a, c",
        "20,000 groups summed up": "SELECT a, c, count(*), dp_interval_low(count(*)) FROM t "
        "WHERE b > {n} GROUP BY ROLLUP (a, c)",
        "20,000 groups of five counts": "SELECT a, c, "
        + ", ".join(f"count(*) FILTER (WHERE b > {k} + {{n}})" for k in range(5))
        + " FROM t GROUP BY a, c",
        "join of noisy rows": "WITH g AS (SELECT a, count(*) AS k FROM t WHERE b > {n} GROUP BY a) "
        "SELECT count(*) FROM g x, g y, g z WHERE x.k + y.k > z.k",
        "EXPLAIN": "EXPLAIN SELECT a, c, sum(b + {n}), sum(b * b) FROM t GROUP BY a, c",
    }
)


@dataclass(frozen=True)
class Cancelled:
    """``latency`` is from the cancel to the end, in seconds; ``error`` None if it ended before.
    ``spent`` is what was spent meanwhile."""

    latency: float
    error: psycopg.Error | None
    spent: Spent


@dataclass(frozen=True)
class Spent:
    """Seconds: the processor's by the server's workers, theirs in wait of a core, and the
    collector's."""

    cpu: float
    core: float
    collector: float

    @classmethod
    def now(cls) -> Spent:
        """So far."""
        workers = [one for one in threading.enumerate() if one.name == "tallyveil-worker"]
        cpu = core = 0.0
        for worker in workers:
            with suppress(OSError):  # of one that has ended meanwhile
                clock = time.pthread_getcpuclockid(worker.ident or 0)
                cpu += time.clock_gettime(clock)
                waited = Path(f"/proc/self/task/{worker.native_id}/schedstat")
                core += int(waited.read_text().split()[1]) / 1e9
        return cls(cpu, core, _collections.seconds)

    def since(self, before: Spent) -> Spent:
        return Spent(
            max(0.0, self.cpu - before.cpu),
            max(0.0, self.core - before.core),
            self.collector - before.collector,
        )


class _Collections:
    """How long the collector has stopped all threads so far, in seconds."""

    def __init__(self) -> None:
        self.seconds = self._began = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Inside; afterwards the interpreter must not keep what this module has imported."""
        gc.callbacks.append(self._called)
        try:
            yield
        finally:
            gc.callbacks.remove(self._called)

    def _called(self, phase: str, info: Mapping[str, int]) -> None:
        now = time.monotonic()
        if phase == "start":
            self._began = now
        else:
            self.seconds += now - self._began


_collections: Final = _Collections()


def opened(base: Path) -> Gate:
    with duckdb.connect(":memory:") as source:
        source.execute(
            "CREATE TABLE t AS SELECT i % 2000 AS a, i * 7 % 2000 AS b, i % 10 AS c "
            "FROM range(20000) r(i)"
        )
        attributes = {name: {"range": [0, most]} for name, most in (("a", 1999), ("b", 1999))}
        attributes["c"] = {"range": [0, 9]}
        table = {"attributes": attributes, "budget": {"epsilon": 10**5}}
        declared = {"tables": {"t": table}, "defaults": {"epsilon": 1.0}}
        return Gate(parse_policy(declared, base=base), source)


def statement(name: str, number: int) -> str:
    return STATEMENTS[name].replace("{n}", str(number))


@contextmanager
def connected(gate: Gate) -> Iterator[psycopg.Connection[Any]]:
    """A client of a server in front of the gate."""
    with (
        _collections.counted(),
        ServerThread(Server(gate.session, port=0)) as server,
        psycopg.connect(
            f"postgresql://analyst@127.0.0.1:{server.port}/t", autocommit=True
        ) as connection,
    ):
        yield connection


def cancel_after(
    connection: psycopg.Connection[Any], sql: str, seconds: float, *, prepare: bool = False
) -> Cancelled:
    """Execute ``sql`` in a thread of its own and cancel it so long after it was sent."""
    done = threading.Event()
    raised: list[psycopg.Error] = []
    ended: list[tuple[float, Spent]] = []

    def execute() -> None:
        try:
            # All its messages at once: a cancel between two of them would find nothing to do.
            with connection.pipeline() if prepare else nullcontext():
                connection.execute(sql, prepare=prepare)
        except psycopg.Error as error:
            raised.append(error)
        finally:
            ended.append((time.monotonic(), Spent.now()))
            done.set()

    worker = threading.Thread(target=execute)
    worker.start()
    while connection.info.transaction_status == TransactionStatus.IDLE and not done.wait(0.001):
        pass
    done.wait(seconds)
    start, before = time.monotonic(), Spent.now()
    connection.cancel_safe()
    worker.join(_PATIENCE)
    if worker.is_alive():
        raise TimeoutError(f"it runs on {_PATIENCE:g} s after a cancel: {sql[:60]}")
    end, after = ended[0]
    error = raised[0] if raised else None
    return Cancelled(max(0.0, end - start), error, after.since(before))


def gaps(gate: Gate, sql: str) -> dict[str, float]:
    """Milliseconds of the processor between two looks of the statement at its deadline."""
    session = gate.session("analyst")
    with closing(session), looking(session) as looks, suppress(TallyveilError):
        (parsed,) = session.parse(sql)
        session.describe(parsed)
        session.execute(parsed)
    return looks.milliseconds()


def main() -> None:
    moments = random.Random()
    number = 0
    warm_memory()
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(opened(Path(directory))) as gate,
        connected(gate) as connection,
        short_pauses(),  # as in `tallyveil serve`: else the collector stops all for 0.3 s at times
    ):
        for name in STATEMENTS:
            found: list[Cancelled] = []
            for _ in range(REPEATS):
                number += 1
                sql, seconds = statement(name, number), moments.uniform(0, _WITHIN)
                one = cancel_after(connection, sql, seconds, prepare=number % 2 > 0)
                if isinstance(one.error, psycopg.errors.QueryCanceled):
                    found.append(one)
            own = gaps(gate, statement(name, number + REPEATS))
            if found:
                _report(name, found, own)


def _report(name: str, found: Sequence[Cancelled], own: Mapping[str, float]) -> None:
    slowest = max(found, key=lambda one: one.latency)
    seconds = {
        "max": slowest.latency,
        "max_cpu": max(one.spent.cpu for one in found),
        "slowest_cpu": slowest.spent.cpu,
        "slowest_core": slowest.spent.core,
        "slowest_collector": slowest.spent.collector,
    }
    milliseconds = {f"{what}_ms": round(1000 * one, 1) for what, one in seconds.items()}
    times = percentiles(1000 * one.latency for one in found)
    report(bench="cancel", statement=name, **times, **milliseconds, **own)


if __name__ == "__main__":
    main()
