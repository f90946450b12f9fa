"""Small counts suppressed after the fact, as in statistical disclosure control.

It works on released numbers, so it protects nobody more and costs nothing: it keeps counts that are
mostly noise out of a report.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tallyveil.gate.interface import Notice
from tallyveil.rewriter import NoisyTable, Plan

__all__ = ["suppressed"]


def suppressed(
    plan: Plan, tables: dict[str, pa.Table], least: float
) -> tuple[dict[str, pa.Table], tuple[Notice, ...]]:
    """The noisy tables with NULL for each count below ``least``, and in its row for each aggregate
    that is no count; with the ends of their intervals and what else is known of them."""
    found, small, of = {}, 0, 0
    for table in plan.noisy:
        arrays = {name: tables[table.name].column(name) for name in tables[table.name].column_names}
        columns = [plan.column(output) for output in table.outputs]
        counts = [n for n, one in enumerate(columns) if one.multiplier * one.largest == 1]
        counts = [n for n in counts if columns[n].counts_up]
        below = {n: pc.fill_null(pc.less(arrays[f"__c{n}"], least), False) for n in counts}
        beside = pa.chunked_array([pa.array([False] * table.height)])
        for one in below.values():
            beside = pc.or_(beside, one)
        outputs = ((n, table.outputs[n]) for n in counts)
        same = {(one.table, one.column, one.summed): n for n, one in outputs}
        small += sum(pc.sum(below[n]).as_py() or 0 for n in same.values())
        of += len(same) * table.height
        for n in table.types:
            for name in _names(table, n):
                if name in arrays:
                    kept = pc.invert(below.get(n, beside))
                    nothing = pa.scalar(None, arrays[name].type)
                    arrays[name] = pc.if_else(kept, arrays[name], nothing)
        found[table.name] = pa.table(arrays)
    if not small:
        return found, ()
    hint = "SET dp.minimum_count TO DEFAULT shows them."
    text = f"{small} of {of} counts are below dp.minimum_count = {least:g}, and are NULL"
    return found, (Notice(text, hint=hint),)


def _names(table: NoisyTable, output: int) -> list[str]:
    """The columns about an output."""
    claims = [f"__p{n}" for n, claim in enumerate(table.claims) if claim.output == output]
    quotients = [
        f"__q{kind}{n}"
        for n, (quotient, kinds) in enumerate(table.quotients)
        for kind in kinds
        if any(share.output == output and share.table is None for share in quotient.shares)
    ]
    return [*(f"__{kind}{output}" for kind in "clus"), *claims, *quotients]
