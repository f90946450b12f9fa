"""Whether two answers are one: the same rows, each as often, numbers within rounding."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

__all__ = ["same_rows"]

# Sums of quotients are counted on a grid of 2⁻⁴⁰ of the largest; doubles add up in any order.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-9


def same_rows(
    ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]], *, ordered: bool
) -> bool:
    left, right = ([tuple(map(_plain, row)) for row in rows] for rows in (ours, theirs))
    if not ordered:
        left, right = sorted(left, key=_place), sorted(right, key=_place)
    return len(left) == len(right) and all(
        len(a) == len(b) and all(map(_same, a, b)) for a, b in zip(left, right, strict=True)
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE) or (a != a and b != b)
    return bool(a == b) and type(a) is type(b)


def _plain(value: Any) -> Any:
    """Numbers as floats, days as moments: types of one value differ between the databases."""
    match value:
        case bool() | None | str():
            return value
        case int() | float() | Decimal():
            return float(value) + 0.0
        case dt.datetime():
            return value.replace(tzinfo=None)
        case dt.date():
            return dt.datetime(value.year, value.month, value.day)
    return str(value)


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where a row sorts: by what rounding leaves alone first, since it could swap rows."""
    exact = [("float", 0.0) if _rounded(v) else _sortable(v) for v in row]
    return (exact, [round(v, 6) for v in row if _rounded(v)])


def _sortable(value: Any) -> tuple[str, Any]:
    if isinstance(value, float):
        return ("float", round(value, 6))
    return (type(value).__name__, 0 if value is None else value)


def _rounded(value: Any) -> bool:
    return isinstance(value, float) and not round(value, 6).is_integer()
