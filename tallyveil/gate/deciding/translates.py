"""What rows are charged as where counts are exact: a translate, if that serves the ledger.

This is book-keeping: noise and answer are those of the rows as asked. The charge is for w − λC,
which costs less where λC takes the middle out of the row, and something for cells that were not
asked about. The choice is the row or the translate after which the ledger's highest cell has lost
least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from tallyveil.accountant import Account, Accountant, Charge
from tallyveil.cache import Cache
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.designed import (
    Designed,
    ErrorComparison,
    Fitted,
    compared,
    designed,
    no_worse,
    too_large,
)
from tallyveil.invariants import Design, Span, Translate, centres, design, translated
from tallyveil.mechanisms import Adjacency, mechanism, sensitivity
from tallyveil.mechanisms.flowchart import CORRELATED
from tallyveil.mechanisms.losses.cell_weights import can_account
from tallyveil.mechanisms.measure import power
from tallyveil.workload.workload import Column, Workload

__all__ = ["Saving", "Translates", "reach"]


def reach(column: Column, relation: Adjacency, squared: bool) -> float:
    """The sensitivity in the norm of the noise (L2 if ``squared``, else L1), in lattice steps."""
    if squared:
        return math.sqrt(sensitivity(column, relation, "rho"))
    return sensitivity(column, relation, "epsilon")


Follow: TypeAlias = Callable[[Sequence[Column], Column], bool]
"""Whether the rows of some columns can be estimated from those of another and exact counts."""

EXTENDED_ROWS: Final = 4_096
_WIDE: Final = 1e6  # the scale at which errors are compared
_DESIGNED: Final = 64  # the most rows for which a design is considered unasked
_CLEARLY: Final = Fraction(102, 100)  # times the cost of a design is still less than all others


def _wide_scale(workload: Workload) -> tuple[float, ...]:
    return (_WIDE,)


class Saving(NamedTuple):
    """``sensitivities``: of what is charged, by column, in the column's units. ``saved``: in the
    budget's measure. ``invariants``: the SQL of those that made it possible."""

    invariants: list[str]
    sensitivities: Mapping[int, float]
    saved: Fraction

    def over(self, columns: Sequence[int]) -> Saving:
        """The same with column n numbered columns[n]; columns beyond these are dropped."""
        steps = self.sensitivities.items()
        found = {columns[number]: step for number, step in steps if number < len(columns)}
        return self._replace(sensitivities=found)


_Kept: TypeAlias = tuple[Workload, Design | None]


def _bytes(_: object, kept: _Kept) -> int:
    workload, found = kept
    own = 0 if found is None else found.column.nbytes + found.basis.nbytes
    return own + sum(column.nbytes for column in workload.columns)


