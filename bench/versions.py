"""What a day more costs, of a table that grows, and what a year of days does to answers.

Two tables of one policy have a file a day: an old one with DAYS versions, and a young one. Days are
published and asked about, as a dashboard does, in turns, so that what else the machine does slows
both alike; times are the processor's. Targets are

- publishing a day, against the engine's own GROUP BY of that day's file, which has LARGE rows
- for the old table against the young one: publishing a day; a fresh count of the last day, and the
  same asked again; the year so far, added up from history
- for a domain of ten years against one that ends with the days: the same, and to account for a
  year of days of which other attributes were restricted
- opening a ledger of RELEASES releases over all versions, what serves them, and a connection until
  its first answer, in processes of their own, once these have imported the package

    make bench NAME=versions
    DAYS=365 RELEASES=100000 LARGE=10000000 make bench NAME=versions
"""

from __future__ import annotations

import datetime as dt
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb

import tallyveil
from bench.ledger import _groups, _noisy, _range
from bench.measure import report, target
from tallyveil import load_policy
from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.accountant.budgets.meter import CellMeter
from tallyveil.cli.publishing import publish
from tallyveil.gate import Gate
from tallyveil.gate.gate import accounts
from tallyveil.knowledge import Knowledge
from tallyveil.mechanisms import Adjacency
from tallyveil.mechanisms.losses.privacy_loss import privacy_loss
from tallyveil.workload.workload import Column, Workload

ROWS = int(os.environ.get("ROWS", 20_000))
DAYS = int(os.environ.get("DAYS", 60))
LARGE = int(os.environ.get("LARGE", 4_000_000))
RELEASES = int(os.environ.get("RELEASES", 10_000))
FEW = 9

T = TypeVar("T")
Times = dict[str, list[float]]

_RELATION = Adjacency("add_remove")
_FIRST = dt.date(2025, 1, 1)
_POLICY = """
ledger = "visits.ledger"
[source]
url = "days/*.parquet"
[tables.visits]
budget = {{ epsilon = 1000000 }}
data = {{ append = "day", late = 0 }}
[tables.visits.attributes]
day = {{ range = [{first}, {last}] }}
ward = {{ range = [0, 49] }}
age = {{ range = [0, 99] }}
"""


class Visits:
    """A table that grows by files, published day by day, and asked."""

    def __init__(self, folder: Path, last: dt.date) -> None:
        (folder / "days").mkdir(parents=True)
        self.folder, self.policy, self.days = folder, folder / "policy.toml", 0
        self.policy.write_text(_POLICY.format(first=_FIRST, last=last))
        self.day(ROWS, {})
        self.connection = tallyveil.connect(self.policy)
        self.connection.execute("SET dp.epsilon = 1")

    def day(self, rows: int, times: Times) -> None:
        """A day more, of so many rows."""
        day, file = _FIRST + dt.timedelta(days=self.days), f"{self.folder}/days/{self.days:04}"
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT DATE '{day}' AS day, (hash(i + {self.days}) % 50)::INTEGER AS ward,"
                f" (hash(i * 7 + {self.days}) % 100)::INTEGER AS age FROM range({rows}) t(i))"
                f" TO '{file}.parquet'"
            )
            group = f"SELECT day, ward, age, count(*) FROM '{file}.parquet' GROUP BY ALL"
            _worked(times, "engine", lambda: connection.execute(group).fetchnumpy())
        _worked(times, "publish", lambda: list(publish(self.policy, str(day), report=False)))
        self.days += 1

    def ask(self, times: Times) -> None:
        day = _FIRST + dt.timedelta(days=self.days - 1)
        asked = f"SELECT ward, count(*) FROM visits WHERE day = DATE '{day}' GROUP BY ward"
        year = f"SELECT ward, count(*) FROM visits WHERE day <= DATE '{day}' GROUP BY ward"
        _worked(times, "fresh count", lambda: self.connection.sql(asked).fetchall())
        _worked(times, "asked again", lambda: self.connection.sql(asked).fetchall())
        if times:
            self.connection.execute("SET dp.source = history")
            _worked(times, "year so far", lambda: self.connection.sql(year).fetchall())
            self.connection.execute("SET dp.source = auto")


def _worked(times: Times, case: str, call: Callable[[], T]) -> T:
    """Call it, and add to the times of a case the milliseconds that it took in the processor."""
    start = time.process_time()
    result = call()
    times.setdefault(case, []).append((time.process_time() - start) * 1e3)
    return result


def _aged(folder: Path, days: int, last: dt.date) -> Visits:
    own = Visits(folder, last)
    own.ask({})
    while own.days < days:
        own.day(ROWS, {})
        own.ask({})
    return own


