"""Noisy answers as Arrow tables, for the public DuckDB to work on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tallyveil import deadline
from tallyveil.gate.deciding.outcome import Answered, LookIntervals
from tallyveil.gate.deciding.statistics import FoundStatistic
from tallyveil.gate.noisy_arrays import answer_array, double
from tallyveil.gate.quotient_intervals import QuotientIntervals
from tallyveil.knowledge import Answers, CountedQuantile, IntervalEnds, interval_ends
from tallyveil.mechanisms import STATISTICS
from tallyveil.rewriter import Item, NoisyTable, Output, Plan, Projection, StatisticOutput

__all__ = ["EXAMPLES", "empty_tables", "example_tables", "forward", "noisy_tables", "projected"]

_PORTION: Final = 2_048  # rows that are forwarded between two checks of the deadline

# For each output: its value, and the lower and the upper end of its interval.
_KINDS: Final = ("c", "l", "u")

# Of the examples: how many records there are, and by how many steps each moves a sum.
_RECORDS: Final = (1_000_003, 1_009, 211, 10_007, 100_003, 2_003, 401)
_MOVED: Final = 0.123457

EXAMPLES: Final = len(_RECORDS)


def noisy_tables(
    plan: Plan,
    answered: Answered,
    confidence: Fraction,
    looks: LookIntervals | None = None,
    quotients: QuotientIntervals | None = None,
    *,
    nonnegative: bool = False,
) -> dict[str, pa.Table]:
    """Every noisy table of the plan: keys, values, intervals at the confidence, and what else the
    statement asks for: deviations, probabilities, and the intervals of ``quotients``.

    With ``looks`` the intervals are those over all looks, which answers that are added up lack.
    ``nonnegative``: values of counts are at least 0, and their intervals end there too. This uses
    only released and public numbers.
    """
    return {
        table.name: _table(table, plan, answered, confidence, looks, quotients, nonnegative)
        for table in plan.noisy
    }


def projected(projection: Projection, table: pa.Table) -> list[tuple[Any, ...]]:
    """The result's rows, as Python values, of a statement that picks columns of a noisy table and
    averages."""
    numbers = list(range(table.num_rows))
    for order in reversed(projection.order):
        values = table.column(order.column).to_pylist()
        missing = [number for number in numbers if values[number] is None]
        known = [number for number in numbers if values[number] is not None]
        known.sort(key=values.__getitem__, reverse=order.descending)
        numbers = missing + known if order.nulls_first else known + missing
    end = None if projection.limit is None else projection.offset + projection.limit
    rows = list(zip(*(_item(item, table) for item in projection.items), strict=True))
    return [rows[number] for number in numbers[projection.offset : end]]


def _item(item: Item, table: pa.Table) -> list[Any]:
    """One of the result's columns."""
    values: list[Any] = table.column(item.column).to_pylist()
    if item.counts is None:
        return values
    counts = table.column(item.counts).to_pylist()
    # Division of integers would round once, where DuckDB rounds both to doubles before.
    return [
        float(total) / float(count)
        if total is not None and count is not None and count > 0
        else None
        for total, count in zip(values, counts, strict=True)
    ]


def forward(rows: list[tuple[Any, ...]], take: Callable[[list[tuple[Any, ...]]], object]) -> int:
    """Pass the rows to ``take`` in portions, between which the statement can be stopped. Returns
    their number."""
    for start in range(0, len(rows), _PORTION):
        deadline.check()
        take(rows[start : start + _PORTION])
    return len(rows)


def _table(
    table: NoisyTable,
    plan: Plan,
    answered: Answered,
    confidence: Fraction,
    looks: LookIntervals | None,
    quotients: QuotientIntervals | None,
    nonnegative: bool,
) -> pa.Table:
    arrays = {name: table.keys.column(name) for name in table.keys.column_names}
    groups = [_groups(output, answered) for output in table.outputs]
    columns = [plan.column(output) for output in table.outputs]
    for number, (output, column) in enumerate(zip(table.outputs, columns, strict=True)):
        least = 0 if nonnegative and column.counts_up else None
        found = (
            groups[number].intervals(confidence)
            if looks is None
            else _over_all_looks(output, looks)
        )
        for kind, steps in zip(_KINDS, found, strict=True):
            end = least if kind == "l" else None
            arrays[f"__{kind}{number}"] = answer_array(steps, column.multiplier, output.type, end)
    for number in table.deviations:
        deadline.check()
        unit = columns[number].multiplier
        own = groups[number].by_error(lambda error: error.deviation)
        doubles = {one: double(unit * Fraction(one)) for one in set(own) if one is not None}
        arrays[f"__s{number}"] = _doubles(None if one is None else doubles[one] for one in own)
    for number, claim in enumerate(table.claims):
        unit = columns[claim.output].multiplier
        low = None if claim.low is None else math.ceil(claim.low / unit)
        high = None if claim.high is None else math.floor(claim.high / unit)
        chances: list[float | None] = []
        for known in groups[claim.output]:
            deadline.check()
            chances.append(None if known is None else known.probability(low, high))
        arrays[f"__p{number}"] = _doubles(chances)
    for one in table.statistics:
        drawn = answered.statistics[one.table][one.histogram] if one.histogram >= 0 else None
        each = [*_statistic(one, drawn, confidence, nonnegative)]
        values, *ends = (pa.array([row[n] for row in each], pa.int64()) for n in range(3))
        arrays[f"__c{one.number}"] = values if one.values is None else one.values.take(values)
        for kind, end in zip("lu", ends, strict=True):
            arrays[f"__{kind}{one.number}"] = end if one.values is None else one.values.take(end)
        arrays[f"__s{one.number}"] = _doubles(row[3] for row in each)
    for number, asked in enumerate(table.quotients):
        own_columns = {} if quotients is None else quotients.columns(table, *asked)
        arrays |= {f"__q{name}{number}": found for name, found in own_columns.items()}
    if not arrays:
        return pa.table({"__row": pa.array(range(table.height), pa.int64())})
    return pa.table(arrays)


