"""One component's part of a block: its groups, and a factor for every output.

A component is computed here, without a query, and cached, if its conditions compare attributes with
constants, its keys are attributes, and its outputs count or sum up an attribute. DuckDB evaluates
every other component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.arrow import decimals_of
from tallyveil.cache import OBJECT, Cache, cached_property
from tallyveil.errors import FeatureNotSupported
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.domain.attribute_axes import Axis
from tallyveil.rewriter.domain.cell_grid import CellGrid
from tallyveil.rewriter.domain.components import Component
from tallyveil.rewriter.domain.domain_relation import fits
from tallyveil.rewriter.domain.integer_units import as_int64
from tallyveil.rewriter.domain.linearise import factor, groups, indicator
from tallyveil.rewriter.sql.nodes import whole_number
from tallyveil.workload.workload import Factor

__all__ = ["ComponentPart", "ComponentParts", "held_bytes", "part_of_rows"]

# The axis of a component without attributes: one cell for every record.
_WHOLE: Final = Attribute("", "values", "INTEGER", (0,))

# Estimated bytes of a cache entry, and of a node in the expressions of its key.
_ENTRY: Final = 8192
_NODE: Final = 2 * OBJECT

_LARGE: Final = 10**9

_SUMMED: Final = frozenset({"INTEGER", "BIGINT", "DOUBLE", "DECIMAL"})


@dataclass(frozen=True, eq=False)
class ComponentPart:
    """For each t, the cell ``cells[t]`` of the attributes passes and is in group ``rows[t]``.

    ``keys`` are the groups and ``first_cells`` the first cell of each. ``counted`` has the matrix
    and the unit of each output that does not count each cell once; ``types`` has the Arrow types of
    outputs whose value is here.
    """

    domain: Domain
    attributes: frozenset[str]
    keys: pa.Table
    height: int
    rows: IntArray
    cells: IntArray
    first_cells: IntArray
    counted: Mapping[int, tuple[Factor, Fraction]]
    types: Mapping[int, pa.DataType]

    @cached_property
    def passing(self) -> tuple[Factor, Fraction]:
        """Matrix and unit of an output that counts each cell once."""
        matrix = indicator(self.domain, self.attributes, self.height, self.rows, self.cells)
        return matrix, Fraction(1)

    @property
    def nbytes(self) -> int:
        """An estimate of its size."""
        arrays = [a for f, _ in self.counted.values() for a in (f.rows, f.cells, f.coefficients)]
        held = sum(array.nbytes for array in (self.rows, self.cells, self.first_cells, *arrays))
        return 2 * held + int(self.keys.nbytes)

    def factor(self, output: int) -> tuple[Factor, Fraction]:
        """The output's matrix in integers, and their unit."""
        return self.counted.get(output) or self.passing


def part_of_rows(component: Component, result: pa.Table) -> ComponentPart:
    """Make a part from the rows of a component's query: ``__k…``, ``__cell``, ``__c…``."""
    cells = as_int64(result.column("__cell"))
    keys = result.select([f"__k{number}" for number in component.keys])
    _refuse_composite(keys.schema.types)
    rows, first = np.zeros(len(cells), dtype=np.int64), np.zeros(0, dtype=np.int64)
    if component.keys:
        rows, first = groups(keys.columns, cells)
    columns = {number: result.column(f"__c{number}") for number in set(component.columns.values())}
    values = {number: columns[own] for number, own in component.columns.items()}
    chosen = keys.take(pa.array(first))
    types = {number: values[number].type for number in component.coefficients}
    return _part(component, chosen, rows, cells, cells[first], values, types)


def _part(
    component: Component,
    keys: pa.Table,
    rows: IntArray,
    cells: IntArray,
    first_cells: IntArray,
    values: Mapping[int, pa.ChunkedArray],
    types: Mapping[int, pa.DataType],
) -> ComponentPart:
    # A block with keys has no group if nothing passes. One without keys always has one row.
    height = len(first_cells) if component.keys else min(1, len(cells)) if component.grouped else 1
    domain, attributes, made, counted = component.domain, component.attributes, {}, {}
    for number, coefficients in values.items():
        deadline.check()
        if id(coefficients) not in made:
            made[id(coefficients)] = factor(domain, attributes, height, rows, cells, coefficients)
        counted[number] = made[id(coefficients)]
    return ComponentPart(domain, attributes, keys, height, rows, cells, first_cells, counted, types)