def _compare(name: str, of: Visits, to: Visits, most: float) -> None:
    """In turns; the first turn is not counted."""
    found: tuple[Times, Times] = ({}, {})
    for _ in range(FEW + 1):
        for own, times in zip((of, to), found, strict=True):
            own.day(ROWS, times)
            own.ask(times)
    for case in found[0]:
        ours, theirs = (statistics.median(times[case][1:]) for times in found)
        report(case=case, of=name, days=of.days, ms=round(ours, 2), to_ms=round(theirs, 2))
        if case != "engine":
            target(f"{case}, {name}", ours / theirs, most=most)


def _losses() -> None:
    times: Times = {}
    meters = dict.fromkeys((366, 3652), CellMeter("epsilon"))
    for day in range(365):
        for days, meter in meters.items():
            about = _range("day", days, day, day + 1), _range("ward", 200, 0, 1 + day % 200)
            meters[days] = _worked(times, str(days), partial(_after, meter, Column(about)))
    for days, meter in meters.items():
        entries, ms = sum(one.values.size for one in meter.tally.groups), sum(times[str(days)])
        report(case="losses", days=days, entries=entries, ms=round(ms / 365, 2))
    target("losses, ten years ahead to none", sum(times["3652"]) / sum(times["366"]), most=1.3)


def _after(meter: CellMeter, column: Column) -> CellMeter:
    return meter.after(privacy_loss((column,), (Fraction(1),), _RELATION, "epsilon"))


def _publishing(own: Visits) -> None:
    times: Times = {}
    for _ in range(4):
        own.day(LARGE, times)
    counted, published = (min(times[case]) for case in ("engine", "publish"))
    report(case="a large day", rows=LARGE, engine_ms=round(counted), publish_ms=round(published))
    target("publishing a day, to counting it", published / counted, most=1.3)


def _opening(own: Visits) -> None:
    own.connection.close()
    policy = load_policy(own.policy)
    ledger = Ledger(policy.ledger)
    accountant, draw = Accountant(ledger, accounts(policy)), random.Random(1)
    size = policy.tables["visits"].days.size
    known, left = Knowledge(accountant, "visits"), RELEASES - own.days
    while left > 0:
        charges = [_charge(draw, size, own.days) for _ in range(min(100, left))]
        workloads = [one.workload for one in charges]
        accountant.sell(charges, "bench", partial(_noisy, draw, workloads))
        known.learn()
        left -= len(charges)
    accountant.close()
    ledger.close()
    opening(own.policy)


def opening(policy: Path) -> None:
    for case in ("ledger", "server", "first answer"):
        command = [sys.executable, "-m", "bench.versions", case, str(policy)]
        printed = [subprocess.run(command, check=True, stdout=subprocess.PIPE) for _ in range(3)]
        cpu, wall = (statistics.median(own) for own in zip(*map(_seconds, printed), strict=True))
        sizes = {"releases": RELEASES, "versions": DAYS}
        report(case=f"opening, {case}", **sizes, cpu_s=round(cpu, 2), wall_s=round(wall, 2))
        target(f"opening, {case}", cpu, most=3.0)


def _seconds(ended: subprocess.CompletedProcess[bytes]) -> list[float]:
    return [float(one) for one in ended.stdout.split()]


def opened(case: str, path: Path) -> tuple[float, float]:
    """Seconds in the processor and by the clock, of a fresh process."""
    policy, before, start = load_policy(path), time.process_time(), time.monotonic()
    if case == "ledger":
        Knowledge(Accountant(Ledger(policy.ledger), accounts(policy)), "visits").learn()
    elif case == "server":
        Gate(policy)
    else:
        tallyveil.connect(path).sql("SELECT count(*) FROM visits").fetchall()
    return time.process_time() - before, time.monotonic() - start


def _charge(draw: random.Random, size: int, days: int) -> Charge:
    """Of a day, 28 days or the year so far: a count or, more seldom, the counts of all wards."""
    day = draw.randrange(days)
    first = draw.choice([day, max(0, day - 27), 0])
    columns = [_range("ward", 50, *sorted(draw.sample(range(51), 2))), _groups("ward", 50)]
    other = draw.choices(columns, [4, 1])[0]
    workload = Workload("visits", (Column((_range("day", size, first, day + 1), other)),))
    return Charge(workload, "laplace", (draw.choice([2e4, 2e5]),), f"SELECT {first} {day}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, ahead = Path(name), dt.date(2034, 12, 31)
        short = _FIRST + dt.timedelta(days=max(DAYS, 4 * FEW) + 4 * FEW)
        old = _aged(folder / "old", DAYS, ahead)
        _compare("an old table to a young one", old, _aged(folder / "young", 2, ahead), 1.2)
        near = _aged(folder / "near", 2, short)
        _compare("ten years ahead to none", _aged(folder / "far", 2, ahead), near, 1.2)
        _losses()
        _publishing(near)
        _opening(old)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*opened(sys.argv[1], Path(sys.argv[2])))
    else:
        main()