class Translates:
    """For one table: ``published`` are its columns that the ledger has as published, ``sources``
    the SQL of each. Threads may share it."""

    def __init__(
        self,
        span: Span,
        published: Sequence[Column],
        sources: Sequence[str],
        account: Account,
        accountant: Accountant,
        follow: Follow,
    ) -> None:
        self._account = account
        self._accountant = accountant
        self._follow = follow
        self._columns = tuple(published)
        self._sources = tuple(sources)
        self._starts = np.cumsum([0, *(column.height for column in self._columns)])
        names = (name for column in self._columns for name in column.named_rows)
        number = {name: n for n, name in reversed(list(enumerate(names)))}
        self._numbers = np.array([number[name] for c in span.columns for name in c.named_rows])
        self._span = span
        # Where records are replaced, a translate by the number of all records changes no charge.
        self._idle = account.neighbours == "replace" and span.rank <= 1
        self._kept: WeakKeyDictionary[Column, list[Translate]] = WeakKeyDictionary()
        self._designs: Cache[_Kept] = Cache(1024, 1 << 27, _bytes)

    def best(self, charge: Charge, analyst: str, *, others: bool) -> Charge:
        """Return the charge, or one that leaves more budget to the table: for the same release or,
        with ``others``, for other rows that determine its rows no less precisely. Free; depends
        only on public rows and what was charged."""
        if charge.law is None:
            return charge
        found = [charge] if self._idle else self._translated(charge)
        other = self._by_design(found) if others else None
        found += [] if other is None else [other]
        return self._accountant.best(found, analyst) if len(found) > 1 else charge

    def _translated(self, charge: Charge) -> list[Charge]:
        """The charge, and others for the same release."""
        each = [self._translates(column) for column in charge.workload.columns]
        found = [charge]
        for nth in range(max(map(len, each))):
            chosen = tuple(own[min(nth, len(own) - 1)] if own else None for own in each)
            found.append(replace(charge, translates=chosen))
        return found

    def _by_design(self, others: Sequence[Charge]) -> Charge | None:
        """A charge for the rows' design; None unless it costs clearly less than the others."""
        (first, *_), workload = others, others[0].workload
        height = sum(column.height for column in workload.columns)
        squared = first.mechanism == "gaussian" and self._account.measure == "rho"
        if not squared or not 1 < height <= _DESIGNED:
            return None
        own = self._design(workload)
        if own is None:
            return None
        cost, found = self._accountant.cost, no_worse(own, workload, first)
        return found if cost(found) * _CLEARLY < min(map(cost, others)) else None

    def extended(self, charge: Charge) -> Charge:
        """The charge for a projection of its rows: by the smallest ball around the cells' columns,
        the least charge there is for a single row.

        Raises FeatureNotSupported for too many rows.
        """
        height = max(column.height for column in charge.workload.columns)
        if height > EXTENDED_ROWS:
            raise FeatureNotSupported(
                f"extended charges a projection of the rows, and {height:,} rows are too many",
                hint=f"Ask for {EXTENDED_ROWS:,} rows at most, or SET dp.mechanism = projected.",
            )
        chosen = []
        for column in charge.workload.columns:
            found = centres(column, self._span, self._numbers, squares=True, most=EXTENDED_ROWS)
            fit = [one for one in found if self._fits(column, one)]
            chosen.append(fit[-1] if fit else None)
        if not any(chosen):
            return charge
        return replace(charge, translates=tuple(chosen))

    def designed(self, asked: str, workload: Workload, fitted: Fitted, sql: str) -> Designed:
        """What mechanism ``asked`` buys. Raises FeatureNotSupported for too many rows."""
        own = self._design(workload, correlated=asked == CORRELATED)
        found = None if own is None else designed(own, workload, self._columns, fitted, sql)
        if found is None:
            raise too_large(asked)
        return found

    def _design(self, workload: Workload, *, correlated: bool = False) -> Design | None:
        """The design of the rows; None if it does not determine all of them."""

        def made() -> _Kept:
            columns, closed = workload.columns, self._account.relation.closed
            found = design(columns, self._span, self._numbers, closed=closed, ellipsoids=correlated)
            if found is None or not self._fits(found.column, found.translate):
                return workload, None
            return workload, found if self._follow(workload.columns, found.column) else None

        return self._designs.get((workload, correlated), made)[1]

    def compared(self, plain: Charge, charge: Charge) -> ErrorComparison | None:
        """Compare Gaussian noise, as asked and as charged, with the best; None for other noise, or
        if the best cannot be computed."""
        workload = plain.workload
        if plain.mechanism != "gaussian" or self._account.measure != "rho":
            return None
        own = self._design(workload)
        found = None if own is None else designed(own, workload, self._columns, _wide_scale, "")
        if own is None or found is None:
            return None
        one = found.charge
        first, second, third = (float(self._accountant.cost(each)) for each in (plain, charge, one))
        return compared(
            own,
            workload.columns,
            plain.scales,
            (first, second if charge.workload is workload else None, third * one.scales[0] ** 2),
            self._account.relation,
        )

    def saving(self, plain: Charge, charge: Charge) -> Saving:
        """What ``charge``, by translates, saves against ``plain``, for the rows themselves."""
        saved = self._accountant.cost(plain) - self._accountant.cost(charge)
        squared = mechanism(plain.mechanism).needs_delta
        steps: dict[int, float] = {}
        parts = zip(charge.workload.columns, charge.translates, strict=True)
        for number, (column, translate) in enumerate(parts):
            if translate is None:
                continue
            rows = translated(column, translate, self._columns)
            if rows is not None:
                step = reach(rows, self._account.relation, squared) / translate.denominator
                steps[number] = float(column.multiplier) * step
        return Saving(self._sources_of(charge.translates), steps, saved)

    def _sources_of(self, translates: Sequence[Translate | None]) -> list[str]:
        """The SQL of the invariants by which rows are translated."""
        used = [np.unique(one.declared) for one in translates if one is not None]
        columns = {
            int(n) for own in used for n in np.searchsorted(self._starts, own, side="right") - 1
        }
        return list(dict.fromkeys(self._sources[n] for n in sorted(columns)))

    def _translates(self, column: Column) -> list[Translate]:
        kept = self._kept.get(column)
        if kept is None:
            squares = self._account.measure == "rho"
            found = centres(column, self._span, self._numbers, squares=squares)
            kept = self._kept[column] = [one for one in found if self._fits(column, one)]
        return kept

    def _fits(self, column: Column, translate: Translate) -> bool:
        """Whether the translate can be charged, despite its denominator, and given up later."""
        rows, own = translated(column, translate, self._columns), power(self._account.measure)
        return rows is not None and can_account(rows, own) and can_account(column, own)
