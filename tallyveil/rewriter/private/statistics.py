"""Aggregates that are not linear in the counts: distinct counts, quantiles, and fixed MIN and MAX.

A distinct count or quantile asks a `Histogram`: the counts of the block grouped by its keys and by
the values of the argument, of the records that meet WHERE and FILTER and have a value. The values
are in the plan, so that an answer of the gate, a place in the histogram, becomes a value again.

MIN and MAX of an argument that has one value in all cells of each group are that value, whatever
the records are. Otherwise they are quantiles, if the session allows that (`Block.extremes`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tallyveil.arrays import IntArray
from tallyveil.errors import DatatypeMismatch, FeatureNotSupported, InvalidParameterValue
from tallyveil.rewriter.domain.component_parts import ComponentParts
from tallyveil.rewriter.domain.components import LinearQuery
from tallyveil.rewriter.domain.domain_relation import is_duration
from tallyveil.rewriter.domain.evaluate import Evaluated, evaluate
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.private.block import Block
from tallyveil.rewriter.private.grouping import coarser_rows
from tallyveil.rewriter.private.kept_rows import checked_source
from tallyveil.rewriter.private.noisy_tables import Collected
from tallyveil.rewriter.private.outputs import Outputs
from tallyveil.rewriter.query_plan import Caution, NoisyTable, StatisticOutput
from tallyveil.rewriter.resolve.unit_counts import is_unit_count
from tallyveil.rewriter.sql.nodes import conjunction, function_name, is_constant, unfiltered, visit
from tallyveil.rewriter.sql.vocabulary import QUANTILES
from tallyveil.workload.histogram import Histogram, Kind
from tallyveil.workload.workload import Column

__all__ = ["Statistics"]

_CONTINUOUS: Final = (exp.Median, exp.PercentileCont)
_EXTREMES: Final[Mapping[type[exp.Expr], Fraction]] = {
    exp.Min: Fraction(1, 100),
    exp.Max: Fraction(99, 100),
}
"""The ranks of the quantiles that take their place. Those of 0 and 1 would be anywhere between the
outermost record and the end of the domain."""
_MOST_DIGITS: Final = 9  # of a rank, so that it has a short denominator


@dataclass(frozen=True)
class Statistics:
    """Those of one grouping set of a block, whose ``keys`` were ``evaluated``."""

    block: Block
    keys: Sequence[exp.Expr]
    evaluated: Evaluated
    cursor: PublicCursor
    parts: ComponentParts

    def added(self, table: NoisyTable, wanted: Outputs, collected: Collected) -> NoisyTable:
        """The set's table with what is ``wanted``, and the values of MIN and MAX among its keys.

        Raises FeatureNotSupported unless MIN and MAX are fixed in each group, or extremes are
        answered, and a record has one value, InvalidParameterValue for a rank that is no constant
        between 0 and 1, and DatatypeMismatch for a quantile of other than numbers, dates and
        timestamps.
        """
        outputs = list[StatisticOutput]()
        columns = {name: table.keys.column(name) for name in table.keys.column_names}

        def add(node: exp.Expr) -> None:
            number, fixed = wanted.statistics.get(node), None
            if node in wanted.extremes:
                fixed = self._fixed(node)
            if number is not None and fixed is not None:
                nothing = np.full(self.evaluated.height, -1), pa.nulls(0, fixed.type)
                outputs.append(
                    StatisticOutput(number, self.block.domain.table, -1, fixed.type, *nothing)
                )
            elif number is not None:
                outputs.append(self._output(node, number, collected))
            if node in wanted.extremes:
                if fixed is None:
                    collected.cautions += (_caution(node),)
                    fixed = pa.nulls(self.evaluated.height, outputs[-1].type)
                columns[f"__v{wanted.extremes[node]}"] = fixed

        visit(dict.fromkeys([*wanted.statistics, *wanted.extremes]), add)
        return replace(table, keys=pa.table(columns), statistics=tuple(outputs))

    def _output(self, node: exp.Expr, number: int, collected: Collected) -> StatisticOutput:
        inner, table = unfiltered(node), self.block.domain.table
        quantile = isinstance(inner, (*QUANTILES, *_EXTREMES))
        asked: Kind = "mode" if isinstance(inner, exp.Mode) else "values"
        arguments, present = _arguments(inner)
        found, groups, values_of = self._found(node, arguments, present)
        q = self._rank(inner) if quantile else None
        column, rows = found.outputs[0].column, found.outputs[0].rows
        own = np.arange(found.height) if rows is None else rows
        if is_unit_count(node):
            return self._units(number, column, own, groups, collected)
        sort = {"group": pa.array(groups)}
        if quantile or asked == "mode":
            sort["value"] = _answers(inner, values_of[0])
        by = [(name, "ascending") for name in sort]
        order = np.asarray(pc.sort_indices(pa.table(sort), sort_keys=by), dtype=np.int64)
        order = order[np.isin(own[order], column.zeros, invert=True)]
        values = sort["value"].take(pa.array(order)) if "value" in sort else None
        kind = pa.int64() if values is None else values.type
        places = np.full(self.evaluated.height, -1, dtype=np.int64)
        if not len(order) or (quantile and q is None):
            return StatisticOutput(number, table, -1, kind, places, values)
        kept, those = np.sort(own[order]), np.unique(groups[order])
        places[those] = np.arange(len(those))
        numbers = np.searchsorted(kept, own[order]).astype(np.int64)
        of, height = places[groups[order]], len(those)
        histogram = Histogram(column.take(kept), numbers, of, height, q, asked)
        _ = histogram.counts  # refused if a record has several values
        collected.count(histogram.column.height)
        place = collected.histogram(table, histogram)
        return StatisticOutput(number, table, place, kind, places, values)

    def _units(
        self, number: int, column: Column, own: IntArray, groups: IntArray, collected: Collected
    ) -> StatisticOutput:
        """The number of units of each of the set's ``groups``, whose row is ``own``."""
        table, places = self.block.domain.table, np.full(self.evaluated.height, -1, dtype=np.int64)
        some = np.flatnonzero(np.isin(own, column.zeros, invert=True))
        kept, place = np.unique(own[some], return_inverse=True), -1
        places[groups[some]] = kept[1]
        if len(some):
            histogram = Histogram.of_units(column.take(kept[0]))
            collected.count(histogram.height)
            place = collected.histogram(table, histogram)
        return StatisticOutput(number, table, place, pa.int64(), places, None)

    def _fixed(self, node: exp.Expr) -> pa.Array | None:
        """The value of a MIN or MAX for each group; None if some has several, and extremes are
        answered."""
        inner = unfiltered(node)
        _, groups, (values,) = self._found(node, [inner.this], present=False)
        if len(np.unique(groups)) < len(groups):
            if self.block.extremes:
                return None
            name, rank = function_name(inner), float(_EXTREMES[type(inner)])
            raise FeatureNotSupported(
                f"{name} of several values is decided by single records",
                hint=f"Ask for percentile_disc({rank}) WITHIN GROUP (ORDER BY attribute), or SET"
                f" dp.extremes = on. {name} is answered of what WHERE or GROUP BY fixes.",
            )
        rows = np.full(self.evaluated.height, -1, dtype=np.int64)
        rows[groups] = np.arange(len(groups))
        return values.take(pa.array(rows, mask=rows < 0))

    def _found(
        self, node: exp.Expr, values: Sequence[exp.Expr], present: bool
    ) -> tuple[Evaluated, IntArray, list[pa.Array]]:
        """The groups of the keys and these values, of what meets WHERE and FILTER; only of values
        that are not NULL if they must be ``present``. With the set's group of each, and the
        columns of values."""
        counts = isinstance(unfiltered(node), exp.Count)
        if not counts and any(is_duration(value.unnest(), self.block.domain) for value in values):
            raise FeatureNotSupported(
                f"{function_name(unfiltered(node))} of intervals is not answered",
                hint="Ask in seconds: extract(epoch FROM …).",
            )
        conditions = [] if self.block.where is None else [self.block.where]
        if isinstance(node, exp.Filter):
            conditions.append(node.expression.this)
        if present:
            null = exp.Null()
            conditions += [exp.Not(this=exp.Is(this=v.copy(), expression=null)) for v in values]
        where = conjunction([one.copy() for one in conditions]) if conditions else None
        count: exp.Expr = exp.Count(this=exp.Star())
        source = checked_source(replace(self.block, where=where), [count], self.cursor)
        keys = [*self.keys, *(value.copy() for value in values)]
        asked = LinearQuery(self.block.domain, source, where, keys, {0: count})
        found = evaluate(asked, self.cursor, self.parts)
        names = [f"__k{number}" for number in range(len(self.keys))]
        groups: IntArray | None = np.zeros(found.height, dtype=np.int64)
        if names:
            groups = coarser_rows(found.keys, self.evaluated.keys, names)
        if groups is None:
            raise FeatureNotSupported(
                f"{function_name(unfiltered(node))} is not answered in groups that are equal",
                hint="Join public tables by a key.",
            )
        columns = [found.keys.column(n).combine_chunks() for n in range(len(names), len(keys))]
        return found, groups, columns

    def _rank(self, aggregate: exp.Expr) -> Fraction | None:
        """The rank; None for NULL, with which a statement is described before its parameters are
        known."""
        if isinstance(aggregate, exp.Median):
            return Fraction(1, 2)
        if type(aggregate) in _EXTREMES:
            return _EXTREMES[type(aggregate)]
        node = aggregate.args.get("quantile") or aggregate.expression
        value = self.cursor.constant(node) if is_constant(node) else ""
        if value is None:
            return None
        number = isinstance(value, int | float | Decimal) and math.isfinite(value)
        exact, name = Fraction(str(value)) if number else Fraction(-1), function_name(aggregate)
        if exact in (0, 1):
            raise FeatureNotSupported(
                f"{name} of the rank {value} is decided by single records",
                hint="Ask for a rank between, such as 0.01 or 0.99.",
            )
        if not 0 < exact < 1 or exact.denominator > 10**_MOST_DIGITS:
            raise InvalidParameterValue(
                f"{name} takes one rank between 0 and 1, of at most {_MOST_DIGITS} decimals",
                hint="Write a constant, such as 0.5. Several ranks are several aggregates of a"
                " statement.",
            )
        return exact


