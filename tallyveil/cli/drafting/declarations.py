"""What a draft declares of a column, by its type, its constraints and perhaps its contents.

What only the custodian can know is left blank, as ``[]`` or ``{ }``: `tallyveil check` names it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tallyveil.cli.drafting.check_constraints import checked
from tallyveil.cube import Contents, SourceColumn, SourceTable
from tallyveil.policy.value_checks import MAX_CELLS

__all__ = ["Declared", "declared", "of_range", "steps"]

_WHOLE: Final = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_SCALE: Final = re.compile(r"\d+")
_NUMBERS: Final = ("FLOAT", "DOUBLE", "DECIMAL")
_BY_NAME: Final = re.compile(r"(?i:(^|[\W_])(id|pid|uuid|guid))$|[a-z]Id$", re.ASCII)

_UNNAMED: Final = "ENUM of no declared type, whose labels may come from rows"


class Declared(NamedTuple):
    """The keys of an attribute with a remark. ``unused``: it is none, unless the custodian wants
    it; a ``unit`` may tell whose a row is."""

    keys: Mapping[str, Any]
    remark: str
    unused: bool = False
    unit: bool = False

    @property
    def blank(self) -> bool:
        known = any(self.keys.get(kind) for kind in ("values", "range", "bins"))
        return not self.unused and not known


def declared(table: SourceTable, column: SourceColumn, *, text_only: bool) -> Declared:
    """``text_only``: every column of the source is text, so that its type says nothing."""
    key = next((key for key in table.keys if column.name in key), None)
    found = _by_type(table, column, text_only=text_only)
    if key is not None:
        why = "of a key" if len(key) == 1 else f"of a key ({', '.join(key)})"
    elif column.references is not None:
        why = f"references {column.references}"
    elif _BY_NAME.search(column.name) or column.type == "UUID":
        why = "an identifier by its name or type"
    else:
        return found
    return found._replace(remark=f"{found.remark}; {why}", unused=True, unit=True)


def _by_type(table: SourceTable, column: SourceColumn, *, text_only: bool) -> Declared:
    base = "LIST" if column.type.endswith("]") else column.type.split("(")[0]
    said = checked(column.name, table.checks)
    seen = table.contents.get(column.name, Contents(None, None))
    kind = column.type if base != "ENUM" else "ENUM" if column.labels else _UNNAMED
    remark = "; ".join((kind, *map("CHECK {}".format, said.words)))
    nullable = {"nullable": True} if column.nullable else {}
    if text_only:
        return Declared(nullable, "text")
    if said.values is not None:
        return Declared({"values": said.values, **nullable}, remark)
    low, high = (said.low, said.high) if seen.ends is None else _outward(*seen.ends)
    if _WHOLE.fullmatch(base):
        return Declared(of_range(low, high) | {"clamp": True} | nullable, remark)
    if base in _NUMBERS:
        decimals = int(_SCALE.findall(column.type)[-1]) if base == "DECIMAL" else 0
        if decimals and seen.ends is None:
            keys = {"range": [], "step": Decimal(1).scaleb(-decimals)}
        else:
            keys = {"bins": [] if seen.ends is None else steps(*seen.ends)}
        return Declared(keys | {"clamp": True, "nullable": True}, remark)
    if base == "DATE":
        return Declared(of_range(low, high) | {"other": True}, remark)
    if base == "TIME":
        return Declared({"range": [], "step": "1 hour", "other": True}, remark)
    if base == "INTERVAL":
        return Declared({"range": [], "step": "1 hour", "other": True}, remark)
    if base.startswith("TIMESTAMP"):
        zone = dt.UTC if base.startswith(("TIMESTAMP WITH", "TIMESTAMPTZ")) else None
        remark += "; ends with offsets, as 2026-01-01 00:00:00Z" if zone else ""
        return Declared(_by_hour(low, high, zone) | {"other": True}, remark)
    if base == "BOOLEAN":
        return Declared({"values": [True, False], "other": True}, remark)
    if base in ("VARCHAR", "ENUM"):
        values: Sequence[str] = column.labels or seen.values or []
        return Declared({"values": values, "other": _label(values)} | nullable, remark)
    return Declared({"values": []}, f"{remark}: cast it in a SELECT given as from", unused=True)


def _label(values: Sequence[Any]) -> str | bool:
    """A label of ``other`` that is not among the values; true for the usual one."""
    label = "other"
    while label in values:
        label = f"any {label}"
    return True if label == "other" else label


def of_range(low: Any, high: Any) -> dict[str, Any]:
    """Keys of a range, blank unless both ends are known and it is not too long; then bins."""
    alike = type(low) is type(high) and isinstance(low, int | dt.date)
    if not alike or low > high:
        return {"range": []}
    if isinstance(low, int) and high - low >= MAX_CELLS:
        return {"bins": steps(low, high)}
    return {"range": [low, high]}


def _by_hour(low: dt.date | None, high: dt.date | None, zone: dt.tzinfo | None) -> dict[str, Any]:
    """Keys of a range in hours, from the first hour of a day to the last one of another."""
    ends = []
    if low is not None and high is not None:
        ends = [
            dt.datetime.combine(day, dt.time(hour), zone) for day, hour in ((low, 0), (high, 23))
        ]
    return {"range": ends, "step": "1 hour"}


def _outward(low: Any, high: Any) -> tuple[Any, Any]:
    """Ends further out, at a round number of the size of the range, or the year's first and last
    day."""
    if isinstance(low, dt.date):
        return dt.date(low.year, 1, 1), dt.date(high.year, 12, 31)
    if not isinstance(low, int):
        return None, None
    unit = 10 ** (len(str(high - low)) - 1)
    return low // unit * unit, -(-high // unit) * unit


def steps(low: Any, high: Any) -> list[Any]:
    """Edges of about ten even bins from ``low`` to ``high``, which clamping moves into the last, at
    round numbers; blank if there are none."""
    try:
        first, last = Decimal(str(low)), Decimal(str(high))
        span = last - first or Decimal(1)
        tenth = Decimal(1).scaleb(span.adjusted() - 1)
        unit = next(tenth * each for each in (1, 2, 5, 10) if span <= 10 * each * tenth)
        edges = [first // unit * unit - (unit if first % unit < 0 else 0)]
        while len(edges) < 2 or edges[-1] < last:
            edges.append(edges[-1] + unit)
    except ArithmeticError:  # too many digits
        return []
    whole = all(edge == edge.to_integral_value() for edge in edges)
    found = [int(edge) if whole else float(edge) for edge in edges]
    return found if all(a < b for a, b in pairwise(found)) else []
