"""A table of visits that grows by days, in a file, with its policy and its versions."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np

import tallyveil
from tallyveil.cli.publishing import publish
from tallyveil.gate import Gate
from tests.gate.many_sessions import PATIENCE

__all__ = ["EXACT", "FIRST", "Row", "Visits", "day", "random_rows"]

FIRST = dt.date(2026, 1, 1)
EXACT = "SET dp.epsilon = 1000"  # noise of 0, but for a chance of e^-1000

Row = tuple[int, int, int, int]
"""The number of its day, its kind, its person, and after how many days it arrived."""


def day(number: int) -> dt.date:
    return FIRST + dt.timedelta(days=number)


class Visits:
    """A table of visits in a file, its policy, and its versions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.declare()

    def declare(
        self,
        *,
        unit: str = '"row"',
        data: str = 'append = "day", late = 2, arrived = "loaded"',
        budget: str = "epsilon = 1e6",
        days: int = 20,
        kind: str = "kind = { range = [0, 2] }",
        more: str = "",
    ) -> None:
        (self.folder / "policy.toml").write_text(
            f"""
            ledger = "visits.ledger"
            [source]
            url = "visits.parquet"
            [tables.visits]
            privacy_unit = {unit}
            budget = {{ {budget} }}
            data = {{ {data} }}
            {more}
            [tables.visits.attributes]
            {kind}
            day = {{ range = [{FIRST}, {day(days - 1)}] }}
            """
        )

    def fill(self, rows: list[Row]) -> None:
        values = ", ".join(
            f"(DATE '{day(n)}', {kind}, {person}, DATE '{day(n + late)}')"
            for n, kind, person, late in rows
        )
        with duckdb.connect() as connection:
            connection.execute(
                "COPY (SELECT *, ['n', 's', 'w', 'x', 'y'][kind + 1] AS ward"
                f" FROM (VALUES {values}) t(day, kind, pid, loaded))"
                f" TO '{self.folder / 'visits.parquet'}'"
            )

    def publish(self, through: int | None, *, recount: bool = False) -> list[str]:
        given = None if through is None else str(day(through))
        found = publish(self.folder / "policy.toml", given, report=False, recount=recount)
        return [line for one in found for line in one.lines]

    def open(self, *settings: str) -> tallyveil.Connection:
        policy = tallyveil.load_policy(self.folder / "policy.toml")
        connection = tallyveil.Connection(Gate(policy, time_limit=PATIENCE))
        for setting in settings:
            connection.execute(setting)
        return connection

    def counts(self, connection: tallyveil.Connection | None = None) -> Counter[tuple[int, int]]:
        """The records by day and kind, with noise of 0."""
        connection = connection or self.open()
        connection.execute(EXACT)
        found = connection.sql("SELECT day, kind, count(*) FROM visits GROUP BY day, kind")
        return Counter({((d - FIRST).days, kind): n for d, kind, n in found.fetchall() if n})


def random_rows(random: np.random.Generator, number: int, days: int = 10) -> list[Row]:
    high = [days, 3, 6, 5]
    drawn = (random.integers(0, high).tolist() for _ in range(number))
    return [(day, kind, person, late) for day, kind, person, late in drawn]
