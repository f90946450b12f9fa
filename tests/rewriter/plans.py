"""A plan in a few lines of text, as the fixtures have it."""

from __future__ import annotations

from tallyveil.rewriter import Column, Plan

__all__ = ["describe"]


def describe(plan: Plan) -> str:
    """The domain's SQL, one line per column of the workload, and the SQL over noisy rows."""
    lines = [f"domain   {query}" for query in plan.domain_queries]
    for table, workload in plan.workloads.items():
        lines += [f"asks     {table}: {_column(column)}" for column in workload.columns]
    for noisy in plan.noisy:
        types = ", ".join(f"column {output.column} {output.type}" for output in noisy.outputs)
        lines.append(f"noisy    {noisy.height} rows; {types or 'keys only'}")
    lines += [f"reads    dp.{name}" for name in sorted(plan.relations)]
    return "\n".join([*lines, f"outer    {plan.sql}"])


def _column(column: Column) -> str:
    """Rows, axes, entries, coefficients and unit: all there is to a column of W."""
    values = sorted(set(column.coefficients.tolist()))
    shown = " ".join(map(str, values[:4])) + (f" … {values[-1]}" if len(values) > 4 else "")
    axes = " × ".join(column.axes) or "no axis"
    unit = "" if column.multiplier == 1 else f", times {column.multiplier}"
    return (
        f"{column.height} rows over {axes}, {len(column.rows)} entries of {shown or 'none'}{unit}"
    )
