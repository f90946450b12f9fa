"""The declaration of data that grows by days or is replaced, and of plans for data that grows."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PlainValidator, model_validator
from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import Declaration, conflict, mistaken, wrong
from tallyveil.policy.mistakes import written
from tallyveil.policy.table_keys import Share
from tallyveil.policy.value_checks import AttributeNames, is_integer, listed

if TYPE_CHECKING:
    from tallyveil.policy.tables import Table

__all__ = ["DATA", "Growth", "PlanDeclaration", "growth_conflicts"]

DATA = '"fixed", { append = "day", late = 3 } or "replace"'
"""What a table's data can be, for messages."""

_LATEST = 3660  # days


def _late(value: Any) -> int:
    if is_integer(value) and 0 <= value <= _LATEST:
        return int(value)
    raise wrong(f"expected a whole number of days from 0 to {_LATEST}")


def _time(value: Any) -> dt.time:
    if isinstance(value, dt.time) and value.tzinfo is None:
        return value
    raise wrong("expected a time of day in UTC without quotes, such as 06:00:00")


class Growth(Declaration):
    """How a table's data changes, if it does: ``publish`` is the time of day, in UTC, at which a
    server publishes a version.

    A table that grows is one table for ever, behind a mask: a version shows the days up to its
    watermark, and no row of these changes any more. Everything public about it, the watermark
    first, follows from the calendar and the policy, never from the rows.

    ``append`` is the attribute by whose days the data grows.

    A row counts if and only if it arrived, by the column ``arrived``, at most ``late`` days after
    its day. So on day t all rows are there that will ever count of day t - 1 - late. Without such a
    column the rows count that are there when their day is first published.

    With ``replace`` each version has all rows anew, in any cells, but that a privacy unit keeps its
    first values of the ``stable`` attributes.
    """

    append: str | None = Field(default=None, min_length=1, description="the name of an attribute")
    late: Annotated[int, PlainValidator(_late)] = 0
    arrived: str | None = Field(default=None, min_length=1, description="the name of a column")
    replace: bool = False
    stable: AttributeNames = ()
    publish: Annotated[Any, PlainValidator(_time)] = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if value == "fixed":
            return {}
        return {"replace": True} if value == "replace" else value

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if self.append is None and not self.replace and self.model_fields_set:
            yield conflict(f"append or replace missing; expected {DATA}")
        of_growth = [key for key in ("late", "arrived") if key in self.model_fields_set]
        if self.replace and (self.append is not None or of_growth):
            yield conflict(
                "expected append, late and arrived in a table that grows only", "replace"
            )
        if self.stable and not self.replace:
            yield conflict("expected with replace = true only", "stable")

    @property
    def declared(self) -> dict[str, Any]:
        """The keys that determine which rows are counted."""
        if self.replace:
            return {"replace": True, "stable": list(self.stable)}
        return self.model_dump(include={"append", "late", "arrived"})

    def over(self, today: dt.date) -> dt.date:
        """The last day of which every row that will ever count is there: today - 1 - late."""
        return today - dt.timedelta(days=1 + self.late)

    def due(self, now: dt.datetime) -> dt.date:
        """The last day that is to be published by ``now``, in UTC."""
        return self.over(self.time(now).date())

    def time(self, now: dt.datetime) -> dt.datetime:
        """The last time of publication by ``now``, in UTC; without one, the start of the day."""
        time = dt.datetime.combine(now.date(), self.publish or dt.time.min, dt.UTC)
        return time if time <= now else time - dt.timedelta(days=1)


def _tiles(value: Any) -> tuple[str, ...]:
    expected = 'a list of tiles: "day", "week", "28 days" (or another number), "year"'
    tiles = listed(value, expected)
    for tile in tiles:
        known = isinstance(tile, str) and (
            tile in ("day", "week", "year") or re.fullmatch(r"[1-9][0-9]{0,2} days", tile)
        )
        if not known:
            raise wrong(f"expected {expected}")
    if not tiles or len({*tiles}) < len(tiles):
        raise wrong(f"expected {expected}, each once")
    return tuple(tiles)


class PlanDeclaration(Declaration):
    """A dashboard over a table that grows: counts ``by`` attributes for each of the ``tiles``. What
    they need is bought when days are published, from a part of the table's budget that is kept from
    all other questions."""

    by: AttributeNames = ()
    tiles: Annotated[Any, PlainValidator(_tiles)] = ("day", "week", "28 days", "year")
    budget: Share = Field(description="a part of the table's budget such as { epsilon = 1.0 }")


def growth_conflicts(table: Table) -> Iterator[InitErrorDetails]:
    """Yield what a table that grows cannot have, and what needs one."""
    yield from _plan_conflicts(table)
    yield from _replacement_conflicts(table)
    if not table.grows:
        if table.privacy_unit.per is not None:
            text = 'expected with data = { append = "day" } only'
            yield conflict(text, "privacy_unit", "per")
        return
    name = table.data.append or ""
    declared = table.attributes.get(name)
    days = None if declared is None else declared.range
    if days is None or not isinstance(days[0], dt.date) or isinstance(days[0], dt.datetime):
        yield mistaken(name, "expected an attribute that is a range of days", "data", "append")
    elif declared is not None and (
        declared.clamp or declared.nullable or declared.label is not False
    ):
        yield conflict(
            "expected no clamp, other or nullable: a row without a day in the range has no time"
            " at which it is settled, and is left out",
            *("attributes", name),
        )
    yield from _refused(table, ("count", "keys", "per_unit", "invariants"), "that grows")


def _refused(table: Table, keys: Sequence[str], which: str) -> Iterator[InitErrorDetails]:
    for key in keys:
        if getattr(table, key):
            yield conflict(f"expected none in a table {which}", key)


def _replacement_conflicts(table: Table) -> Iterator[InitErrorDetails]:
    if not table.data.replace:
        return
    for name in table.data.stable:
        if name not in table.attributes:
            yield mistaken(name, "expected attributes of the table", "data", "stable")
    if table.data.stable and (table.neighbours == "replace" or table.privacy_unit.column is None):
        yield conflict(
            'expected with neighbours = "add_remove" and privacy_unit = { column = "…", max_rows ='
            " … } only: a unit is known by its column, and keeps its first values",
            *("data", "stable"),
        )
    keys = ("count", "keys", "per_unit", "invariants", "inference_control")
    yield from _refused(table, keys, "whose rows are replaced")


def _plan_conflicts(table: Table) -> Iterator[InitErrorDetails]:
    if table.plans and not (table.grows and table.inference_control is None):
        text = "expected in a table that grows, without inference_control, only"
        yield conflict(text, "plans")
    for name, plan in table.plans.items():
        wrong = [one for one in plan.by if one == table.data.append or one not in table.attributes]
        if wrong:
            text = f"expected attributes of the table but its days; {written(wrong[0])} is none"
            yield conflict(text, "plans", name, "by")
        if (plan.budget.rho is None) != table.budget.pure:
            unit = "epsilon" if table.budget.pure else "rho"
            yield conflict(f"expected {unit}, as its table counts", "plans", name, "budget")
    whole = table.budget.epsilon if table.budget.pure else table.budget.rho
    if whole is not None and table.reserved > whole:
        text = f"expected budgets of plans that add up to at most {written(whole)}, the table's"
        yield conflict(text, "plans")
