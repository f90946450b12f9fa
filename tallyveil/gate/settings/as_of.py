"""``dp.as_of``: the day, the moment or the version of which a session asks."""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

from tallyveil.errors import InvalidParameterValue

__all__ = ["AsOf", "read_as_of"]


class AsOf(NamedTuple):
    """One of the three. A ``moment`` is in UTC: what was known then, and nothing more is bought. A
    ``number`` is that of a version of a table whose rows are replaced."""

    day: dt.date | None = None
    moment: dt.datetime | None = None
    number: int | None = None

    @classmethod
    def of(cls, written: str) -> AsOf | None:
        """From what `read_as_of` returned."""
        if not written:
            return None
        if written.startswith("version "):
            return cls(number=int(written.split()[1]))
        if len(written) == len("2026-11-20"):
            return cls(day=dt.date.fromisoformat(written))
        return cls(moment=dt.datetime.fromisoformat(written))

    @property
    def end(self) -> dt.datetime | None:
        """The moment, or the end of the day."""
        if self.day is None:
            return self.moment
        return dt.datetime.combine(self.day, dt.time.max, dt.UTC)


def read_as_of(name: str, value: str, now: str = "") -> str:
    """Raises InvalidParameterValue."""
    text = value.strip()
    if not text:
        return ""
    if re.fullmatch(r"(?i)version\s+[0-9]{1,9}", text, re.ASCII):
        return f"version {int(text.split()[1])}"
    present = dt.datetime.now(dt.UTC)
    if text.lower() == "now":
        return present.isoformat(" ")
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return str(dt.date.fromisoformat(text))
        moment = dt.datetime.fromisoformat(text if ":" in text else "")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        moment = moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise _invalid(name, value) from None
    if moment > present:
        raise _invalid(name, value, "What will be known then is not known yet. ")
    return moment.isoformat(" ")


def _invalid(name: str, value: str, why: str = "") -> InvalidParameterValue:
    return InvalidParameterValue(
        f'invalid value for parameter "{name}": "{value}"',
        hint=f"{why}It is a day, such as '2026-11-20', a moment in UTC, such as '2026-11-20"
        " 10:15:00' or 'now', a version, such as 'version 3', or '' for all that is there.",
    )
