"""Estimates that were reported once, so that later ones are never worse.

The ledger records which answers a reported estimate was made from. So any process can make it
again, even if later answers have displaced these from the answers that a statement uses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import ROW_BYTES, Basis, Derivation
from tallyveil.arrays import BoolArray
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.errors import EstimateError
from tallyveil.knowledge.answers.estimate import Criterion, Estimate, improves, surpasses
from tallyveil.knowledge.answers.known import Known
from tallyveil.knowledge.direct_answers import direct_answer
from tallyveil.knowledge.remade import Remade
from tallyveil.knowledge.state import State
from tallyveil.knowledge.sums.row_totals import Totals
from tallyveil.workload.workload import Column

__all__ = ["TOGETHER", "Reported"]

TOGETHER: Final = 2_000
"""Rows whose reported estimates are made again together, between two checks of the deadline."""

_SOLVED: Final = 100_000  # entries of the system that checks a sum
_SAME: Final = 1 - 1e-9  # ratio of variances that count as equal
_NOTHING: Final[Mapping[int, Basis]] = {}


class Reported:
    """The reported estimates of one table's rows. Threads may share it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._remade = Remade(state)

    def derivations(
        self,
        column: Column,
        rows: Answers,
        aim: Aim,
        narrowest: dict[bytes, float],
        total: Totals | None = None,
        sums: Mapping[int, Basis] = _NOTHING,
    ) -> list[Derivation]:
        """What the ledger must still record about how the reported estimates of a column's rows
        were made. Rows' own answers need no record.

        A sum of other rows reported instead has a law of its own, and the variance of the estimate
        or, if it is better, a basis of its own (`sums`).

        A statement may report multiples of one row from different answers. The narrowest is
        recorded: ``narrowest`` has the least half-width so far, in units of the primitive row.
        """
        deadline.check()
        errors = (error for error in rows.used_errors if isinstance(error, EstimateError))
        if total is None and all(error.weights.alone for error in errors):
            return []
        found: dict[tuple[Basis, Criterion], list[bytes]] = {}
        made: dict[Basis, dict[bytes, tuple[int, Estimate]]] = {}
        summed = frozenset[int]() if total is None else frozenset(total.as_sums)
        better = frozenset[int]() if total is None else total.better
        every = zip(column.named_rows, rows, strict=True)
        for number, ((key, content), row) in enumerate(every):
            known = self._state.bases(key)
            if total is not None and number in better:
                basis = sums.get(number)
                if basis is None or not _is_narrowest(narrowest, key, content, row, aim):
                    continue
                if known.get(aim.confidence) != basis:
                    by = aim.criterion if row is None else aim.confidence
                    found.setdefault((basis, by), []).append(key[:ROW_BYTES])
                continue
            if row is None or row.estimate is None or row.estimate.weights.alone:
                continue
            estimate, basis = row.estimate, row.estimate.basis
            if number in summed:
                basis = replace(basis, rough=False)
            if not _is_narrowest(narrowest, key, content, row, aim):
                continue
            if known.get(aim.confidence) == basis and aim.criterion in known:
                continue
            if basis == estimate.basis:
                made.setdefault(basis, {})[key] = content, estimate
            by = self._best_by(key, content, estimate, basis, aim)
            found.setdefault((basis, by), []).append(key[:ROW_BYTES])
        for basis, estimates in made.items():
            self._remade.put(basis, estimates)
        at = aim.confidence
        return [Derivation(tuple(keys), basis, by, at) for (basis, by), keys in found.items()]

    def sums(
        self,
        total: Totals,
        rows: Answers,
        fine: Column,
        made_from: Sequence[Basis],
        aim: Aim,
    ) -> dict[int, Basis]:
        """The bases of rows that are better known as sums of rows of the ``fine`` column, which are
        `made_from` bases of their own.

        A basis has all of the sum's answers if their estimate is no worse than the sum. Otherwise
        the sum is made again from its parts.
        """
        together: dict[Basis, list[int]] = {}
        for number in sorted(total.better):
            basis = total.basis(number, made_from)
            if basis is not None:
                together.setdefault(basis, []).append(number)
        found: dict[int, Basis] = {}
        for basis, numbers in together.items():
            deadline.check()
            made: dict[bytes, tuple[int, Estimate]] = {}
            part = total.column.take(np.array(numbers, dtype=np.int64))
            again = self._remade.make(part, basis, _SOLVED, every=True)
            for number, row, one in zip(numbers, part.named_rows, again, strict=True):
                known = rows[number]
                if one is None or known is None or not _no_worse(one, known, aim.confidence):
                    found[number] = total.in_parts(number, fine, made_from)
                else:
                    found[number] = basis
                    made[row[0]] = row[1], one
            self._remade.put(basis, made)
        return found

    def made_from(self, column: Column, rows: Answers) -> list[Basis]:
        """The answers that each row's known value was made from; none if it is exact."""
        held = self._state.held(column, self._state.recorded) or [()] * column.height
        found = list[Basis]()
        every = zip(column.named_rows, held, rows, strict=True)
        for place, ((key, content), numbers, row) in enumerate(deadline.stoppable(every)):
            if row is not None and row.estimate is not None:
                found.append(row.estimate.basis)
                continue
            own = None if row is None else replace(row, reported=None)
            added = (
                n for n in reversed(numbers) if n >= 0 and self._state.answer(n).law is not None
            )
            same = (n for n in added if direct_answer(self._state, n, key, place, content) == own)
            found.append(Basis(own=tuple(itertools.islice(same, 1))))
        return found

    def _best_by(
        self, key: bytes, content: int, estimate: Estimate, basis: Basis, aim: Aim
    ) -> Criterion:
        """The aim's criterion, or its confidence if a better estimate by that criterion was
        reported before."""
        best = self._state.bases(key).get(aim.criterion)
        if aim.criterion is not None or best is None or best == basis:
            return aim.criterion
        least = self._remade.find(key, content, best)
        better = least is None or surpasses(least, estimate, None)
        return aim.confidence if better else None

    def at_least(self, column: Column, rows: Answers, aim: Aim) -> Answers:
        """Return the rows' estimates, replaced by reported ones that they do not improve on."""
        if not self._state.has_bases:
            return rows
        estimates = rows.row_estimates
        found: dict[int, Estimate | None] = {}
        for start in range(0, len(rows), TOGETHER):
            deadline.check()
            reported = self._state.all_bases(column.row_keys[start : start + TOGETHER], start)
            if not reported:
                continue
            reported = {row: own for row, own in reported.items() if not _same(own, estimates[row])}
            every = [(row, basis) for row, own in reported.items() for basis in {*own.values()}]
            made = dict(zip(every, self._remade.estimates(column, every), strict=True))
            for row, bases in reported.items():
                one = _best({of: made[row, basis] for of, basis in bases.items()}, aim)
                now = estimates[row]
                if now is None or (one is not None and not _replaces(now, one, aim)):
                    found[row] = one
        if not found:
            return rows
        return Answers.estimated([found.get(row, one) for row, one in enumerate(estimates)])

    def narrowest(self, column: Column, rows: Answers, confidence: Fraction) -> BoolArray:
        """Which rows' estimates have the narrowest intervals reported at the confidence."""
        found, keys = np.zeros(len(rows), dtype=np.bool_), column.row_keys
        estimates = rows.row_estimates
        for start in range(0, len(rows) if self._state.has_bases else 0, TOGETHER):
            deadline.check()
            reported = self._state.all_bases(keys[start : start + TOGETHER], start)
            for row, bases in reported.items():
                own = estimates[row]
                found[row] = own is not None and bases.get(confidence) == own.basis
        return found


