"""What mixed sessions spend, how wide their intervals are, and what they compute.

    make bench NAME=sessions
    REPEATS=5 ONLY="one exact" make bench NAME=sessions

Each session asks some sixty statements about 20,000 visits, in a fixed order: counts, groups,
ranges, sums and averages, cubes, half-widths, statements that history may answer, and repetitions.
One has no exact counts, one has one, one has several, and one has a budget of ρ. The session
``ranges`` asks 160 counts over ranges of two attributes each, few of which history determines.

The noise comes from a fixed sequence, which no release may have. So two versions of the program
that buy the same rows report the same figures, and others differ by what they decide. A line has

- ``spent``, of what is charged in all, and how many statements were ``free``, or ``refused``;
- the widths of all intervals, half of what lies between their ends, as a share of the largest
  answer of their column: the ``mean`` of the columns' means, the ``largest``, and how many rows
  have none;
- ``cpu_s``, seconds of the processor, the least of REPEATS sessions.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from unittest.mock import patch

import duckdb
import numpy as np

import tallyveil
from bench.measure import report
from tallyveil.gate import Gate

__all__ = ["INVARIANTS", "STATEMENTS", "Figures", "asked"]

REPEATS = int(os.environ.get("REPEATS", "3"))

_PATIENCE: Final = 600.0  # seconds: what others do meanwhile must not decide what is answered

_VISITS: Final = """
    SELECT hash(i) % 60 AS age, substr('NESW', (1 + hash(i + 1000000007) % 4)::int, 1) AS region,
           hash(i + 2000000011) % 24 AS hour, hash(i + 3000000019) % 5 AS ward,
           hash(i + 4000000007) % 20 AS cost
    FROM range(20000) t(i)
