"""Rows of a table that grows that are not counted because of their day, for the custodian alone."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from tallyveil.cube.counting import counting_unsettled
from tallyveil.cube.cube_loading import checked_columns, counted_rows, executed
from tallyveil.cube.sources import Passed, opened
from tallyveil.policy import Policy

__all__ = ["Unsettled", "unsettled_rows"]


class Unsettled(NamedTuple):
    """How many rows came too ``late`` for their day, are of days that are not over (``later``), or
    have no day of the declared range (``undated``)."""

    late: int
    later: int
    undated: int


def unsettled_rows(policy: Policy, name: str, source: Passed, through: dt.date) -> Unsettled:
    """Of all rows of the source, with days up to ``through`` published. Exact, confidential
    numbers. Raises SourceError."""
    table = policy.tables[name]
    alone = policy.model_copy(update={"tables": {name: table}})
    with opened(alone, source) as found:
        columns = checked_columns(alone, found)[name]
        found.begin()
        with counted_rows(table, found, columns, False) as rows:
            sql = counting_unsettled(table, columns, rows, through)
            return Unsettled(*executed(rows.connection, sql).fetchall()[0])