class ComponentParts:
    """A cache of the parts that need no query, for all statements. Threads may share it."""

    def __init__(self) -> None:
        self._axes: dict[tuple[str, str], Axis] = {}
        self._cache: Cache[ComponentPart] = Cache(4096, 1 << 27, _entry_bytes)

    def find(self, component: Component) -> ComponentPart | None:
        """Return the component's part; None if it takes DuckDB or has too many cells."""
        if not component.source.plain or (len(component.attributes) > 1 and not fits(component)):
            return None
        outputs = [(n, one) for n, one in component.outputs.items() if not _each_cell_once(one)]
        own = tuple((*output, output[0] in component.coefficients) for output in outputs)
        asked = (component.where, tuple(component.keys.items()), own, component.attributes)
        key = (*asked, component.domain.table, component.grouped)
        part = self._cache.find(key)
        if part is None:
            part = _computed(component, CellGrid(self._axes_of(component)))
            if part is not None:
                for matrix, _ in part.counted.values() or [part.passing]:
                    _ = matrix.named  # so that rows are named once
                self._cache.put(key, part)
        return part

    def _axes_of(self, component: Component) -> Sequence[Axis]:
        axes = []
        for attribute in component.axes or [_WHOLE]:
            key = (component.domain.table, attribute.name)
            if key not in self._axes:
                self._axes[key] = Axis(attribute)
            axes.append(self._axes[key])
        return axes


def _computed(component: Component, grid: CellGrid) -> ComponentPart | None:
    """The part; None if the component has an expression of another form."""
    places = {number: grid.place(key) for number, key in component.keys.items()}
    passing = None if None in places.values() else grid.meeting(component.where or exp.true())
    if passing is None:
        return None
    cells = np.flatnonzero(passing)
    found: dict[exp.Expr, pa.ChunkedArray] = {}
    for output in dict.fromkeys(component.outputs.values()):
        value = _value(output, grid, cells)
        if value is None:
            return None
        if not _each_cell_once(output):
            found[output] = pa.chunked_array([pa.array(value)])
    values = {n: found[output] for n, output in component.outputs.items() if output in found}
    types = {n: values[n].type for n in component.coefficients if n in values}
    own = {number: place for number, place in places.items() if place is not None}
    rows, first = grid.groups(set(own.values()), cells)
    first_cells = cells[first]
    at = {place: pa.array(grid.coordinates(place, first_cells)) for place in own.values()}
    keys = pa.table({f"__k{n}": grid.axes[p].values.take(at[p]) for n, p in own.items()})
    return _part(component, keys, rows, cells, first_cells, values, types)


def _each_cell_once(output: exp.Expr) -> bool:
    """Whether it is count(*), which counts each cell that passes once."""
    return isinstance(output, exp.Count) and isinstance(output.this, exp.Star)


def _value(output: exp.Expr, grid: CellGrid, cells: IntArray) -> Any:
    """What the output counts of each cell; None unless a COUNT or SUM of an attribute or a number,
    perhaps with FILTER.
    """
    deadline.check()
    total = isinstance(output, exp.Coalesce)
    aggregate = output.this if total else output
    passes: Any = np.True_
    if isinstance(aggregate, exp.Filter):
        meeting = grid.meeting(aggregate.expression.this)
        if meeting is None:
            return None
        aggregate, passes = aggregate.this, meeting[cells]
    each = 1 if isinstance(aggregate.this, exp.Star) else whole_number(aggregate.this)
    if each is not None and each < _LARGE and type(aggregate) in (exp.Count, exp.Sum):
        times = each if total else 1
        return np.broadcast_to(passes, cells.shape).astype(np.int64) * times
    argument = aggregate.this.unnest() if isinstance(aggregate.this, exp.Expr) else None
    place = None if argument is None else grid.place(argument)
    if place is None:
        return None
    axis, own = grid.axes[place], grid.coordinates(place, cells)
    if type(aggregate) is exp.Count:
        return (passes & axis.known[own]).astype(np.int64)
    kind = axis.attribute.sql_type
    if type(aggregate) is not exp.Sum or not total or kind.split("(")[0] not in _SUMMED:
        return None
    summed = np.where(passes, axis.numbers[own], 0)
    return decimals_of(summed, axis.values.type.scale) if kind.startswith("DEC") else summed


def _entry_bytes(key: Any, part: ComponentPart) -> int:
    where, keys, outputs, *_ = key
    return held_bytes(part, where, *(one for _, one in keys), *(one for _, one, _ in outputs))


def held_bytes(part: ComponentPart, *expressions: exp.Expr | None) -> int:
    """An estimate of the bytes of a cached part, with the expressions of its key."""
    nodes = sum(1 for one in expressions if one is not None for _ in one.walk())
    return _ENTRY + _NODE * nodes + part.nbytes


def _refuse_composite(kinds: Sequence[pa.DataType]) -> None:
    for kind in kinds:
        if pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind):
            raise FeatureNotSupported(
                "group keys must be numbers, texts, booleans or dates",
                hint="GROUP BY each part of the value.",
            )
