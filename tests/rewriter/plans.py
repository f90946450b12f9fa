"""A plan in a few lines of text, as the fixtures have it."""

from __future__ import annotations

from typing import Any

from tallyveil.rewriter import Column, Plan
from tallyveil.workload.workload import Factor

__all__ = ["describe", "meaning"]


def describe(plan: Plan) -> str:
    """The domain's SQL, one line per column of the workload, and the SQL over noisy rows."""
    lines = [f"domain   {query}" for query in plan.domain_queries]
    for table, workload in plan.workloads.items():
        lines += [f"asks     {table}: {_column(column)}" for column in workload.columns]
    for noisy in plan.noisy:
        types = ", ".join(
            f"{'sum' if output.summed else 'column'} {output.column} {output.type}"
            for output in noisy.outputs
        )
        lines.append(f"noisy    {noisy.height} rows; {types or 'keys only'}")
        lines += [f"asks     the standard deviation of c{number}" for number in noisy.deviations]
        lines += [f"asks     whether {c.low} ≤ c{c.output} ≤ {c.high}" for c in noisy.claims]
    lines += [f"reads    {name}" for name in sorted(plan.relations)]
    return "\n".join([*lines, f"outer    {plan.sql}"])


def _column(column: Column) -> str:
    """Rows, axes, entries, coefficients and unit of each factor: all there is to a column of W."""
    factors = " ⊗ ".join(map(_factor, column.factors)) or "the constant row"
    some = f", {len(column.selected)} rows of it" if column.selected is not None else ""
    unit = "" if column.multiplier == 1 else f", times {column.multiplier}"
    return f"{column.height} rows: {factors}{some}{unit}"


def _factor(factor: Factor) -> str:
    values = sorted(set(factor.coefficients.tolist()))
    shown = " ".join(map(str, values[:4])) + (f" … {values[-1]}" if len(values) > 4 else "")
    axes = " × ".join(factor.axes) or "no axis"
    return f"{factor.height} over {axes}, {len(factor.rows)} entries of {shown or 'none'}"


def meaning(plan: Plan) -> Any:
    """Everything the gate sees of a plan, except for how its columns are factored."""
    tables = []
    for table in plan.noisy:
        outputs = []
        for output in table.outputs:
            of: object = None
            if output.summed:
                one = plan.summed[output.table][output.column]
                column, of = one.column, (one.of, one.parts.tolist(), one.places.tolist())
            else:
                column = plan.workloads[output.table].columns[output.column]
            keys = tuple(column.named_rows)
            if output.rows is not None:
                keys = tuple(keys[row] for row in output.rows.tolist())
            outputs.append((output.table, output.type, column.multiplier, keys, of))
        tables.append((table.keys, table.height, outputs, table.deviations, table.claims))
    rest = (plan.sql, plan.relations, plan.remarks, plan.cautions)
    return tables, {t: w.key for t, w in plan.workloads.items()}, rest
