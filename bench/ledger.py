"""A ledger of very many releases: opening it in a fresh process, and asking beside it.

The releases are counts with two predicates, sums and answers of ten and of a hundred groups, made
through the accountant's public face, and some estimates are derived from them. A line says how long
it takes to open the ledger and to learn what it knows, and at how much memory: after a crash, where
the summary beside the ledger lacks as many charges as it may, and in order. The others are as
in `bench.latency`, of servers with as many releases, which are asked in turn; ``x_`` are ratios to
the server without releases. Those of ``cpu_`` are to be trusted on a machine that does other work.

    make bench NAME=ledger                  4,000 and 100,000 releases
    RELEASES=4000 make bench NAME=ledger
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import psycopg

from bench.house import made, served
from bench.latency import CASES, System, asker, measure
from bench.measure import report, target
from tallyveil import load_policy
from tallyveil.accountant import ROW_BYTES, Accountant, Basis, Charge, Derivation, Ledger
from tallyveil.accountant.releases import Noisy
from tallyveil.boundary import Receipt
from tallyveil.gate.gate import accounts
from tallyveil.knowledge import Knowledge
from tallyveil.policy import Policy
from tallyveil.workload.workload import Column, Factor, Workload

RELEASES = tuple(map(int, os.environ.get("RELEASES", "4000,100000").split(",")))
ROWS = 100_000
_TOGETHER = 100  # charges a commit
_LOST = 900  # charges that the last summary lacks: with some more, another would be written


def main() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        systems = {
            _named(releases): stack.enter_context(_opened(folder, releases))
            for releases in (0, *RELEASES)
        }
        for case in CASES:
            found = measure(systems, case, _named(0), bench="ledger", rows=ROWS)
            for releases in RELEASES:
                ratio = found[_named(releases)][f"cpu_x_{_named(0)}"]
                target(f"{case}, {_named(releases)}", ratio, most=1.1 if releases < 50_000 else 1.3)


def _named(releases: int) -> str:
    return f"{releases}_releases"


@contextmanager
def _opened(folder: Path, releases: int) -> Iterator[System]:
    """A server with a ledger of so many releases, of which opening was measured."""
    own = folder / str(releases)
    own.mkdir()
    policy = made(own, ROWS, a=50, b=100)
    _write(load_policy(policy), releases)
    _report("opening after a crash", releases, **_child("opened", policy))
    _report("opening", releases, **_child("opened", policy))
    with (
        served(policy) as (port, pid),
        psycopg.connect(f"postgresql://bench@127.0.0.1:{port}/bench", autocommit=True) as ours,
    ):
        yield System("person", asker(ours), pid=pid)


def _report(case: str, releases: int, **figures: float) -> None:
    report(bench="ledger", case=case, releases=releases, **figures)


def _child(what: str, policy: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.ledger", what, str(policy)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def opened(policy: Path) -> dict[str, float]:
    """Seconds, of these in the processor and for learning, and megabytes at the most."""
    loaded = load_policy(policy)
    empty, start, worked = _megabytes(), time.perf_counter(), time.process_time()
    accountant = Accountant(Ledger(loaded.ledger), accounts(loaded))
    read = time.process_time()
    Knowledge(accountant, "person").learn()
    learnt = time.process_time()
    return {
        "seconds": round(time.perf_counter() - start, 3),
        "cpu_s": round(learnt - worked, 3),
        "cpu_s_learning": round(learnt - read, 3),
        "peak_mb": _megabytes(),
        "peak_mb_before": empty,
    }


def _write(policy: Policy, releases: int) -> None:
    """With a summary that lacks the last charges."""
    ledger = Ledger(policy.ledger)
    accountant = Accountant(ledger, accounts(policy))
    draw = random.Random(1)
    for start in range(0, releases, _TOGETHER):
        if start == releases - _LOST:
            Knowledge(accountant, "person").learn()
        number = min(_TOGETHER, releases - start)
        some = list(itertools.islice(_charges(draw), number))
        accountant.sell(some, "bench", partial(_noisy, draw, [one.workload for one in some]))
        accountant.derive("person", [_derivation(draw, start)], "bench")
    ledger.close()


def _derivation(draw: random.Random, start: int) -> Derivation:
    """Of ten rows from thirty columns."""
    rows = tuple(draw.randbytes(ROW_BYTES) for _ in range(10))
    whole = tuple(draw.sample(range(start, start + _TOGETHER), 30))
    return Derivation(rows, Basis(whole), None, Fraction(95, 100))


def _noisy(draw: random.Random, asked: list[Workload], number: int, _: Receipt) -> Noisy:
    heights = [column.height for column in asked[number].columns]
    return tuple(tuple(draw.randrange(-99, 9999) for _ in range(height)) for height in heights)


def _charges(draw: random.Random) -> Iterator[Charge]:
    """Three counts and two sums for each two answers of groups."""
    kinds = ["count"] * 3 + ["sum"] * 2 + ["ten groups", "a hundred groups"]
    while True:
        for kind in draw.sample(kinds, len(kinds)):
            low, high = sorted(draw.sample(range(51), 2))
            first = _range("a", 50, low, high)
            match kind:
                case "count":
                    second = _range("b", 100, *sorted(draw.sample(range(101), 2)))
                case "sum":
                    values = np.arange(1, 100, dtype=np.int64)
                    second = _factor("b", 100, np.zeros_like(values), values, values)
                case "ten groups":
                    second = _groups("d", 10)
                case _:
                    second = _groups("b", 100)
            workload = Workload("person", (Column((first, second)),))
            scale = draw.choice([20.0, 200.0, 2000.0])
            yield Charge(workload, "laplace", (scale,), f"SELECT {kind} {low} {high}")


def _groups(axis: str, size: int) -> Factor:
    each = np.arange(size, dtype=np.int64)
    return _factor(axis, size, each, each, np.ones_like(each))


def _range(axis: str, size: int, low: int, high: int) -> Factor:
    cells = np.arange(low, high, dtype=np.int64)
    return _factor(axis, size, np.zeros_like(cells), cells, np.ones_like(cells))


def _factor(
    axis: str,
    size: int,
    rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    cells: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    coefficients: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
) -> Factor:
    return Factor((axis,), (size,), int(rows.max()) + 1, rows, cells, coefficients)


def _megabytes() -> int:
    """The most this process has held. Not `getrusage`, which counts what its parent held too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
    else:
        main()
