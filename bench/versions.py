"""What a day more costs, of a table that grows, and what a year of days does to answers.

A table of DAYS days with ROWS rows each, a file a day, is published day by day by a process that
serves it, and asked after each publication, as a dashboard is. Reported are

- publish: the time to publish a day, beside the engine's own GROUP BY of that day's file; the last
  days against the first
- latency: a fresh count of the last day, the same asked again, and a sum over all days from
  history: after all days, and after the first few
- opening: the time to open the gate again, after all days
"""

from __future__ import annotations

import datetime as dt
import os
import statistics
import tempfile
from pathlib import Path

import duckdb

import tallyveil
from bench.measure import clocked, report
from tallyveil.cli.publishing import publish

ROWS = int(os.environ.get("ROWS", 100_000))
DAYS = int(os.environ.get("DAYS", 365))
FEW = 20

_FIRST = dt.date(2025, 1, 1)
_POLICY = f"""
ledger = "visits.ledger"
[source]
url = "days/*.parquet"
[tables.visits]
budget = {{ epsilon = 1000 }}
data = {{ append = "day", late = 0 }}
[tables.visits.attributes]
day = {{ range = [{_FIRST}, 2034-12-31] }}
ward = {{ range = [0, 49] }}
age = {{ range = [0, 99] }}
"""


def _fill(folder: Path) -> None:
    (folder / "days").mkdir()
    with duckdb.connect() as connection:
        for n in range(DAYS):
            connection.execute(
                f"COPY (SELECT DATE '{_FIRST}' + {n} AS day, (hash(i + {n}) % 50)::INTEGER AS ward,"
                f" (hash(i * 7 + {n}) % 100)::INTEGER AS age FROM range({ROWS}) t(i))"
                f" TO '{folder}/days/{n:04}.parquet'"
            )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        policy = folder / "policy.toml"
        policy.write_text(_POLICY)
        engine, published, fresh, again, summed = (list[float]() for _ in range(5))
        own = duckdb.connect()
        list(publish(policy, str(_FIRST), report=False))
        connection = tallyveil.connect(policy)
        connection.execute("SET dp.epsilon = 1")

        def ask(sql: str) -> object:
            return connection.sql(sql).fetchall()

        for n in range(1, DAYS):
            day = _FIRST + dt.timedelta(days=n)
            group = (
                f"SELECT day, ward, age, count(*) FROM '{folder}/days/{n:04}.parquet' GROUP BY ALL"
            )
            clocked(engine, lambda sql: own.execute(sql).fetchnumpy(), group)
            clocked(published, lambda given: list(publish(policy, given, report=False)), str(day))
            asked = f"SELECT ward, count(*) FROM visits WHERE day = DATE '{day}' GROUP BY ward"
            clocked(fresh, ask, asked)
            clocked(again, ask, asked)
            connection.execute("SET dp.source = history")
            clocked(summed, ask, "SELECT ward, count(*) FROM visits GROUP BY ward")
            connection.execute("SET dp.source = auto")
        connection.close()
        opening: list[float] = []
        clocked(opening, tallyveil.connect, policy).close()
    middle = statistics.median
    report(
        case="a year of days",
        days=DAYS,
        rows=ROWS,
        publish_ms=middle(published[-FEW:]),
        publish_over_engine=middle(published[-FEW:]) / middle(engine),
        publish_last_over_first=middle(published[-FEW:]) / middle(published[:FEW]),
        fresh_ms=middle(fresh[-FEW:]),
        fresh_last_over_first=middle(fresh[-FEW:]) / middle(fresh[1 : FEW + 1]),
        again_last_over_first=middle(again[-FEW:]) / middle(again[1 : FEW + 1]),
        total_ms=middle(summed[-FEW:]),
        opening_ms=opening[0],
    )


if __name__ == "__main__":
    main()