def _statistic(
    output: StatisticOutput, found: FoundStatistic | None, confidence: Fraction, nonnegative: bool
) -> Iterator[tuple[int | None, int | None, int | None, float | None]]:
    """For each group the distinct count, the ends of its interval and its standard deviation, 0
    where no cell has a value; of a quantile the place of its value, and those of its interval if it
    follows from counts."""
    for group in output.groups.tolist():
        one = None if found is None or group < 0 else found.known[group]
        if found is None or one is None:
            exact = 0 if group < 0 and output.values is None else None
            yield exact, exact, exact, exact
        elif output.values is not None:
            start = int(found.histogram.starts[group])
            counted = isinstance(one, CountedQuantile)
            low, high = (start + one.low, start + one.high) if counted else (None, None)
            yield start + one.value, low, high, None
        else:
            half, value = found.half(STATISTICS[one.mechanism], one.scale, confidence), one.value
            ends = [max(0, end) if nonnegative else end for end in (value - half, value + half)]
            yield max(0, value) if nonnegative else value, ends[0], ends[1], math.sqrt(one.spread)


def _groups(output: Output, answered: Answered) -> Answers:
    """What is known of each row of a noisy table."""
    columns = answered.summed if output.summed else answered.columns
    known = columns[output.table][output.column]
    return known if output.rows is None else known.take(output.rows.tolist())


def _over_all_looks(output: Output, looks: LookIntervals) -> IntervalEnds:
    """As `intervals`, over all looks."""
    rows = looks[output.table][output.column].ends
    if output.rows is not None:
        rows = [rows[row] for row in output.rows.tolist()]
    return interval_ends([(None, None, None) if row is None else row for row in rows])


def _doubles(values: Iterable[float | None]) -> pa.Array:
    """To ten digits: the last ones depend on the order in which a process has learnt answers."""
    digits = [None if one is None else float(f"{one:.10g}") for one in values]
    return pa.array(digits, pa.float64())


def empty_tables(plan: Plan) -> dict[str, pa.Table]:
    """The noisy tables without rows, which determine the types of a statement's result."""
    tables = {}
    for table in plan.noisy:
        schema = [pa.field(n, table.keys.schema.field(n).type) for n in table.keys.column_names]
        for number, own in table.types.items():
            schema += [pa.field(f"__{kind}{number}", own) for kind in _KINDS]
        with_deviation = (*table.deviations, *(one.number for one in table.statistics))
        schema += [pa.field(f"__s{number}", pa.float64()) for number in with_deviation]
        schema += [pa.field(f"__p{number}", pa.float64()) for number in range(len(table.claims))]
        for number, (_, asked) in enumerate(table.quotients):
            schema += [pa.field(f"__q{name}{number}", pa.float64()) for name in asked]
        tables[table.name] = pa.schema(schema or [pa.field("__row", pa.int64())]).empty_table()
    return tables


def example_tables(plan: Plan, number: int = 0) -> dict[str, pa.Table]:
    """The noisy tables if there were so many _RECORDS, spread evenly over the domain: exact, but
    sums are moved by so little that averages are no steps, as those of records practically never
    are. Each further ``number`` has other counts, from few on, and other averages."""
    counted, moved = _RECORDS[number], _MOVED * (1 + 3 * number)
    tables = {}
    for table in plan.noisy:
        schema = empty_tables(plan)[table.name].schema
        arrays = {name: table.keys.column(name) for name in table.keys.column_names}
        values = {n: _example(one, plan, counted, moved) for n, one in enumerate(table.outputs)}
        values |= {one.number: _example_statistic(one, plan) for one in table.statistics}
        arrays |= {f"__{kind}{number}": own for number, own in values.items() for kind in _KINDS}
        for name in schema.names:
            if name not in arrays:
                value = 1 if name.startswith("__p") else 0
                arrays[name] = pa.array([value] * table.height, schema.field(name).type)
        tables[table.name] = pa.table([arrays[name] for name in schema.names], schema)
    return tables


def _example(output: Output, plan: Plan, records: int, moved: float) -> pa.Array:
    column = plan.column(output)
    steps, counted = np.full((2, column.height), float(records))
    for factor, rows in zip(column.factors, column.factor_rows(column.numbers), strict=True):
        sums = np.bincount(factor.rows, factor.coefficients, factor.height)
        cells = np.bincount(factor.rows, factor.coefficients != 0, factor.height)
        steps *= sums[rows] / math.prod(factor.shape)
        counted *= cells[rows] / math.prod(factor.shape)
    if column.largest > 1 or not column.counts_up:
        steps += moved * counted
    known = steps if output.rows is None else steps[output.rows]
    return answer_array([round(one) for one in known.tolist()], column.multiplier, output.type)


def _example_statistic(output: StatisticOutput, plan: Plan) -> pa.Array:
    """All values of a group, or the middle one."""
    groups = output.groups.tolist()
    if output.histogram < 0:
        count = 0 if output.values is None else None
        return pa.array([count] * len(groups), output.type)
    found = plan.histograms[output.table][output.histogram]
    sizes = np.bincount(found.groups, minlength=found.height).tolist()
    if output.values is None:
        return pa.array([sizes[group] if group >= 0 else 0 for group in groups], output.type)
    places = [
        int(found.starts[group]) + sizes[group] // 2 if group >= 0 else None for group in groups
    ]
    return output.values.take(pa.array(places, pa.int64()))
