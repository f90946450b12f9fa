"""A table of people whose rows are replaced by each version, with its policy and its versions."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import tallyveil
from tallyveil.cli.publishing import publish

__all__ = ["ATTRIBUTES", "EXACT", "People", "Row"]

EXACT = "SET dp.epsilon = 1000"  # noise of 0, but for a chance of e^-1000

ATTRIBUTES = 'sex = { values = ["F", "M"] }\nplace = { range = [0, 2] }'

Row = tuple[int, str, int]
"""A person, her sex, and her place."""


class People:
    """A table of people in a file, its policy, and its versions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "policy.toml").exists():
            self.declare()

    def declare(
        self,
        *,
        data: str = '"replace"',
        unit: str = '"row"',
        budget: str = "epsilon = 1e6",
        more: str = "",
        attributes: str = ATTRIBUTES,
    ) -> None:
        (self.folder / "policy.toml").write_text(
            f"""
            ledger = "people.ledger"
            [source]
            url = "people.csv"
            [tables.people]
            data = {data}
            privacy_unit = {unit}
            budget = {{ {budget} }}
            {more}
            [tables.people.attributes]
            {attributes}
            """
        )

    def fill(self, rows: Iterable[Row]) -> None:
        with (self.folder / "people.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("pid", "sex", "place"), *rows])

    def publish(self, *rows: Row, tables: tuple[str, ...] = ()) -> list[str]:
        if rows:
            self.fill(rows)
        found = publish(self.folder / "policy.toml", None, report=False, tables=tables)
        return [line for one in found for line in one.lines]

    def open(self, *settings: str, user: str = "") -> tallyveil.Connection:
        connection = tallyveil.connect(self.folder / "policy.toml", user=user)
        for setting in settings:
            connection.execute(setting)
        return connection

    def counts(self) -> Counter[tuple[str, int]]:
        """What the last version has, by sex and place."""
        with self.open(EXACT, "SET dp.source = fresh") as connection:
            return counted(connection)


def counted(connection: tallyveil.Connection) -> Counter[tuple[str, int]]:
    sql = "SELECT sex, place, count(*) FROM people GROUP BY sex, place"
    return Counter({(sex, place): n for sex, place, n in connection.execute(sql).fetchall() if n})


CELLS = list(itertools.product("FM", range(3)))
