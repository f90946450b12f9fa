"""`tallyveil serve` in a process of its own, as it would run: with what it serves, and what it
computes."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

__all__ = ["computed", "made", "pauses", "served"]

_CODE = "import bench.house as house; house.note_pauses(); from tallyveil.cli import main; main()"
_PROGRAM = [sys.executable, "-c", _CODE]
_PAUSES = "PAUSES"
_NEVER = 1 << 30  # `tallyveil.proxy.housekeeping`
_OPTIONS = ["--port", "0", "--log-level", "error"]

_TABLE = """
    SELECT hash(i) % {a} AS a, hash(i + 1000000007) % {b} AS b,
           CASE WHEN hash(i + 2000000011) % 2 = 0 THEN 'F' ELSE 'M' END AS c,
           hash(i + 3000000019) % 10 AS d
    FROM range({rows}) t(i)
"""

_POLICY = """
[source]
url = "rows.parquet"
[tables.person]
from = "rows"
budget = {{ epsilon = 100000.0 }}
[tables.person.limits]
rows = 1_000_000_000
analyst_rows = 1_000_000_000
megabytes = 100_000
analyst_megabytes = 100_000
[tables.person.attributes]
a = {{ range = [0, {last_a}] }}
b = {{ range = [0, {last_b}] }}
c = {{ values = ["F", "M"] }}
d = {{ range = [0, 9] }}
[defaults]
epsilon = 0.05
"""


def made(folder: Path, rows: int, a: int = 110, b: int = 240) -> Path:
    """A policy file in the folder, with `rows.parquet`, the records that it protects: four
    attributes, of a × b × 2 × 10 values. Its ledger has room for whatever a bench asks."""
    with duckdb.connect() as source:
        table = _TABLE.format(rows=rows, a=a, b=b)
        source.execute(f"COPY ({table}) TO '{folder / 'rows.parquet'}'")
    policy = folder / "policy.toml"
    policy.write_text(_POLICY.format(last_a=a - 1, last_b=b - 1))
    return policy


@contextmanager
def served(policy: Path, *options: str) -> Iterator[tuple[int, int]]:
    """Serve the policy file in another process; gives the port and the process."""
    command = [*_PROGRAM, "serve", str(policy), *_OPTIONS, *options]
    environment = {**os.environ, _PAUSES: str(_noted(policy))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        try:
            found = re.search(r":(\d+)/", process.stdout.readline())
            if found is None:
                raise RuntimeError("the server does not say its port")
            yield int(found[1]), process.pid
        finally:
            process.terminate()


def note_pauses() -> None:
    """In the server's process: write down how long each collection of garbage stops all threads,
    while the server listens, which is while Python makes no full ones by itself."""
    began = 0.0

    def note(phase: str, found: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        elif gc.get_threshold()[2] >= _NEVER:
            took = round((time.thread_time() - began) * 1e3, 3)
            os.write(file, f"[{found['generation']}, {took}]\n".encode())

    file = os.open(os.environ[_PAUSES], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    gc.callbacks.append(note)


def pauses(policy: Path) -> dict[str, float]:
    """Of the server that served the policy file last: how many collections of garbage there were,
    how many of them full, and the longest of both, in milliseconds of processor time."""
    noted = [json.loads(line) for line in _noted(policy).read_text().splitlines()]
    full = [took for generation, took in noted if generation == 2]
    return {
        "collections": len(noted),
        "longest_ms": max((took for _, took in noted), default=0.0),
        "full_collections": len(full),
        "longest_full_ms": max(full, default=0.0),
    }


def _noted(policy: Path) -> Path:
    return policy.with_name("pauses")


def computed(pid: int | None) -> float:
    """Milliseconds that all threads of a process have computed, ended ones among them; NaN for no
    process, and where the system does not tell."""
    clock = ctypes.c_int()
    find = getattr(ctypes.CDLL(None), "clock_getcpuclockid", None)
    if pid is None or find is None or find(pid, ctypes.byref(clock)):
        return float("nan")
    return time.clock_gettime_ns(clock.value) / 1e6
