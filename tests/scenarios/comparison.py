"""What a step shows, in the form it is expected in, and whether it is that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from tests.scenarios.scenario import Problem, Step

__all__ = ["Shown", "agrees", "written"]

_POINT = re.compile(r"-?\d+\.(\d+)")


@dataclass
class Shown:
    rows: list[tuple[Any, ...]] | None = None
    error: Problem | None = None
    notices: list[Problem] = field(default_factory=list)

    def lines(self) -> list[str]:
        """As a scenario would expect all of it."""
        found = [f" {row}" for row in map(written, self.rows or [])]
        found += [" (no rows)"] if self.rows == [] else []
        for one in [self.error, *self.notices]:
            if one is not None:
                state = f" {one.sqlstate}" if one.severity == "ERROR" else ""
                found.append(f" {one.severity}{state}: {one.message}")
                found += [f" DETAIL: {one.detail}"] if one.detail else []
                found += [f" HINT: {one.hint}"] if one.hint else []
        return found


def written(row: Sequence[Any]) -> str:
    return " | ".join(map(_cell, row))


def _cell(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case "":
            return "''"
        case bool():
            return "true" if value else "false"
        case list():
            return "{" + ",".join(map(_cell, value)) + "}"
    return str(value)


def agrees(step: Step, shown: Shown) -> bool:
    """Whether all that is expected is shown. Charges are compared elsewhere."""
    if (step.error is None) != (shown.error is None):
        return False
    if step.error is not None and shown.error is not None:
        place = step.caret in (None, shown.error.position)
        if not place or not _same_problem(step.error, shown.error):
            return False
    if step.notices is not None and not (
        len(step.notices) == len(shown.notices)
        and all(map(_same_problem, step.notices, shown.notices))
    ):
        return False
    if step.rows is None:
        return True
    if shown.rows is None:
        return False
    found = [written(row) for row in shown.rows]
    return _in_order(step.rows, found) if step.ordered else _in_any_order(step.rows, found)


def _same_problem(expected: Problem, found: Problem) -> bool:
    names = ("severity", "sqlstate", "message", "detail", "hint")
    return all(
        getattr(expected, name) is None
        or _same(getattr(expected, name), getattr(found, name) or "none")
        for name in names
    )


def _in_order(expected: Sequence[str], found: Sequence[str]) -> bool:
    if not expected:
        return not found
    first, *rest = expected
    if first == "…":
        return any(_in_order(rest, found[n:]) for n in range(len(found) + 1))
    return bool(found) and _same_row(first, found[0]) and _in_order(rest, found[1:])


def _in_any_order(expected: Sequence[str], found: Sequence[str]) -> bool:
    left = list(found)
    for one in expected:
        if one != "…":
            at = next((n for n, row in enumerate(left) if _same_row(one, row)), None)
            if at is None:
                return False
            del left[at]
    return not left or "…" in expected


def _same_row(expected: str, found: str) -> bool:
    ours, theirs = expected.split(" | "), found.split(" | ")
    return (len(ours) == len(theirs) and all(map(_same, ours, theirs))) or _same(expected, found)


def _same(expected: str, found: str) -> bool:
    """A point asks for its digits, and ``…`` for nothing."""
    expected, found = expected.strip(), found.strip()
    if "…" in expected:
        parts = map(re.escape, expected.split("…"))
        return re.fullmatch(".*".join(parts), found, re.DOTALL) is not None
    if point := _POINT.fullmatch(expected):
        try:
            off = abs(Decimal(found) - Decimal(expected))
        except InvalidOperation:
            return False
        return off < Decimal(10) ** -len(point[1])
    return expected == found
