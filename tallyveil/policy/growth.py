"""The declaration of data that grows by days, and which of its days are over.

A table that grows is one table for ever, behind a mask: a version shows the days up to its
watermark, and no row of these changes any more. Everything public about it, the watermark first,
follows from the calendar and the policy, never from the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, PlainValidator, model_validator
from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import Declaration, conflict, wrong
from tallyveil.policy.value_checks import is_integer

__all__ = ["Growth"]

_LATEST = 3660  # days

_REPLACED = (
    "data that is replaced is not supported. Declare each version as a table with a ledger of its"
    " own, and count their budgets together"
)


def _late(value: Any) -> int:
    if is_integer(value) and 0 <= value <= _LATEST:
        return int(value)
    raise wrong(f"expected a whole number of days from 0 to {_LATEST}")


def _time(value: Any) -> dt.time:
    if isinstance(value, dt.time) and value.tzinfo is None:
        return value
    raise wrong("expected a time of day in UTC without quotes, such as 06:00:00")


class Growth(Declaration):
    """``append`` is the attribute by whose days the data grows, None for data that never changes.

    A row counts if and only if it arrived, by the column ``arrived``, at most ``late`` days after
    its day. So on day t all rows are there that will ever count of day t - 1 - late. Without such a
    column the rows count that are there when their day is first published. ``publish`` is the time
    of day, in UTC, at which a server publishes the days that are over.
    """

    append: str | None = Field(default=None, min_length=1, description="the name of an attribute")
    late: Annotated[int, PlainValidator(_late)] = 0
    arrived: str | None = Field(default=None, min_length=1, description="the name of a column")
    publish: Annotated[Any, PlainValidator(_time)] = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if value == "replace" or (isinstance(value, dict) and "replace" in value):
            raise wrong(f'expected "fixed" or {{ append = "day" }}: {_REPLACED}')
        return {} if value == "fixed" else value

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if self.append is None and self.model_fields_set:
            yield conflict('append missing; expected "fixed" or { append = "day", late = 3 }')

    def over(self, today: dt.date) -> dt.date:
        """The last day of which every row that will ever count is there: today - 1 - late."""
        return today - dt.timedelta(days=1 + self.late)

    def due(self, now: dt.datetime) -> dt.date:
        """The last day that is to be published by ``now``, in UTC."""
        today = now.date()
        if self.publish is not None and now.time() < self.publish:
            today -= dt.timedelta(days=1)
        return self.over(today)