def _caution(node: exp.Expr) -> Caution:
    inner = unfiltered(node)
    end = "greatest" if isinstance(inner, exp.Max) else "least"
    return Caution(
        f"{function_name(inner)} is the quantile of rank {float(_EXTREMES[type(inner)])} here, not"
        f" the {end} value",
        hint="SET dp.extremes = off answers it only where WHERE or GROUP BY leave one value.",
    )


def _arguments(aggregate: exp.Expr) -> tuple[list[exp.Expr], bool]:
    """The values, and whether records without one do not count. As in PostgreSQL, a row of values
    is a value itself."""
    if not isinstance(aggregate, exp.Count):
        return [aggregate.this], True
    values = aggregate.this.expressions
    if len(values) == 1 and isinstance(values[0].unnest(), exp.Tuple):
        return values[0].unnest().expressions, False
    return values, True


def _answers(aggregate: exp.Expr, values: pa.Array) -> pa.Array:
    """The values, of the type that the aggregate has in DuckDB."""
    kind = values.type
    if isinstance(aggregate, exp.Mode):
        return values
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numbers or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise DatatypeMismatch(
            f"{function_name(aggregate)} over records takes numbers, dates and timestamps only",
            hint="Extract a number from the value first.",
        )
    if pa.types.is_decimal(kind) and kind.scale == 0:
        values = values.cast(pa.int64())
    if isinstance(aggregate, _CONTINUOUS) and not pa.types.is_decimal(values.type):
        return values.cast(pa.timestamp("us") if pa.types.is_temporal(kind) else pa.float64())
    return values
