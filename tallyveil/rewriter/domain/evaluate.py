"""A block's record-level part, evaluated on the public domain: its groups and its columns.

Each component is one query over its own attributes (`components`); what they give is combined
as a Kronecker product. Groups come in the order of their first cells in the domain, whether they
were evaluated together or apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import InvalidParameterValue, StatementTooComplex
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.classes import classes
from tallyveil.rewriter.domain.components import Component, attributes_of, components
from tallyveil.rewriter.domain.domain_relation import MAX_COEFFICIENTS, coefficient_query, too_slow
from tallyveil.rewriter.domain.integers import IntArray
from tallyveil.rewriter.domain.linearise import nothing
from tallyveil.rewriter.domain.parts import Part, Parts, part_of_rows
from tallyveil.rewriter.domain.value_types import value_type
from tallyveil.rewriter.engine.cursor import Cursor
from tallyveil.rewriter.resolve.branches import Source
from tallyveil.workload.workload import Column, Factor

__all__ = ["MAX_GROUPS", "Evaluated", "EvaluatedOutput", "Together", "combined", "evaluate"]

MAX_GROUPS: Final = 100_000
_FEW_CELLS: Final = 5_000


@dataclass(frozen=True, eq=False)
class EvaluatedOutput:
    """A coefficient's matrix: group r is row ``rows[r]`` of the column, or row r where ``rows`` is
    None. ``type`` is that of the answers.
    """

    column: Column
    rows: IntArray | None
    type: pa.DataType


@dataclass(frozen=True)
class Together:
    """Outputs, by number, that are evaluated together, and the components that takes."""

    components: tuple[Component, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Evaluated:
    """``keys`` (``__k0 …``) are the groups; ``queries`` what was asked of the domain."""

    keys: pa.Table
    height: int
    outputs: tuple[EvaluatedOutput, ...]
    divided: tuple[Together, ...] = ()
    queries: tuple[str, ...] = ()


class _Asked:
    """What has been asked of the domain. Outputs that go apart have components in common."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.results: dict[str, pa.Table] = {}

    def __call__(self, query: str) -> pa.Table:
        if query not in self.results:
            self.results[query] = self._cursor.arrow(query, 2 * MAX_COEFFICIENTS)
        return self.results[query]


def evaluate(
    domain: Domain,
    source: Source,
    where: exp.Expr | None,
    keys: Sequence[exp.Expr],
    coefficients: Sequence[exp.Expr],
    grouped: bool,
    cursor: Cursor,
    known: Parts,
) -> Evaluated:
    """The matrix of each coefficient, with a row for each group.

    Raises InvalidParameterValue where a component has too many cells, or there are too many
    groups; and what DuckDB finds wrong with the expressions, anywhere in the domain.
    """
    ask = _Asked(cursor)

    def free(component: Component) -> bool:
        return known.find(domain, component, grouped) is not None

    def part(component: Component) -> Part:
        found = known.find(domain, component, grouped) if source.plain else None
        return found or _evaluate(domain, source, component, grouped, ask, known)

    divided = tuple(_divided(domain, source, where, keys, coefficients, free))
    return replace(
        combined(domain, divided, coefficients, part), divided=divided, queries=tuple(ask.results)
    )


def combined(
    domain: Domain,
    divided: Sequence[Together],
    coefficients: Sequence[exp.Expr],
    part_of: Callable[[Component], Part],
) -> Evaluated:
    """The matrix of each coefficient, from the parts of the components.

    Raises InvalidParameterValue where there are too many groups.
    """
    outputs: dict[int, EvaluatedOutput] = {}
    names, height = pa.table({}), 1
    for together in divided:
        parts = [part_of(component) for component in together.components]
        # The groups are the same each time, and so is their order: an axis that decides about
        # no group meets each of them with each of its cells.
        height = math.prod(part.height for part in parts)
        if height > MAX_GROUPS:
            raise InvalidParameterValue(
                f"the statement has {height} groups; the limit is {MAX_GROUPS}",
                hint="Group by fewer attributes or by coarser expressions.",
            )
        rows = _order(domain, parts, height)
        names = _keys(parts, height, rows)
        types = {number: kind for part in parts for number, kind in part.types.items()}
        for number in together.outputs:
            kind = value_type(types[number], coefficients[number], domain)
            outputs[number] = EvaluatedOutput(_column(parts, number), rows, kind)
    in_order = tuple(outputs[number] for number in range(len(coefficients)))
    return Evaluated(names, height, in_order)


