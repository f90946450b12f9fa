"""The noisy table of a plan with Wx itself in it, and intervals of no width."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tallyveil.gate.moment_intervals import Allowed, moment_ends
from tallyveil.rewriter import Column, NoisyTable, Output, Plan, StatisticOutput
from tallyveil.rewriter.query_plan import Moment, Share

__all__ = ["noiseless"]


def noiseless(
    plan: Plan, table: NoisyTable, truth: Callable[[str, Column], list[Fraction]]
) -> pa.Table:
    """``truth`` gives Wx of one column, by the protected table that it is about."""
    arrays: dict[str, Any] = {name: table.keys.column(name) for name in table.keys.column_names}
    for number, output in enumerate(table.outputs):
        values = _values(plan, output, truth)
        arrays[f"__c{number}"] = pa.array([_typed(v, output.type) for v in values], output.type)
        arrays[f"__l{number}"] = arrays[f"__u{number}"] = arrays[f"__c{number}"]
    for number in table.deviations:
        arrays[f"__s{number}"] = pa.array([0.0] * table.height)
    for number, claim in enumerate(table.claims):
        low, high = (math.inf if end is None else end for end in (claim.low, claim.high))
        arrays[f"__p{number}"] = pa.array(
            [
                float((claim.low is None or v >= low) and v <= high)
                for v in arrays[f"__c{claim.output}"].to_pylist()
            ]
        )
    for one in table.statistics:
        drawn = _statistic(plan, one, truth) if one.histogram >= 0 else []
        values = [drawn[group] if group >= 0 else None for group in one.groups.tolist()]
        if one.values is None:
            values = [value or 0 for value in values]
        arrays[f"__c{one.number}"] = pa.array(values, one.type)
        arrays[f"__l{one.number}"] = arrays[f"__u{one.number}"] = arrays[f"__c{one.number}"]
        arrays[f"__s{one.number}"] = pa.array([0.0] * table.height)
    every = {one.name: one for one in plan.noisy}

    def linear(shares: Sequence[Share], constant: Fraction) -> list[Fraction]:
        found = [constant] * table.height
        for share in shares:
            holder = table if share.table is None else every[share.table]
            own = _values(plan, holder.outputs[share.output], truth)
            own = own * (table.height // len(own))
            found = [one + share.times * v for one, v in zip(found, own, strict=True)]
        return found

    for number, (asked, columns) in enumerate(table.quotients):
        if isinstance(asked, Moment):
            sums = {"1": np.ones(table.height)}
            sums |= {one: np.array(linear(*own), dtype=float) for one, *own in asked.sums}
            ends = moment_ends(asked, Allowed(sums, sums), Fraction(1, 20))[0]
            quotients = [None if math.isnan(one) else float(one) for one in ends]
        else:
            sides = linear(asked.top, asked.above), linear(asked.bottom, asked.below)
            quotients = [float(a / b) if b else None for a, b in zip(*sides, strict=True)]
        for name in columns:
            own_values = [0.0] * table.height if name == "s" else quotients
            arrays[f"__q{name}{number}"] = pa.array(own_values, pa.float64())
    if not arrays:
        arrays["__row"] = pa.array(range(table.height), pa.int64())
    return pa.table(arrays)


def _statistic(
    plan: Plan, output: StatisticOutput, truth: Callable[[str, Column], list[Fraction]]
) -> list[Any]:
    """The distinct count, or the first value of at least the rank q, of each group."""
    histogram = plan.histograms[output.table][output.histogram]
    counts, found = truth(output.table, histogram.column), list[Any]()
    rows, ends = histogram.rows.tolist(), histogram.starts.tolist()
    for start, end in itertools.pairwise(ends):
        own = [int(counts[row]) for row in rows[start:end]]
        if histogram.q is None or output.values is None:
            found.append(sum(map(bool, own)))
            continue
        records = [place for place, count in enumerate(own) for _ in range(count)]
        rank = math.ceil(histogram.q * len(records)) - 1
        found.append(output.values[start + records[rank]].as_py() if records else None)
    return found


def _values(
    plan: Plan, output: Output, truth: Callable[[str, Column], list[Fraction]]
) -> list[Fraction]:
    """An output's exact values, by the rows of its noisy table."""
    columns, summed = plan.workloads[output.table].columns, None
    column = columns[output.column] if not output.summed else None
    if column is None:
        summed = plan.summed[output.table][output.column]
        column = summed.column
    values = truth(output.table, column)
    if summed is not None:
        parts, sums = truth(output.table, columns[summed.of]), [Fraction(0)] * column.height
        for part, place in zip(summed.parts.tolist(), summed.places.tolist(), strict=True):
            sums[place] += parts[part]
        assert values == sums
    if output.rows is not None:
        values = [values[row] for row in output.rows.tolist()]
    return values


def _typed(value: Fraction, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind):
        return Decimal(value.numerator) / Decimal(value.denominator)
    assert value.denominator == 1
    return int(value)
