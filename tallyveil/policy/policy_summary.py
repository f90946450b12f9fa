"""A description of a policy for `tallyveil check`."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from tallyveil.policy.domain import Attribute, Value, shown
from tallyveil.policy.growth.growth import Growth
from tallyveil.policy.policy import Policy
from tallyveil.policy.table_keys import Budget, InferenceControl
from tallyveil.policy.tables import Table

__all__ = ["summary"]


def summary(policy: Policy) -> list[str]:
    """Return lines about every table, then about the defaults and the ledger. Public facts only."""
    lines = [line for table in policy.tables.values() for line in _table(table)]
    source = (
        policy.source.shown if policy.source else "an open DuckDB connection, passed to connect"
    )
    defaults = policy.defaults
    if defaults.epsilon is not None:
        target = f"ε = {_number(defaults.epsilon)} a query"
    elif defaults.rho is not None:
        target = f"ρ = {_number(defaults.rho)} a query"
    else:
        target = f"a half-width of {defaults.half_width:g}"
    if defaults.mechanism != "auto":
        target += f" by {defaults.mechanism}"
    counts = ", no count below 0" if defaults.nonnegative else ""
    return [
        *lines,
        *(
            f"public table {table.name}: {table.origin} from"
            f" {table.file.shown if table.file else 'the source'}, visible to everyone in full"
            for table in policy.public.values()
        ),
        *(f"view {name}: {' '.join(sql.split())}" for name, sql in policy.view_sql.items()),
        *_analysts(policy),
        f"source: {source}",
        f"by default: {target}, intervals at {defaults.confidence:g} confidence{counts}",
        f"ledger: {policy.ledger}",
    ]


def _table(table: Table) -> Iterator[str]:
    budget = _budget(table.budget) if table.head is None else f"that of {table.head.name}"
    yield (f"table {table.name}: {table.domain.size:,} cells, budget {budget}")
    if table.key is not None:
        column, head, other = table.key
        yield f"  has the units of {head}, to be joined ON {table.name}.{column} = {head}.{other}"
    if table.mechanisms is not None:
        yield f"  mechanisms: {', '.join(table.mechanisms)}"
    if table.count_range is not None:
        alike = (
            f"of the same {', '.join(table.count_range.by)}" if table.count_range.by else "in all"
        )
        yield f"  custodian's guarantee: at most {table.count_range.at_most} records {alike}"
    if table.inference_control is not None:
        yield f"  inference control: {_control(table.inference_control)}"
    yield f"  protects: {_unit(table)}"
    if table.grows:
        yield f"  grows: {_growth(table.data)}"
    if table.data.replace:
        yield f"  rows are replaced by each version{_replacement(table.data)}"
    if table.count is not None:
        yield f"  each row of the source counts as many records as its {table.count}"
    for attribute, column in zip(table.domain.attributes, table.columns, strict=False):
        name = attribute.name if column == attribute.name else f"{attribute.name} (from {column})"
        yield f"  {name}: {_axis(attribute)}; {_outside(attribute)}; {_null(attribute)}"
    for name, rows in table.per_unit.items():
        where = "" if rows.where is None else f" WHERE {' '.join(rows.where.split())}"
        most = table.domain[name].size - 1
        yield f"  {name}: rows of the unit that {rows.count} counts{where}, 0 to {most}"
    own = table.domain.attributes[: len(table.columns)]
    if all(attribute.complete for attribute in own):
        yield f"  every record has a cell: count(*) counts {_counted(table)}"
    else:
        left = ", ".join(attribute.name for attribute in own if not attribute.complete)
        yield f"  records without a cell are not counted; attributes that allow this: {left}"
    for one in table.exact:
        yield f"  exact, free and without protection: {' '.join(one.source.split())}"


def _growth(growth: Growth) -> str:
    arrived = "" if growth.arrived is None else f", of rows whose {growth.arrived} is no later"
    published = "" if growth.publish is None else f"; published at {growth.publish} UTC"
    return f"by {growth.append}, a day is over after {growth.late} days{arrived}{published}"


def _replacement(growth: Growth) -> str:
    kept = f", but for the first values of {', '.join(growth.stable)}" if growth.stable else ""
    return kept + ("" if growth.publish is None else f"; published at {growth.publish} UTC")


def _counted(table: Table) -> str:
    """Return which records count(*) counts if each has a cell."""
    column, most = table.privacy_unit.column, table.privacy_unit.max_rows
    counted = "all records"
    if column is not None:
        counted = f"at most {most} of each {column}, and none without a {column}"
    if table.left_out:
        counted += f"; {table.left_out}, are left out"
    return counted


def _control(control: InferenceControl) -> str:
    small = (
        ""
        if control.min_count is None
        else f", unless it is at least {control.min_count:,} at this confidence"
    )
    return (
        f"no purchase may make a count known more precisely than ±{control.min_half_width:g} at"
        f" {control.confidence:g} confidence{small}"
    )


def _budget(budget: Budget) -> str:
    if budget.rho is not None:
        return f"ρ = {_number(budget.rho)}, as ε at δ = {float(budget.delta or 0):g}"
    amount = f"ε = {_number(budget.epsilon or Fraction(0))}"
    return amount if budget.pure else f"{amount} at δ = {float(budget.delta or 0):g}, counted in ρ"


def _analysts(policy: Policy) -> Iterator[str]:
    for name in policy.analysts:
        own = (table for table in policy.tables if not policy.tables[table].keys)
        shares = ((table, policy.share(name, table)) for table in own)
        amounts = "; ".join(f"{_budget(share)} of {table}" for table, share in shares if share)
        yield f"analyst {name} may spend: {amounts}"
    if policy.analysts:
        yield "nobody else may spend; answers from history are free for everyone"


def _unit(table: Table) -> str:
    unit = table.privacy_unit
    change = "added or removed" if table.neighbours == "add_remove" else "exchanged for another"
    if unit.column is None:
        return f"one {'row' if table.count is None else 'record'}, {change}"
    if unit.per is None:
        return f"all rows of one {unit.column}, {change}; {table.capped}"
    days = unit.per if unit.window == 1 else f"{unit.window} successive {unit.per}s"
    times = "n" if table.budget.pure else "n²"
    return (
        f"the rows of one {unit.column} in any {days}, {change}; {table.capped}; by its rows in n"
        f" times as many days one loses up to {times} times as much"
    )


def _axis(attribute: Attribute) -> str:
    if attribute.edges is not None:
        low, high = attribute.edges[0], attribute.edges[-1]
        bins = f"{len(attribute.edges) - 1:,} bins [{low}, {high})"
        by = " represented by declared values" if attribute.represented else ""
        return f"{bins}{by}, {attribute.sql_type}"
    special = {attribute.null_cell, attribute.other_cell} - {None}
    declared = attribute.size - len(special)
    if attribute.stepped and attribute.ends is not None:
        span = "{} to {}".format(*map(shown, attribute.ends))
        if attribute.step is not None:
            span += f" in steps of {attribute.step_text}"
        return f"range {span}, {declared:,} cells, {attribute.sql_type}{_truncated(attribute)}"
    return f"{declared:,} values, {attribute.sql_type}{_truncated(attribute)}"


def _truncated(attribute: Attribute) -> str:
    """Return how the source's values are finer than the cells; empty if they are not known to."""
    if attribute.step is not None:
        times = not isinstance(attribute.step, Decimal)
        rounded = "cut to the step before" if times else "rounded to the nearest step"
        between = "compared with constants between steps" if attribute.rounds else ""
        return f" ({rounded}{'; ' * bool(between)}{between})"
    if attribute.prefix is not None:
        return f" (the first characters of texts, {attribute.prefix} at most)"
    if attribute.truncates is None:
        return ""
    if not attribute.coarse:
        return " (text in the source; a time of day in it is not counted)"
    return f" ({attribute.truncates} in the source, counted by the day)"


def _outside(attribute: Attribute) -> str:
    if attribute.clamp:
        return "values beyond an end go to the nearest cell"
    if attribute.other_cell is None:
        return "records with other values are left out"
    return f"other values go to {_cell(attribute.cells[attribute.other_cell])}"


def _null(attribute: Attribute) -> str:
    cell = attribute.null_cell if attribute.null_cell is not None else attribute.other_cell
    if cell is None:
        return "records with a NULL are left out"
    return f"NULLs go to {_cell(attribute.cells[cell])}"


def _cell(value: Value) -> str:
    return "the NULL cell" if value is None else f"'{value}'"


def _number(value: Fraction) -> str:
    """Return a decimal of up to six digits if that is exact, else the fraction itself."""
    text = f"{float(value):g}"
    return text if Fraction(text) == value else str(value)
