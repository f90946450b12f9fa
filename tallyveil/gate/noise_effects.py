"""Notices where noise decides what a statement shows: in ratios, and in which rows come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallyveil.gate.interface import Notice
from tallyveil.rewriter import Plan, PublicCursor

__all__ = ["noise_effects"]


def noise_effects(
    plan: Plan, tables: dict[str, pa.Table], cursor: PublicCursor
) -> tuple[Notice, ...]:
    """At most one notice about ratios and one about ranks, from the noisy ``tables`` alone."""
    if not plan.checks:
        return ()
    unsafe = rows = 0
    uncertain: int | None = None
    near_zero = any(map(_any_near_zero, tables.values()))
    if not near_zero and all(check.about == "ratio" for check in plan.checks):
        return ()  # without a query, as for most averages
    with cursor.tables(tables):
        for check in plan.checks:
            if check.about == "ratio" and not near_zero:
                continue
            found = [[*row.values()] for row in cursor.arrow(check.sql).to_pylist()]
            if check.about == "ratio":
                unsafe, rows = unsafe + found[0][0], rows + found[0][1]
            elif uncertain is None and _overlap(found):
                uncertain = check.last
    notices = []
    if unsafe:
        where = "" if rows == 1 else f" in {unsafe} of {rows} rows"
        notices.append(
            Notice(
                f"a ratio or an average may be far off: the interval of its denominator includes"
                f" 0{where}",
                hint="Ask for fewer groups, set a larger dp.epsilon, or leave such rows out by"
                " HAVING dp_interval_low(n) > 0, where n is the denominator: for avg(x) it is"
                " count(x).",
            )
        )
    if uncertain is not None:
        notices.append(
            Notice(
                "which rows come first is uncertain: the intervals of rows"
                f" {uncertain} and {uncertain + 1} in this order overlap",
                hint="Ask for fewer groups, set a larger dp.epsilon, or show dp_interval_low and"
                " dp_interval_high of the column that ORDER BY names.",
            )
        )
    return tuple(notices)


def _any_near_zero(table: pa.Table) -> bool:
    """Whether any interval in a noisy table includes 0."""
    for name in table.column_names:
        if name.startswith("__l"):
            low, high = table.column(name), table.column(f"__u{name.removeprefix('__l')}")
            if low.null_count == len(low):
                continue  # of quantiles, which may be dates
            around = pc.and_(pc.less_equal(low, 0), pc.greater_equal(high, 0))
            if pc.any(around).as_py():
                return True
    return False


def _overlap(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether there are two rows with intervals that overlap, and noise in one of them."""
    if len(rows) < 2 or None in (*rows[0], *rows[1]):
        return False
    (low, high), (next_low, next_high) = rows
    exact = low == high and next_low == next_high
    return bool(not exact and low <= next_high and next_low <= high)
