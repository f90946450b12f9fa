"""Statements a second over the wire, beside a real PostgreSQL's in one run, by its own pgbench.

A table of four attributes, as in `bench.fairness`. The systems take turns: PostgreSQL, tallyveil in
one process, and in two. Each connection sends one and the same statement again and again; every
answer but the first costs nothing.

- `SELECT 1` in pgbench's three modes on 1, 16 and 200 connections; ``x_per_second``, ``x_p99`` and
  ``x_cpu`` are ratios to PostgreSQL's.
- A repeated count likewise; the ratios are to the same system's `SELECT 1`.
- `prepared`: what preparing helps, the ratio of its statements a second to those of `extended`.
- `beside`: `SELECT 1` on 4 connections, alone and while another analyst sends GROUP BY of 26,400
  groups, by turns; ``x_alone`` is the ratio of the 99th percentiles, ``heavy`` and ``failed`` are
  how many of the heavy statements were answered and refused. A `SELECT 1` waits for Python's
  interpreter, about a tenth of a millisecond at each step, and for a processor. On a machine that
  computes something else too, threads wait for a processor for many milliseconds: the ratio then
  says little about the server. Its target is meant for a machine with nothing else to do.
- `idle`: what 500 connections that ask nothing take, in MB.
- What `bench.catalog` measures.
- `target`: what some of these are to be, and whether they are. All takes five minutes.

pgbench does not look at the clock again for an answer that is there at once: a median of 0 means
that. ``cpu_us`` is what all processes of the server compute for one statement, in microseconds of a
processor, which depends little on what else the machine does. Figures are medians of three rounds.

    make bench NAME=wire
    LENGTH=30 make bench NAME=wire            seconds of each case
"""

from __future__ import annotations

import itertools
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import psycopg

from bench import catalog
from bench.fairness import Load, groups
from bench.house import made, served
from bench.measure import percentiles, report, target
from bench.postgres import postgresql, program

LENGTH: Final = int(os.environ.get("LENGTH", "2"))
ROUNDS: Final = 3
ROWS: Final = int(os.environ.get("ROWS", "100000"))
IDLE: Final = 500
MODES = ("simple", "extended", "prepared")
CONNECTIONS = (1, 16, 200)
WORKERS = (1, 2)
FASTEST: Final = {1: 0.2, 2: 0.35}  # by workers, the least ratio to PostgreSQL's
ONE: Final = "SELECT 1"
COUNT: Final = "SELECT count(*) FROM person WHERE a < 30 AND b >= 7"


@dataclass(frozen=True)
class System:
    """``pid`` is its first process."""

    name: str
    port: int
    pid: int
    database: str = "bench"

    @property
    def ours(self) -> bool:
        return self.database == "bench"


