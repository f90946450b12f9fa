"""The cells where a condition is true.

A condition is split at AND, OR and NOT into parts about one attribute each. A part is a comparison
that is evaluated without DuckDB (`masks`), or one that DuckDB evaluates on the attribute's cells,
in one query for each attribute. A conjunction of parts is a box: some cells of each axis. Boxes are
united as bits, so that thousands over millions of cells take a fraction of a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.arrays import BoolArray, IntArray
from tallyveil.errors import StatementError
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.components import Component, attributes_of
from tallyveil.rewriter.domain.domain_relation import MAX_COEFFICIENTS, coefficient_query
from tallyveil.rewriter.domain.linearise import by_first_cells
from tallyveil.rewriter.domain.masks import Axis, Truth
from tallyveil.rewriter.resolve.branches import RECORD, DomainSource

__all__ = ["Ask", "Conditions", "Space", "values_in_cells"]


Ask: TypeAlias = Callable[[str], pa.Table]


class Conditions:
    """Collects a component's conditions that DuckDB must evaluate."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._found: dict[str, dict[exp.Expr, None]] = {}

    def __call__(self, condition: exp.Expr) -> Truth | None:
        """Collect a condition on one attribute, as false for now. None for other conditions."""
        columns = list(condition.find_all(exp.Column))
        names = {column.name for column in columns}
        if len(names) > 1 or any(column.table != RECORD for column in columns):
            return None
        if condition.find(exp.Query):
            return None
        (name,) = names
        self._found.setdefault(name, {})[condition] = None
        cells = np.zeros(self._domain.project(names)[0].size, dtype=np.bool_)
        return Truth(cells, ~cells)

    def asked(self, source: DomainSource, ask: Ask) -> Mapping[exp.Expr, Truth] | None:
        """Evaluate them in DuckDB. None if one fails, which others may guard, or is not boolean."""
        truths: dict[exp.Expr, Truth] = {}
        for name, conditions in self._found.items():
            found = values_in_cells(self._domain, {name}, conditions, source, ask)
            if found is None or not pa.types.is_boolean(found[1].type):
                return None
            cells, values = found
            yes, no = np.zeros((2, len(cells), len(conditions)), dtype=np.bool_)
            yes[cells] = values.fill_null(False).to_numpy(False).reshape(yes.shape)
            no[cells] = ~values.fill_null(True).to_numpy(False).reshape(no.shape)
            for number, condition in enumerate(conditions):
                truths[condition] = Truth(yes[:, number], no[:, number])
        return truths


def values_in_cells(
    domain: Domain,
    names: Collection[str],
    wanted: Collection[exp.Expr],
    source: DomainSource,
    ask: Ask,
) -> tuple[IntArray, pa.Array] | None:
    """Evaluate expressions in DuckDB on the cells of one attribute, or of none: the cells, and for
    each cell the values of all. None if one fails, which others may guard, or they are too many."""
    array = exp.Array(expressions=[one.copy() for one in deadline.stoppable(wanted, 50)])
    alone = Component(domain, frozenset(names), keys={0: array})
    if len(wanted) * alone.cells > MAX_COEFFICIENTS:
        return None
    try:
        answers = ask(coefficient_query(alone, source))
    except StatementError:
        deadline.check()
        return None
    cells, lists = (answers.column(name).combine_chunks() for name in ("__cell", "__k0"))
    return cells.to_numpy(), lists.flatten()


TruthOf: TypeAlias = Callable[[exp.Expr], Truth | None]

# The cells of some axes, by the places of the axes, and every cell of the others.
_Box: TypeAlias = dict[int, BoolArray]
# A bit for each cell, with the last axis packed into bytes. Bits after its last cell are ignored.
_Bits: TypeAlias = npt.NDArray[np.uint8]
_Region: TypeAlias = _Box | _Bits


