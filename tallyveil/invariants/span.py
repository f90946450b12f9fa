"""The span of the declared columns: its rank, and a certificate for each row in it.

Structure is used where possible. One product is decided by its factors (`product_space`). If all
factors of several products are over one attribute each, factors over the same attribute have the
same span, and this span includes the sum over the attribute, then a product lies in the span
exactly if it lies in that of one of them, and

    rank = Σ_{A in the down-closure of the columns' sets of attributes} Π_{i∈A} (r_i − 1).

Other unions are decided over the cells that their rows and those asked distinguish.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property, kept_with
from tallyveil.errors import StatementTooComplex
from tallyveil.invariants.combination import ExactCombination
from tallyveil.invariants.laminar import Laminar
from tallyveil.invariants.product_space import ProductSpace, row_space
from tallyveil.workload.classes import Classes, all_known, spread, stacked
from tallyveil.workload.workload import Column, Factor

__all__ = ["JointRows", "Span"]

_LIMIT: Final = 1_000_000  # cells or entries of all rows together
_MOST: Final = 1 << 16  # sets of attributes


class JointRows(NamedTuple):
    """Declared and asked rows over the cells that they distinguish; ``numbers[i]`` is the number of
    row i of ``declared`` among all declared rows."""

    declared: Factor
    asked: Factor
    numbers: IntArray


class Span:
    """The span of declared columns. ``sizes`` has each attribute's number of values, in the
    domain's order.

    Rows are numbered over all columns, one after the other. ``basis`` are the numbers of the
    columns from which the others follow.

    Raises StatementTooComplex if the rank cannot be determined.
    """

    def __init__(self, columns: Sequence[Column], sizes: Mapping[str, int]) -> None:
        self.columns = tuple(columns)
        self._sizes = dict(sizes)
        self._starts = [*itertools.accumulate((c.height for c in columns), initial=0)]
        self._spaces = [ProductSpace(column, self._sizes) for column in columns]
        self.basis = tuple(range(len(columns)))
        for number in sorted(self.basis, key=lambda n: columns[n].height):
            others = tuple(n for n in self.basis if n != number)
            if others and None not in self._combinations(columns[number], others):
                self.basis = others
        self.rank = self._rank()

    def combinations(self, asked: Column) -> list[ExactCombination | None]:
        """For each row a certificate that it follows from the declared rows; None if it does not,
        or that cannot be decided within the limits."""
        return self._combinations(asked, self.basis)

    @property
    def holds_total(self) -> bool:
        """Whether the number of all records follows."""
        return self.combinations(Column())[0] is not None

    @cached_property
    def nested(self) -> bool:
        """Whether any two of the sets that the basis counts are nested or disjoint."""
        rows = self.over(self.classes())
        return rows is not None and Laminar.of(rows) is not None

    def classes(self) -> Classes:
        """The cells that the declared rows distinguish."""
        return Classes.of([self.columns[n] for n in self.basis])

    def over(self, classes: Classes) -> Factor | None:
        """The rows of the basis over joint classes; None if these are too many."""
        rows = self._over_classes([self.columns[n] for n in self.basis], classes)
        return None if rows is None else stacked(rows)

    def disjoint_columns(self, values: Sequence[int]) -> Iterator[tuple[Column, Sequence[int]]]:
        """Columns of the same span, each with its rows' values. If the sets that the basis counts
        are nested or disjoint, these are their atoms, so that no row connects others."""
        columns = [self.columns[n] for n in self.basis]
        whole = self.written_out(columns) if len(columns) > 1 else None
        sets = None if whole is None else Laminar.of(whole)
        if whole is None or sets is None:
            yield from self.basis_columns(values)
            return
        atoms, counts = sets.atoms(self.basis_values(values))
        yield Column((replace(atoms, axes=whole.axes, shape=whole.shape),)), counts

    def written_out(self, columns: Sequence[Column]) -> Factor | None:
        """The rows of all columns in one factor; None if that is too large."""
        axes = tuple(axis for axis in self._sizes if any(axis in one.axes for one in columns))
        shape = tuple(self._sizes[axis] for axis in axes)
        rows = all_known(spread(column, axes, shape, _LIMIT) for column in columns)
        return None if rows is None else replace(stacked(rows), axes=axes, shape=shape)

    def basis_columns(self, values: Sequence[int]) -> Iterator[tuple[Column, Sequence[int]]]:
        """The columns from which all others follow, each with its rows' values."""
        for n in self.basis:
            yield self.columns[n], values[self._starts[n] : self._starts[n + 1]]

    def basis_values(self, values: Sequence[int]) -> list[int]:
        """The values of the rows of `over`, from those of all declared rows."""
        return [value for _, own in self.basis_columns(values) for value in own]

    def _combinations(self, asked: Column, basis: Sequence[int]) -> list[ExactCombination | None]:
        found: list[ExactCombination | None] = [None] * asked.height
        decided = len(basis) == 1 or (self._margins(tuple(basis)) is not None and _of_axes(asked))
        for number in basis:
            own = self._spaces[number].combinations(asked)
            if own is None:
                decided = False
                continue
            rows = range(self._starts[number], self._starts[number + 1])
            found = _filled(found, own, rows)
        if not decided and None in found and len(basis) > 1:
            joint = self.jointly([asked], basis)
            if joint is not None:
                every = row_space(joint.declared).combinations(joint.asked)
                found = _filled(found, every, joint.numbers.tolist())
        return found

    def row_numbers(self, column: int) -> IntArray:
        """The numbers of a declared column's rows."""
        return np.arange(self._starts[column], self._starts[column + 1])

    def jointly(
        self, asked: Sequence[Column], basis: Sequence[int] | None = None
    ) -> JointRows | None:
        """The rows of the basis, or of some columns, and those asked over joint classes; None if
        these are too many."""
        basis = self.basis if basis is None else basis
        columns = [*(self.columns[n] for n in basis), *asked]
        rows = self._over_classes(columns, Classes.of(columns))
        if rows is None:
            return None
        deadline.check()
        numbers = np.concatenate([self.row_numbers(n) for n in basis])
        return JointRows(stacked(rows[: len(basis)]), stacked(rows[len(basis) :]), numbers)

    def _over_classes(self, columns: Sequence[Column], classes: Classes) -> list[Factor] | None:
        """Each column over joint classes, as one factor."""
        if classes.size > _LIMIT:
            return None
        axes, shape = classes.axes, classes.shape
        return all_known(spread(classes.column(one), axes, shape, _LIMIT) for one in columns)

    def _rank(self) -> int:
        margins = self._margins(self.basis)
        if len(self.basis) == 1:
            rank = self._spaces[self.basis[0]].rank()
        elif margins is not None:
            subsets = {
                frozenset(own)
                for axes in (sorted(set(self.columns[n].axes)) for n in self.basis)
                for size in range(len(axes) + 1)
                for own in itertools.combinations(axes, size)
            }
            return sum(math.prod(margins[a] - 1 for a in own) for own in subsets)
        else:
            rows = self.over(self.classes())
            rank = None if rows is None else row_space(rows).rank
        if rank is None:
            raise StatementTooComplex(
                "the invariants are too many, and overlap in too many ways, for their rank",
                hint="Declare counts by fewer attributes, or groups that are nested or disjoint.",
            )
        return rank

    @kept_with
    def _margins(self, basis: tuple[int, ...]) -> dict[str, int] | None:
        """r_i of each attribute, if the columns are margins; None if not."""
        columns = [self.columns[n] for n in basis]
        if sum(2 ** len(one.axes) for one in columns) > _MOST or not all(
            one.selected is None and _of_axes(one) for one in columns
        ):
            return None
        found: dict[str, Factor] = {}
        ranks: dict[str, int] = {}
        for factor in dict.fromkeys(f for one in columns for f in one.factors):
            (axis,) = factor.axes
            same = found.setdefault(axis, factor)
            space = ProductSpace(Column((same,)), self._sizes)
            rank, ones = space.rank(), space.combinations(Column())
            if rank is None or not ones or ones[0] is None:
                return None
            ranks[axis] = rank
            if same is not factor and not _same(same, factor, self._sizes):
                return None
        return ranks


def _of_axes(column: Column) -> bool:
    """Whether each factor is over one attribute."""
    return all(len(factor.axes) == 1 for factor in column.factors)


def _same(one: Factor, other: Factor, sizes: Mapping[str, int]) -> bool:
    """Whether two factors over one attribute have the same span."""
    return all(
        None not in (ProductSpace(Column((a,)), sizes).combinations(Column((b,))) or [None])
        for a, b in ((one, other), (other, one))
    )


def _filled(
    found: Sequence[ExactCombination | None],
    more: Sequence[ExactCombination | None],
    numbers: Sequence[int],
) -> list[ExactCombination | None]:
    """The combinations ``found``, completed by ``more``, which are of the declared rows
    ``numbers``."""
    pairs = zip(found, more, strict=True)
    return [old or (new and new.renumbered(numbers)) for old, new in pairs]