"""
_ATTRIBUTES: Final = {
    "age": {"range": [0, 59]},
    "region": {"values": ["N", "E", "S", "W"]},
    "hour": {"range": [0, 23]},
    "ward": {"range": [0, 4]},
    "cost": {"range": [0, 19]},
}

INVARIANTS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "none": (),
        "one exact": ("SELECT count(*) FROM visits",),
        "several exact": (
            "SELECT region, count(*) FROM visits GROUP BY region",
            "SELECT ward, count(*) FROM visits GROUP BY ward",
            "SELECT count(*) FROM visits WHERE age < 18",
        ),
        "in rho": (),
        "ranges": (),
    }
)
"""The exact counts of each session."""

_N: Final = "count(*) AS n, dp_interval_low(n) AS n_low, dp_interval_high(n) AS n_high"
_S: Final = "sum(cost) AS s, dp_interval_low(s) AS s_low, dp_interval_high(s) AS s_high"


def _overview() -> Iterator[str]:
    """Groups and the cubes over them, as a dashboard opens with."""
    yield f"SELECT {_N} FROM visits"
    for axes in ("region", "ward", "hour", "age // 10", "region, ward"):
        yield f"SELECT {axes}, {_N} FROM visits GROUP BY {axes}"
    yield f"SELECT region, ward, {_N} FROM visits GROUP BY CUBE (region, ward)"
    yield f"SELECT region, hour, {_N} FROM visits GROUP BY ROLLUP (region, hour)"
    sets = "(region), (ward), (hour // 6), ()"
    yield f"SELECT region, ward, hour // 6, {_N} FROM visits GROUP BY GROUPING SETS ({sets})"


def _ranges() -> Iterator[str]:
    """Ranges that overlap, nest and touch, over one attribute and over two."""
    for low, high in [(0, 17), (18, 64), (18, 39), (40, 59), (30, 49), (0, 29), (25, 34)]:
        yield f"SELECT {_N} FROM visits WHERE age BETWEEN {low} AND {high}"
    for low, high in [(0, 11), (6, 17), (12, 23), (8, 9)]:
        yield f"SELECT region, {_N} FROM visits WHERE hour BETWEEN {low} AND {high} GROUP BY region"
    for age, ward in [(30, 2), (30, 3), (18, 2), (45, 0)]:
        yield f"SELECT {_N} FROM visits WHERE age >= {age} AND ward <= {ward}"
    yield f"SELECT {_N} FROM visits WHERE (age < 30 OR hour >= 20) AND region <> 'N'"


def _amounts() -> Iterator[str]:
    """Sums and averages, and counts of several kinds in one statement."""
    for axes in ("region", "ward"):
        yield f"SELECT {axes}, avg(cost) AS average, {_N}, {_S} FROM visits GROUP BY {axes}"
    yield f"SELECT avg(cost) AS average, {_N}, {_S} FROM visits WHERE age < 30"
    yield f"SELECT {_S} FROM visits"
    yield f"SELECT hour // 6 AS part, {_S} FROM visits WHERE region IN ('N', 'S') GROUP BY part"
    for axes in ("region, age", "hour, age"):  # 240 rows, and 1,440
        yield f"SELECT {axes}, {_N} FROM visits GROUP BY {axes}"
    yield f"SELECT cost >= 10 AS dear, {_N} FROM visits GROUP BY dear"
    yield (
        "SELECT count(*) FILTER (WHERE age < 18) AS n, dp_interval_low(n) AS n_low,"
        " dp_interval_high(n) AS n_high, count(*) FILTER (WHERE age >= 18) AS o,"
        " dp_interval_low(o) AS o_low, dp_interval_high(o) AS o_high FROM visits WHERE ward < 3"
    )


def _derived() -> Iterator[str]:
    """What the answers so far may determine, wholly or in part, or not."""
    yield f"SELECT ward, {_N} FROM visits WHERE age > 40 AND hour < 9 GROUP BY ward"
    yield f"SELECT {_N} FROM visits WHERE cost BETWEEN 3 AND 7 AND region = 'S'"
    for region in "NEW":
        yield f"SELECT {_N} FROM visits WHERE region = '{region}'"
    yield f"SELECT {_N} FROM visits WHERE region IN ('N', 'W') AND ward > 1"
    yield f"SELECT hour // 12 AS half, {_N} FROM visits GROUP BY half"
    yield f"SELECT ward, {_N} FROM visits WHERE region <> 'E' GROUP BY ward"
    yield f"SELECT {_N} FROM visits WHERE age >= 18"
    yield f"SELECT age // 20 AS part, {_N} FROM visits GROUP BY part"
    yield f"SELECT {_S} FROM visits WHERE ward IN (1, 2)"


def _to_half_widths() -> Iterator[str]:
    for half, what in [
        (400, "count(*)"), (150, "region"), (150, "ward"), (80, "region"), (250, "hour // 6"),
        (100, "count(*)"), (300, "age // 30"),
    ]:  # fmt: skip
        yield f"SET dp.half_width = {half}"
        if what == "count(*)":
            yield f"SELECT {_N} FROM visits WHERE age >= 18 AND hour < 12"
        else:
            yield f"SELECT {what} AS part, {_N} FROM visits GROUP BY part"
    yield f"SELECT region, ward, {_N} FROM visits GROUP BY ROLLUP (region, ward)"


STATEMENTS: Final = (
    *_ranges(),
    *_overview(),
    *_amounts(),
    "SET dp.source = history",
    *_derived(),
    "SET dp.source = auto",
    *_to_half_widths(),
    "RESET dp.half_width",
    "SET dp.source = fresh",
    *(f"SELECT {_N} FROM visits WHERE age >= {age} AND ward <= 2" for age in (30, 18)),
    "SET dp.source = auto",
    *_overview(),  # again: some are better known now, and most are free
    *(f"SELECT {_N} FROM visits WHERE age BETWEEN {low} AND 49" for low in (18, 30, 40)),
)


def _ranges_of_two() -> Iterator[str]:
    draw = random.Random(5)  # public statements, not noise
    for _ in range(160):
        conditions = []
        for axis, size in draw.sample([("age", 60), ("hour", 24), ("ward", 5), ("cost", 20)], 2):
            low, high = sorted(draw.sample(range(size), 2))
            conditions.append(f"{axis} BETWEEN {low} AND {high}")
        yield f"SELECT {_N} FROM visits WHERE {' AND '.join(conditions)}"


@dataclass
class Figures:
    """What one session was charged, and the widths of its intervals, by column."""

    spent: float = 0.0
    asked: int = 0
    free: int = 0
    refused: int = 0
    unknown: int = 0
    widths: list[list[float]] = field(default_factory=list)
    cpu_s: float = 0.0


def asked(name: str) -> Figures:
    """The figures of the session of this name."""
    statements = tuple(_ranges_of_two()) if name == "ranges" else STATEMENTS
    with tempfile.TemporaryDirectory() as folder, _fixed_noise():
        connection = _opened(name, Path(folder))
        found, before, start = Figures(), 0.0, time.process_time()
        for sql in statements:
            try:
                cursor = connection.execute(sql)
            except tallyveil.DatabaseError:
                found.asked, found.refused = found.asked + 1, found.refused + 1
                continue
            if sql.startswith("SELECT"):
                _add(found, [column[0] for column in cursor.description or ()], cursor.fetchall())
                found.spent = float(connection.budget()[0]["spent"])
                found.asked, found.free = found.asked + 1, found.free + (found.spent == before)
                before = found.spent
        found.cpu_s = time.process_time() - start
        connection.close()
    return found


def _add(found: Figures, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Add the widths of each column that has an interval."""
    for low in (name for name in names if name.endswith("_low")):
        of, ends = names.index(low[:-4]), [names.index(low), names.index(f"{low[:-4]}_high")]
        known = [[float(row[n]) for n in (of, *ends)] for row in rows if row[of] is not None]
        found.unknown += len(rows) - len(known)
        largest = max((abs(row[0]) for row in known), default=1.0) or 1.0
        if known:
            found.widths.append([(high - least) / 2 / largest for _, least, high in known])


