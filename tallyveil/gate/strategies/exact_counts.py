"""What follows from one table's exact counts for rows that are asked: computed once, then kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from tallyveil.accountant import Account, Accountant
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import Cache, cached_property
from tallyveil.inference import DiscreteGaussianLaw, NoiseLaw
from tallyveil.invariants import (
    Design,
    Hierarchy,
    Span,
    Translate,
    centres,
    design,
    hierarchy,
    tied,
    translated,
)
from tallyveil.mechanisms.losses.cell_weights import can_account
from tallyveil.mechanisms.measure import power
from tallyveil.workload.workload import Column, Workload

__all__ = ["ExactCounts", "Follow"]


class Follow(Protocol):
    """`Knowledge.follow`: the variances of the rows of some columns, or the half-widths of their
    intervals at a confidence, as estimated from those of others, which have noise of these laws,
    and exact counts; None if they cannot be estimated."""

    def __call__(
        self,
        columns: Sequence[Column],
        others: Sequence[Column],
        laws: Sequence[NoiseLaw],
        confidence: Fraction | None,
        errors: Sequence[FloatArray] | None = None,
        *,
        orthogonal: bool = False,
    ) -> Sequence[FloatArray] | None: ...


_Kept: TypeAlias = tuple[Workload, Design | None]


def _bytes(_: object, kept: _Kept) -> int:
    workload, found = kept
    own = 0 if found is None else found.column.nbytes + found.basis.nbytes
    return own + sum(column.nbytes for column in workload.columns)


@dataclass(eq=False)
class ExactCounts:
    """Of one table. ``published`` are its columns that the ledger has as published, ``sources`` the
    SQL of each, and ``declared`` that of each row of the span. ``no_joint_noise`` says why its rows
    cannot have noise that is drawn jointly, if the policy forbids it. Threads may share it."""

    span: Span
    published: tuple[Column, ...]
    sources: Sequence[str]
    declared: Sequence[str]
    account: Account
    accountant: Accountant
    follow: Follow
    no_joint_noise: str | None = None

    def __post_init__(self) -> None:
        self._translates: WeakKeyDictionary[Column, list[Translate]] = WeakKeyDictionary()
        self._tied: WeakKeyDictionary[Workload, bool] = WeakKeyDictionary()
        self._hierarchies: WeakKeyDictionary[Workload, Hierarchy | str] = WeakKeyDictionary()
        self._designs: Cache[_Kept] = Cache(1024, 1 << 27, _bytes)

    @cached_property
    def numbers(self) -> IntArray:
        """The number of each row of the span among all published rows."""
        names = (name for column in self.published for name in column.named_rows)
        number = {name: n for n, name in reversed(list(enumerate(names)))}
        return np.array([number[name] for c in self.span.columns for name in c.named_rows])

    def translates(self, column: Column) -> list[Translate]:
        """Translates that may serve a column's rows better than being charged as asked."""
        # Where records are replaced, a translate by the number of all records changes no charge.
        if self.account.neighbours == "replace" and self.span.rank <= 1:
            return []
        kept = self._translates.get(column)
        if kept is None:
            squares = self.account.measure == "rho"
            found = centres(column, self.span, self.numbers, squares=squares)
            kept = self._translates[column] = [one for one in found if self.fits(column, one)]
        return kept

    def fits(self, column: Column, translate: Translate) -> bool:
        """Whether the translate can be charged, despite its denominator, and given up later."""
        rows, own = translated(column, translate, self.published), power(self.account.measure)
        return rows is not None and can_account(rows, own) and can_account(column, own)

    def design(self, workload: Workload, *, correlated: bool = False) -> Design | None:
        """The design of the rows; None if it does not determine all of them."""

        def made() -> _Kept:
            columns, closed = workload.columns, self.account.relation.closed
            found = design(columns, self.span, self.numbers, closed=closed, ellipsoids=correlated)
            if found is None or not self.fits(found.column, found.translate):
                return workload, None
            follow = self.follow(columns, [found.column], [DiscreteGaussianLaw(1.0)], None)
            return workload, None if follow is None else found

        return self._designs.get((workload, correlated), made)[1]

    def hierarchy(self, workload: Workload) -> Hierarchy | str:
        """How the rows add up, or why they are no hierarchy."""
        found = self._hierarchies.get(workload)
        if found is None:
            found = self._hierarchies[workload] = hierarchy(workload.columns, self.span)
        return found

    def tied(self, workload: Workload) -> bool:
        """Whether a sum of the rows may be exact."""
        found = self._tied.get(workload)
        if found is None:
            found = self._tied[workload] = tied(workload.columns, self.span) is not False
        return found