def _same(reported: Mapping[Criterion, Basis], now: Estimate | None) -> bool:
    """Whether all that was reported was this estimate, which need not be made again: that could
    differ in its last digit."""
    return now is not None and all(basis == now.basis for basis in reported.values())


def _is_narrowest(
    narrowest: dict[bytes, float], key: bytes, content: int, row: Known | None, aim: Aim
) -> bool:
    """Whether the statement has reported no multiple of the row as narrowly; notes the width."""
    width = math.inf if row is None else row.error.half_width(aim.confidence) / abs(content)
    before = narrowest.get(key, math.inf)
    narrowest[key] = min(before, width)
    return not before <= width < math.inf


def _no_worse(new: Estimate, known: Known, confidence: Fraction) -> bool:
    """Whether neither the variance nor the interval is larger. Equal variances mean that both are
    the same best combination."""
    if new.variance >= known.error.variance * _SAME:
        return new.variance * _SAME <= known.error.variance
    return new.half_width(confidence) <= known.error.half_width(confidence)


def _best(made: Mapping[Criterion, Estimate | None], aim: Aim) -> Estimate | None:
    """The best for the aim of the estimates ``made`` by the criteria they were reported for, whose
    interval is no wider than was reported at its confidence."""
    each = [*dict.fromkeys(one for one in made.values() if one is not None)]
    if aim.criterion is not None:
        return reduce(lambda first, second: _better(first, second, aim.criterion), each, None)
    narrowest, confidence = made.get(aim.confidence), aim.confidence
    for one in sorted(each, key=lambda one: one.variance):
        if narrowest is None or one is narrowest:
            return one
        if one.half_width(confidence) <= narrowest.half_width(confidence):
            return one
    return None


def _replaces(new: Estimate, reported: Estimate, aim: Aim) -> bool:
    """Whether it improves on what was reported, or is as good with an exact law where that one had
    a bound."""
    if improves(new, reported, aim.criterion, aim.confidence):
        return True
    sharper = reported.weights.rough and not new.weights.rough
    return sharper and not surpasses(reported, new, aim.criterion)


def _better(first: Estimate | None, second: Estimate | None, by: Criterion) -> Estimate | None:
    """The better of two estimates, the first if they are equal."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first