class Space:
    """The cells of some axes together, numbered in C-order.

    ``truth_of`` evaluates a condition on one axis that `Axis.truth` does not; None if it cannot.
    """

    def __init__(self, axes: Sequence[Axis], truth_of: TruthOf = lambda condition: None) -> None:
        self._truth_of = truth_of
        self.axes = tuple(axes)
        self.shape = tuple(axis.attribute.size for axis in axes)
        # Axes of one cell are left out of arrays: NumPy has a limit of dimensions.
        self._several = [n for n, size in enumerate(self.shape) if size > 1] or [0]
        self._places = {axis.attribute.name: place for place, axis in enumerate(axes)}

    def place(self, node: exp.Expr) -> int | None:
        """The place of the axis if the expression is its attribute, else None."""
        column = node.unnest()
        place = self._places.get(column.name) if isinstance(column, exp.Column) else None
        return place if place is not None and self.axes[place].is_own(column) else None

    def coordinates(self, place: int, cells: IntArray) -> IntArray:
        """The cells' coordinates on an axis."""
        if len(self.axes) == 1:
            return cells
        return cells // math.prod(self.shape[place + 1 :]) % self.shape[place]

    def groups(
        self,
        places: Collection[int],
        cells: IntArray,
        others: Sequence[tuple[IntArray, int]] = (),
    ) -> tuple[IntArray, IntArray]:
        """Group sorted cells by some axes and by ``others``: each has a number for each cell and a
        bound above all of them. Groups are numbered by their first cells.

        Returns (group of each cell, index of the first cell of each group).
        """
        if len(places) == len(self.axes):
            every = np.arange(len(cells))
            return every, every
        if not places and not others:
            return np.zeros_like(cells), cells[:0]
        axes = ((self.coordinates(place, cells), self.shape[place]) for place in places)
        return by_first_cells((*axes, *others), cells)

    def meeting(self, condition: exp.Expr) -> BoolArray | None:
        """Return the cells where a condition is true; None if it takes DuckDB."""
        region = self._region(condition, sure=True)
        if region is None:
            return None
        if len(self.axes) == 1 and not isinstance(region, np.ndarray):
            return region.get(0, self.axes[0].every)
        return self._unpacked(self._bits([region])).ravel()

    def branches(self, case: exp.Case) -> IntArray | None:
        """For every cell, the number of the first condition that is true there, or of the ELSE;
        None if a condition takes DuckDB."""
        last = len(case.args["ifs"])
        shape = [self.shape[n] for n in self._several]
        found = np.full(shape, last, dtype=np.min_scalar_type(last + 1))
        for number, branch in reversed(list(enumerate(case.args["ifs"]))):
            region = self._region(branch.this, sure=True)
            if region is None:
                return None
            if isinstance(region, np.ndarray):
                np.copyto(found, number, where=self._unpacked(region))
            elif self._has_cells(region):
                found[_index(self._lines(region, self._several))] = number
        return found.ravel()

    def _region(self, node: exp.Expr, sure: bool) -> _Region | None:
        """The cells where a condition is true, or if not ``sure``, where it is true or NULL."""
        deadline.check()
        match node:
            case exp.Paren():
                return self._region(node.this, sure)
            case exp.Boolean():
                return {} if node.this else self._complement({})
            case exp.Null():
                return self._complement({}) if sure else {}
            case exp.Case() if node.this is None and len(attributes_of(node)) > 1:
                return self._case_region(node, sure)
            case exp.Not():
                inner = self._region(node.this, not sure)
                return None if inner is None else self._complement(inner)
            case exp.And() | exp.Or():
                parts = []
                for part in node.flatten():
                    region = self._region(part, sure)
                    if region is None:
                        return None
                    parts.append(region)
                return self._intersection(parts) if type(node) is exp.And else self._union(parts)
        return self._compared(node, sure)

    def _case_region(self, case: exp.Case, sure: bool) -> _Region | None:
        """The region of a CASE of conditions, from its last branch to its first."""
        default = case.args.get("default") or exp.null()
        found = self._region(default, sure)
        for branch in reversed(case.args["ifs"]):
            here, value = self._region(branch.this, True), self._region(branch.args["true"], sure)
            if found is None or here is None or value is None:
                return None
            others = self._intersection([self._complement(here), found])
            found = self._union([others, self._intersection([here, value])])
        return found

    def _compared(self, node: exp.Expr, sure: bool) -> _Region | None:
        column = node.find(exp.Column)
        place = None if column is None else self._places.get(column.name)
        if place is None:
            return None
        truth = self.axes[place].truth(node) or self._truth_of(node)
        if truth is None:
            return None
        return {place: truth.yes if sure else ~truth.no}

    def _complement(self, region: _Region) -> _Region:
        if isinstance(region, np.ndarray) or len(region) > 1:
            return ~self._bits([region])
        return {place: ~mask for place, mask in (region or self._whole).items()}

    def _intersection(self, regions: Sequence[_Region]) -> _Region:
        box: _Box = {}
        others: list[_Region] = []
        for region in regions:
            if isinstance(region, np.ndarray):
                others.append(region)
                continue
            for place, mask in region.items():
                box[place] = box[place] & mask if place in box else mask
        if not others:
            return box
        return ~self._bits([~self._bits([region]) for region in [box, *others]])

    def _union(self, regions: Sequence[_Region]) -> _Region:
        """The union of regions. Those on one axis only are merged as one box."""
        box: _Box = {}
        others: list[_Region] = []
        for region in regions:
            if isinstance(region, np.ndarray) or len(region) > 1:
                others.append(region)
                continue
            for place, mask in (region or self._whole).items():
                box[place] = box[place] | mask if place in box else mask
        if len(box) == 1 and not others:
            return box
        return self._bits([*({place: mask} for place, mask in box.items()), *others])

    @property
    def _whole(self) -> _Box:
        return {0: self.axes[0].every}

    def _bits(self, regions: Sequence[_Region]) -> _Bits:
        """The cells in at least one of the regions."""
        *places, last = self._several
        sizes = [self.shape[n] for n in places]
        bits = np.zeros((*sizes, -(-self.shape[last] // 8)), dtype=np.uint8)
        for region in regions:
            deadline.check()
            if isinstance(region, np.ndarray):
                bits |= region
                continue
            if self._has_cells(region):
                lines = self._lines(region, places)
                bits[_index(lines)] |= np.packbits(region.get(last, self.axes[last].every))
        return bits

    def _unpacked(self, bits: _Bits) -> BoolArray:
        size = self.shape[self._several[-1]]
        return np.unpackbits(bits, axis=-1, count=size).view(np.bool_)

    def _lines(self, box: _Box, places: Sequence[int]) -> list[IntArray]:
        """The cells of a box on some axes."""
        return [np.flatnonzero(box.get(n, self.axes[n].every)) for n in places]

    @staticmethod
    def _has_cells(box: _Box) -> bool:
        return all(mask.any() for mask in box.values())


def _index(lines: Sequence[IntArray]) -> Any:
    """Index the product of the lines, by slices without copies if contiguous."""
    spans = [slice(line[0], line[-1] + 1) if len(line) else slice(0) for line in lines]
    if all(
        span.stop - (span.start or 0) == len(line) for span, line in zip(spans, lines, strict=True)
    ):
        return tuple(spans)
    return np.ix_(*lines)
