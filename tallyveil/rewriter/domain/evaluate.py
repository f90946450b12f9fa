"""A block's record-level part, evaluated on the public domain: its groups and its columns.

Each component is one query over its own attributes (`components`); the results are combined as a
Kronecker product. Groups are in the order of their first cells in the domain, whether they were
evaluated together or separately. The Arrow types of noisy answers follow from the types of the
arguments and depend on no value, so a statement has the same types before its parameters are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.errors import InvalidParameterValue, StatementTooComplex
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.component_parts import ComponentPart, ComponentParts, part_of_rows
from tallyveil.rewriter.domain.components import Component, LinearQuery, components
from tallyveil.rewriter.domain.domain_relation import MAX_COEFFICIENTS, coefficient_query, too_slow
from tallyveil.rewriter.domain.linearise import counted, zero_factor
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.resolve.branches import RECORD, names_of
from tallyveil.rewriter.sql.types import NUMERICS, declared_type
from tallyveil.rewriter.sql.vocabulary import static_type
from tallyveil.workload.workload import Column, Factor

__all__ = ["WIDE", "Evaluated", "EvaluatedOutput", "Types", "evaluate", "from_parts"]


MAX_GROUPS: Final = 300_000
_FEW_CELLS: Final = 5_000


@dataclass(frozen=True, eq=False)
class EvaluatedOutput:
    """A coefficient's matrix: group r is row ``rows[r]`` of the column, or row r if ``rows`` is
    None. ``type`` is the type of the answers.
    """

    column: Column
    rows: IntArray | None
    type: pa.DataType

    @cached_property
    def distinct(self) -> tuple[Column, IntArray | None]:
        """The column without repeated rows, so that none is charged twice, and the row of each
        group.

        Rows of public tables that match the same records give groups with equal rows.
        """
        keys, contents = self.column.row_names
        names: Iterable[object] = keys if contents is None else zip(keys, contents, strict=True)
        first: dict[object, int] = {}
        number = [first.setdefault(name, len(first)) for name in deadline.stoppable(names)]
        if len(first) == self.column.height:
            return self.column, self.rows
        rows = np.array(number, dtype=np.int64)
        kept = np.unique(rows, return_index=True)[1]
        deadline.check()
        return self.column.take(kept), rows if self.rows is None else rows[self.rows]


@dataclass(frozen=True)
class EvaluatedTogether:
    """The numbers of outputs that are evaluated together, and their components."""

    components: tuple[Component, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Evaluated:
    """``keys`` (``__k0 …``) are the groups, ``queries`` the SQL that ran on the domain."""

    keys: pa.Table
    height: int
    outputs: tuple[EvaluatedOutput, ...]
    divided: tuple[EvaluatedTogether, ...] = ()
    queries: tuple[str, ...] = ()


class _Answers:
    """Runs each distinct query once: outputs evaluated separately share components."""

    def __init__(self, cursor: PublicCursor) -> None:
        self._cursor = cursor
        self.results: dict[str, pa.Table] = {}

    def __call__(self, query: str) -> pa.Table:
        if query not in self.results:
            self.results[query] = self._cursor.arrow(query, 2 * MAX_COEFFICIENTS)
        return self.results[query]


def evaluate(asked: LinearQuery, cursor: PublicCursor, known: ComponentParts) -> Evaluated:
    """Return the matrix of each coefficient, with a row for each group.

    Raises InvalidParameterValue if a component has too many cells or there are too many groups, and
    the errors of DuckDB in evaluating the expressions anywhere in the domain.
    """
    ask = _Answers(cursor)

    def part(component: Component) -> ComponentPart:
        return known.find(component) or _evaluate(component, ask)

    divided = tuple(_divided(asked, lambda component: known.find(component) is not None))
    evaluated = from_parts(asked.domain, divided, asked.coefficients, part)
    return replace(evaluated, divided=divided, queries=tuple(ask.results))


def from_parts(
    domain: Domain,
    divided: Sequence[EvaluatedTogether],
    coefficients: Mapping[int, exp.Expr],
    part_of: Callable[[Component], ComponentPart],
) -> Evaluated:
    """Return the matrix of each coefficient, from the parts of the components.

    Raises InvalidParameterValue if there are too many groups.
    """
    outputs: dict[int, EvaluatedOutput] = {}
    names, height = pa.table({}), 1
    for together in divided:
        parts = [part_of(component) for component in together.components]
        # The groups and their order are the same in each pass: an axis that no key mentions
        # combines each group with each of its cells. With joins, groups may have the same first
        # cell, so that their keys decide.
        height = math.prod(part.height for part in parts)
        if height > MAX_GROUPS:
            raise InvalidParameterValue(
                f"the statement has {height} groups; the limit is {MAX_GROUPS}",
                hint="Group by fewer attributes or by coarser expressions, or ask for disjoint"
                " parts with WHERE, which together cost what the whole does.",
            )
        joined = not all(component.source.plain for component in together.components)
        several = joined and len(divided) > 1
        rows = _by_keys(parts, height) if several else _order(domain, parts, height)
        names = _keys(parts, height, rows)
        types = {number: kind for part in parts for number, kind in part.types.items()}
        for number in together.outputs:
            kind = value_type(types.get(number, pa.int64()), coefficients[number], domain)
            outputs[number] = EvaluatedOutput(_column(parts, number), rows, kind)
    in_order = tuple(outputs[number] for number in range(len(coefficients)))
    return Evaluated(names, height, in_order)


def _divided(asked: LinearQuery, free: Callable[[Component], bool]) -> Iterator[EvaluatedTogether]:
    """Yield the outputs that are evaluated together, with their components.

    All are if the components are small, else those with the same attributes, so that no aggregate
    enlarges another's components.
    """
    whole = components(asked, free)
    few = max(component.cells for component in whole) <= _FEW_CELLS
    if few or len(asked.coefficients) < 2 or len(asked.source.branches) > 1:
        yield EvaluatedTogether(whole, tuple(asked.coefficients))
        return
    alike: dict[frozenset[str], dict[int, exp.Expr]] = {}
    for number, coefficient in asked.coefficients.items():
        alike.setdefault(names_of(coefficient), {})[number] = coefficient
    for own in alike.values():
        yield EvaluatedTogether(components(replace(asked, coefficients=own), free), tuple(own))


def _evaluate(component: Component, ask: _Answers) -> ComponentPart:
    try:
        return part_of_rows(component, ask(coefficient_query(component)))
    except StatementTooComplex as error:
        if deadline.remaining() > 0:
            raise
        raise too_slow(component) from error


def _column(parts: Sequence[ComponentPart], number: int) -> Column:
    factors, units = zip(*(part.factor(number) for part in parts), strict=True)
    if not all(len(f.coefficients) for f in factors):
        return Column((zero_factor(math.prod(f.height for f in factors)),))
    own = [f for f in factors if not _trivial(f)]
    return Column((*own, *counted(parts[0].domain, own)), math.prod(units))


def _trivial(factor: Factor) -> bool:
    return not factor.axes and factor.height == 1 and factor.coefficients.tolist() == [1]


def _own_rows(parts: Sequence[ComponentPart], height: int) -> list[IntArray]:
    """For each part, its group in each group of the block."""
    heights = [max(1, part.height) for part in parts]
    return _coordinates(np.arange(height), heights)


def _coordinates(places: IntArray, shape: Sequence[int]) -> list[IntArray]:
    """As np.unravel_index, for any number of dimensions."""
    found = []
    for size in reversed(shape):
        found.append(places % size)
        places = places // size
    return found[::-1]


def _order(domain: Domain, parts: Sequence[ComponentPart], height: int) -> IntArray | None:
    """The groups by their first cells, C-order over all axes; None if in order.

    The first cell of a product of sets of cells has the first cell of each part on its axes.
    """
    several = [part for part in parts if part.height > 1]
    place = {name: n for n, name in enumerate(domain.names)}
    spans = [sorted(place[name] for name in part.attributes) for part in several]
    if all(one[-1] < other[0] for one, other in itertools.pairwise(spans)):
        return None
    coordinates: dict[str, IntArray] = {}
    for part, own in zip(parts, _own_rows(parts, height), strict=True):
        axes = domain.project(part.attributes)
        if part.height > 1:
            of_group = _coordinates(part.first_cells, [axis.size for axis in axes])
            coordinates |= {a.name: c[own] for a, c in zip(axes, of_group, strict=True)}
    significant = sorted(coordinates, key=place.__getitem__, reverse=True)
    return np.lexsort([coordinates[name] for name in significant]).astype(np.int64)


def _by_keys(parts: Sequence[ComponentPart], height: int) -> IntArray | None:
    """The groups in the order of their keys."""
    keys = _keys(parts, height, None)
    if not keys.num_columns:
        return None
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return np.asarray(order, dtype=np.int64)


def _keys(parts: Sequence[ComponentPart], height: int, rows: IntArray | None) -> pa.Table:
    arrays: dict[str, pa.ChunkedArray] = {}
    grouping = [part for part in parts if part.keys.num_columns]
    if rows is None and len(grouping) == 1 and grouping[0].height == height:
        return grouping[0].keys  # its groups are those of the block
    for part, own in zip(parts, _own_rows(parts, height), strict=True) if grouping else ():
        chosen = pa.array(own if rows is None else own[rows])
        for name in part.keys.column_names:
            arrays[name] = part.keys.column(name).take(chosen)
    return pa.table({name: arrays[name] for name in sorted(arrays, key=lambda n: int(n[3:]))})


# Integers beyond 64 bits are decimals in Arrow.
WIDE: Final = pa.decimal128(38, 0)


def value_type(kind: pa.DataType, coefficient: exp.Expr, domain: Domain) -> pa.DataType:
    """The type of the answers for a coefficient that has the type ``kind`` in DuckDB.

    Whole numbers are BIGINT, or as in PostgreSQL WIDE for a SUM of a BIGINT or a numeric.
    """
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind) and kind.scale > 0:
        return pa.decimal128(38, kind.scale)

    def type_of(node: exp.Expr) -> str | None:
        if isinstance(node, exp.Column):
            return declared_type(domain[node.name].sql_type) if node.table == RECORD else None
        return None if isinstance(node, exp.Query) else static_type(node, type_of)

    summed = (type_of(total.this) for total in coefficient.find_all(exp.Sum))
    return WIDE if any(found in ("BIGINT", *NUMERICS) for found in summed) else pa.int64()


class Types:
    """The static types of expressions over the domain's attributes, each found once."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._known: dict[int, str | None] = {}

    def __call__(self, node: exp.Expr) -> str | None:
        if id(node) not in self._known:
            self._known[id(node)] = self._find(node)
        return self._known[id(node)]

    def _find(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.Column):
            kind = self._domain[node.name].sql_type if node.table == RECORD else None
            return declared_type(kind)
        return None if isinstance(node, exp.Query) else static_type(node, self)