def _opened(name: str, base: Path) -> tallyveil.Connection:
    table = {
        "neighbours": "replace" if INVARIANTS[name] else "add_remove",
        "budget": {"rho": 1e3, "delta": 1e-9} if name == "in rho" else {"epsilon": 1e4},
        "attributes": _ATTRIBUTES,
        "invariants": [{"sql": sql} for sql in INVARIANTS[name]],
    }
    defaults = {"rho": 0.002} if name == "in rho" else {"epsilon": 0.1}
    policy = tallyveil.parse_policy({"tables": {"visits": table}, "defaults": defaults}, base=base)
    source = duckdb.connect()
    source.execute(f"CREATE TABLE visits AS {_VISITS}")
    return tallyveil.Connection(Gate(policy, source, time_limit=_PATIENCE))


@contextmanager
def _fixed_noise() -> Iterator[None]:
    """Inside, the system's random source is a fixed sequence."""
    noise = np.random.default_rng(7)
    with (
        patch("os.urandom", noise.bytes),
        patch("secrets.token_bytes", noise.bytes),
        patch("secrets.randbits", lambda bits: int.from_bytes(noise.bytes(bits // 8))),
    ):
        yield


def main() -> None:
    for name in INVARIANTS:
        if os.environ.get("ONLY", name) != name:
            continue
        every = [asked(name) for _ in range(REPEATS)]
        found = every[0]
        report(
            bench="sessions",
            exact=name,
            statements=found.asked,
            spent=round(found.spent, 6),
            free=found.free,
            refused=found.refused,
            mean=round(float(np.mean([*map(np.mean, found.widths)])), 6),
            largest=round(max(map(max, found.widths)), 6),
            intervals=sum(map(len, found.widths)),
            unknown=found.unknown,
            cpu_s=round(min(one.cpu_s for one in every), 2),
        )


if __name__ == "__main__":
    main()