def _divided(
    domain: Domain,
    source: Source,
    where: exp.Expr | None,
    keys: Sequence[exp.Expr],
    coefficients: Sequence[exp.Expr],
    free: Callable[[Component], bool],
) -> Iterator[Together]:
    """The outputs that are evaluated together, with their components.

    All of them while the components are small; else those that mention the same attributes, so
    that one aggregate does not tie attributes together for another.
    """
    numbered = dict(enumerate(coefficients))
    whole = components(domain, source, where, keys, numbered, free)
    cells = max(math.prod(a.size for a in domain.project(c.attributes)) for c in whole)
    if cells <= _FEW_CELLS or len(coefficients) < 2 or not source.plain:
        yield Together(whole, tuple(numbered))
        return
    alike: dict[frozenset[str], list[int]] = {}
    for number, coefficient in numbered.items():
        alike.setdefault(attributes_of(coefficient), []).append(number)
    for numbers in alike.values():
        some = {number: numbered[number] for number in numbers}
        yield Together(components(domain, source, where, keys, some, free), tuple(numbers))


def _evaluate(
    domain: Domain,
    source: Source,
    component: Component,
    grouped: bool,
    ask: _Asked,
    known: Parts,
) -> Part:
    asked, where = component.coefficients | component.passing, component.where
    try:
        told = known.ask(domain, source, component, grouped, ask)
        if told is not None:
            return told
        alike = classes(domain, component, source, ask)
        chosen = {} if alike is None else alike.chosen
        query = coefficient_query(
            domain, component.attributes, where, component.keys, asked, source, chosen
        )
        return part_of_rows(domain, component, ask(query), grouped, alike)
    except StatementTooComplex as error:
        if deadline.remaining() > 0:
            raise
        raise too_slow(domain, component.attributes, where) from error


def _column(parts: Sequence[Part], number: int) -> Column:
    factors, units = zip(*(part.factor(number) for part in parts), strict=True)
    if not all(len(f.coefficients) for f in factors):
        return Column((nothing(math.prod(f.height for f in factors)),))
    return Column(tuple(f for f in factors if not _trivial(f)), math.prod(units))


def _trivial(made: Factor) -> bool:
    return not made.axes and made.height == 1 and made.coefficients.tolist() == [1]


def _own_rows(parts: Sequence[Part], height: int) -> list[IntArray]:
    """The group of each part that each group of the block is made of."""
    number = np.arange(height, dtype=np.int64)
    rows: list[IntArray] = []
    for part in reversed(parts):
        number, own = np.divmod(number, max(1, part.height))
        rows.append(own)
    return rows[::-1]


def _order(domain: Domain, parts: Sequence[Part], height: int) -> IntArray | None:
    """The groups by their first cells, C-order over all axes; None where they are so already.

    The first cell of a product of sets of cells has in each part's axes the part's first cell.
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
            of_group = np.unravel_index(part.first_cells, [axis.size for axis in axes])
            coordinates |= {a.name: c[own] for a, c in zip(axes, of_group, strict=True)}
    significant = sorted(coordinates, key=place.__getitem__, reverse=True)
    return np.lexsort([coordinates[name] for name in significant]).astype(np.int64)


def _keys(parts: Sequence[Part], height: int, rows: IntArray | None) -> pa.Table:
    arrays: dict[str, pa.ChunkedArray] = {}
    grouping = [part for part in parts if part.keys.num_columns]
    if rows is None and len(grouping) == 1 and grouping[0].height == height:
        return grouping[0].keys  # its groups are those of the block
    for part, own in zip(parts, _own_rows(parts, height), strict=True):
        chosen = pa.array(own if rows is None else own[rows])
        for name in part.keys.column_names:
            arrays[name] = part.keys.column(name).take(chosen)
    return pa.table({name: arrays[name] for name in sorted(arrays, key=lambda n: int(n[3:]))})