def family(pid: int) -> list[int]:
    """A process and its children."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *map(int, children)]


def processor(pid: int) -> float:
    """Seconds that a process and its children have computed, those that have ended among them; NaN
    where /proc does not tell."""
    total = 0.0
    for each in family(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("nan")
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def memory(pid: int) -> float:
    """MB that are a process's own and its children's, shared ones by parts."""
    found = 0
    for each in family(pid):
        text = Path(f"/proc/{each}/smaps_rollup").read_text()
        found += sum(map(int, re.findall(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)))
    return found * 1024 / 1e6


def lasting(seconds: int) -> list[str]:
    """How pgbench is told when to end."""
    return ["-T", str(seconds)]


def run(
    system: System, folder: Path, sql: str, mode: str, connections: int, length: int = 0
) -> dict[str, float]:
    """What pgbench measures; it writes the time of each statement into a file a thread. Its time
    runs while it connects, which takes a PostgreSQL seconds on a busy machine: then it is longer.
    """
    length = length or LENGTH
    (folder / "script.sql").write_text(f"{sql};\n")
    for old in folder.glob("times.*"):
        old.unlink()
    command = [
        program("pgbench"), "-h", "127.0.0.1", "-p", str(system.port), "-U", "bench", "-n",
        "-M", mode, "-c", str(connections), *lasting(length), "-f", str(folder / "script.sql"),
        "--log", f"--log-prefix={folder / 'times'}", system.database,
    ]  # fmt: skip
    before = processor(system.pid)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    spent = processor(system.pid) - before
    rate = re.search(r"tps = ([\d.]+)", said)
    if rate is None and length < 16 * LENGTH:
        return run(system, folder, sql, mode, connections, 4 * length)
    if rate is None:
        raise RuntimeError(f"no statement was answered within {length} s")
    lines = itertools.chain(*(p.read_text().splitlines() for p in folder.glob("times.*")))
    figures = percentiles(int(line.split()[2]) / 1e3 for line in lines)
    cpu = round(spent / figures["n"] * 1e6, 1)
    return {"per_second": round(float(rate[1])), "cpu_us": cpu, **figures}


Figures: TypeAlias = dict[str, float]


def medians(rounds: Sequence[Figures]) -> Figures:
    return {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}


def compare(
    systems: Sequence[System], folder: Path, mode: str, connections: int
) -> dict[tuple[str, str], Figures]:
    """`SELECT 1` of all, and the repeated count of ours, several times by turns."""
    asked = [
        (system, sql) for system in systems for sql in ((ONE, COUNT) if system.ours else (ONE,))
    ]
    rounds = [
        [run(system, folder, sql, mode, connections) for system, sql in asked]
        for _ in range(ROUNDS)
    ]
    found = {
        (system.name, sql): medians(every)
        for (system, sql), *every in zip(asked, *rounds, strict=True)
    }
    for system, sql in asked:
        one = found[system.name, sql]
        beside = found[systems[0].name, ONE] if sql == ONE else found[system.name, ONE]
        ratios = {
            "x_per_second": round(one["per_second"] / beside["per_second"], 3),
            "x_p99": round(one["p99_ms"] / beside["p99_ms"], 2) if beside["p99_ms"] else None,
            # The system counts in hundredths of a second, of which a short run may use none.
            "x_cpu": round(one["cpu_us"] / beside["cpu_us"], 2) if beside["cpu_us"] else None,
        }
        case = {"mode": mode, "connections": connections, "system": system.name}
        report(bench="wire", **case, statement=sql, **one, **ratios)
    return found


def preparing(found: Mapping[tuple[str, int], Mapping[tuple[str, str], Figures]]) -> None:
    """``found`` by mode and connections."""
    for connections in CONNECTIONS:
        extended, prepared = found["extended", connections], found["prepared", connections]
        for (name, sql), one in prepared.items():
            ratio = one["per_second"] / extended[name, sql]["per_second"]
            report(
                bench="wire", case="prepared", connections=connections, system=name,
                statement=sql, x_extended=round(ratio, 2),
            )  # fmt: skip


def targets(found: Mapping[tuple[str, int], Mapping[tuple[str, str], Figures]]) -> None:
    """Of prepared statements, on a middling number of connections."""
    connections = CONNECTIONS[len(CONNECTIONS) // 2]
    speed, extended = (
        {asked: one["per_second"] for asked, one in found[mode, connections].items()}
        for mode in ("prepared", "extended")
    )
    for workers in WORKERS:
        name = named(workers)
        own = speed[name, ONE]
        least = FASTEST[workers]
        target(f"{ONE}, {name}, to PostgreSQL's", own / speed["postgresql", ONE], least=least)
        target(f"a repeated count, {name}, to {ONE}", speed[name, COUNT] / own, least=0.5)
        target(f"{ONE}, {name}, to unprepared", own / extended[name, ONE], least=1)


def named(workers: int) -> str:
    return f"tallyveil, {workers}"


def beside(system: System, folder: Path) -> None:
    """`SELECT 1` while the heaviest statements run."""
    alone, busy = [], []
    heavy = failed = 0
    for _ in range(ROUNDS):
        alone.append(run(system, folder, ONE, "prepared", 4))
        with Load(system.port, [groups]) as load:
            busy.append(run(system, folder, ONE, "prepared", 4))
            heavy, failed = heavy + load.finished, failed + load.failed
    found, before = medians(busy), medians(alone)
    ratio = round(found["p99_ms"] / before["p99_ms"], 2)
    report(
        bench="wire", case="beside", system=system.name, **found,
        alone_p99_ms=before["p99_ms"], x_alone=ratio, heavy=heavy, failed=failed,
    )  # fmt: skip
    target(f"99th percentile beside the heaviest, {system.name}, to alone", ratio, most=2)


def idle(system: System) -> None:
    """What connections take that have asked something once."""
    with ExitStack() as opened:
        before = memory(system.pid)
        for _ in range(IDLE):
            address = f"host=127.0.0.1 port={system.port} user=idle dbname=bench"
            connection = opened.enter_context(psycopg.connect(address, autocommit=True))
            connection.execute(ONE)
        taken = memory(system.pid) - before
    report(bench="wire", case="idle", system=system.name, connections=IDLE, mb=round(taken, 1))
    target(f"MB of {IDLE} idle connections, {system.name}", taken, most=100)


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        policy = made(folder, ROWS)
        systems = [System("postgresql", *stack.enter_context(postgresql(folder)), "postgres")]
        for workers in WORKERS:
            options = ("--workers", str(workers), "--max-connections", "1000")
            port, pid = stack.enter_context(served(policy, *options))
            systems.append(System(named(workers), port, pid))
        found = {
            case: compare(systems, folder, *case) for case in itertools.product(MODES, CONNECTIONS)
        }
        preparing(found)
        targets(found)
        for system in systems[1:]:
            idle(system)
            beside(system, folder)
        catalog.measure(systems[0].port, systems[1].port)


if __name__ == "__main__":
    main()
