"""What was once reported of a row, which is never worse later.

The ledger says from which answers a reported estimate was made. So it can be made again, by any
process, though later answers may have left those no place among what is looked at.
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
from tallyveil.cache import Cache
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Estimated, Known
from tallyveil.knowledge.answers.estimate import Criterion, Estimate, improves, surpasses
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.own_answer import content_at
from tallyveil.knowledge.answers.released_answer import Released
from tallyveil.knowledge.own import own_answer, with_own
from tallyveil.knowledge.state import State
from tallyveil.knowledge.sums.totals import Totals
from tallyveil.knowledge.system import ANY_KINDS, KINDS, WRITTEN_OUT, System
from tallyveil.workload.workload import Column

__all__ = ["TOGETHER", "Reported", "better"]

TOGETHER: Final = 2_000  # rows between two looks at the deadline


class Reported:
    """The estimates of a table's rows that were reported. Threads may share it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._derived: Cache[Estimate] = Cache(  # by key, content and basis
            200_000, 1 << 28, lambda _, one: 300 + 16 * len(one.numbers)
        )

    def unknown(
        self,
        column: Column,
        rows: Sequence[Known | None],
        aim: Aim,
        told: dict[bytes, float],
        total: Totals | None = None,
        parts: Sequence[tuple[int, ...]] = (),
    ) -> list[Derivation]:
        """How the estimates among what is known of a column's rows, and is reported, were made, as
        far as the ledger does not know and the rows' own answers do not tell.

        Where sums of other rows are reported instead, these have the laws of their errors. They
        have the variance of the estimate, or if they are better follow from what their ``parts``
        were `made_from`, if that is given.

        A statement may report multiples of one row, from answers of which it looks at different
        ones. Of these the one of the narrowest interval is to be found again: ``told`` has the
        least half-width so far, of the primitive row.
        """
        deadline.check()
        if isinstance(rows, Alike):
            return []
        found: dict[tuple[Basis, Criterion], list[bytes]] = {}
        summed = frozenset[int]() if total is None else frozenset(total.as_sums)
        better = frozenset[int]() if total is None else total.better
        every = zip(column.named_rows, rows, strict=True)
        for number, ((key, content), row) in enumerate(every):
            known = self._state.bases(key)
            if total is not None and number in better:
                basis = total.basis(number, parts)
                if basis is None or _told_better(told, key, content, row, aim):
                    continue
                if known.get(aim.confidence) != basis:
                    by = aim.criterion if row is None else aim.confidence
                    found.setdefault((basis, by), []).append(key[:ROW_BYTES])
                continue
            if not isinstance(row, Estimated) or row.estimate.alone:
                continue
            estimate, basis = row.estimate, row.estimate.basis
            if number in summed:
                basis = replace(basis, rough=False)
            if _told_better(told, key, content, row, aim):
                continue
            if known.get(aim.confidence) == basis and aim.criterion in known:
                continue
            if basis == estimate.basis:
                self._derived.put((key, content, basis), estimate)
            by = self._best_by(key, content, estimate, basis, aim)
            found.setdefault((basis, by), []).append(key[:ROW_BYTES])
        at = aim.confidence
        return [Derivation(tuple(keys), basis, by, at) for (basis, by), keys in found.items()]

    def made_from(self, column: Column, rows: Sequence[Known | None]) -> list[tuple[int, ...]]:
        """The recorded columns that what is known of each row is from: none if it is exact."""
        held = self._state.held(column) or [()] * column.height
        found = list[tuple[int, ...]]()
        every = zip(column.named_rows, held, rows, strict=True)
        for place, ((key, content), numbers, row) in enumerate(deadline.stoppable(every)):
            if isinstance(row, Estimated):
                found.append(row.estimate.basis.whole + row.estimate.basis.own)
                continue
            own = row._replace(reported=None) if isinstance(row, Released) else None
            added = (
                n for n in reversed(numbers) if n >= 0 and self._state.answer(n).law is not None
            )
            says = (n for n in added if own_answer(self._state, n, key, place, content) == own)
            found.append(tuple(itertools.islice(says, 1)))
        return found

    def _best_by(
        self, key: bytes, content: int, estimate: Estimate, basis: Basis, aim: Aim
    ) -> Criterion:
        """The criterion by which no better estimate of a row was reported: the aim's, or that of
        its confidence."""
        best = self._state.bases(key).get(aim.criterion)
        if aim.criterion is not None or best is None or best == basis:
            return aim.criterion
        least = self._derived.find((key, content, best))
        better = least is None or surpasses(least, estimate, None)
        return aim.confidence if better else None

    def at_least(
        self, column: Column, rows: Sequence[Estimate | None], aim: Aim
    ) -> tuple[Estimate | None, ...]:
        """What was reported of each row, unless the row here improves on it."""
        if not self._state.has_bases:
            return tuple(rows)
        found = list(rows)
        for start in range(0, len(found), TOGETHER):
            deadline.check()
            keys = enumerate(column.row_keys[start : start + TOGETHER], start)
            reported = {row: bases for row, key in keys if (bases := self._state.bases(key))}
            every = [(row, basis) for row, own in reported.items() for basis in {*own.values()}]
            made = dict(zip(every, self._made(column, every), strict=True))
            for row, bases in reported.items():
                one = _best({of: made[row, basis] for of, basis in bases.items()}, aim)
                now = found[row]
                if now is None or (one is not None and not _replaces(now, one, aim)):
                    found[row] = one
        return tuple(found)

    def narrowest(self, key: bytes, estimate: Estimate, confidence: Fraction) -> bool:
        """Whether no narrower interval of a row than the estimate's was reported at the confidence,
        and this was."""
        return self._state.bases(key).get(confidence) == estimate.basis

    def _made(self, column: Column, pairs: Sequence[tuple[int, Basis]]) -> list[Estimate | None]:
        """For each row of the column and basis the estimate, which may have to be made again."""
        keys = [(column.row_keys[row], content_at(column, row), basis) for row, basis in pairs]
        found = self._derived.find_all(keys)
        missing: dict[Basis, list[int]] = {}
        for (row, basis), estimate in zip(pairs, found, strict=True):
            if estimate is None:
                missing.setdefault(basis, []).append(row)
        if not missing:
            return found
        for basis, rows in missing.items():
            self._derive(column.take(np.array(rows, dtype=np.int64)), basis)
        return self._derived.find_all(keys)

    def _derive(self, part: Column, basis: Basis) -> None:
        """Make again the estimates of some rows that were made from ``basis``."""
        state = self._state
        if max((*basis.whole, *basis.own), default=0) >= state.recorded:
            return
        kinds = KINDS if basis.rough else ANY_KINDS
        # A sum is made from all that its parts are, which were looked at a few at a time.
        system = System.of(state, [part], basis.whole, WRITTEN_OUT, kinds)
        estimates = [None] * part.height if system is None else system.solved()[0]
        for (key, content), first in zip(part.named_rows, estimates, strict=True):
            estimate = first
            for number in basis.own:
                estimate = with_own(state, estimate, number, key, content)
            if estimate is not None:
                self._derived.put((key, content, basis), estimate)


def _told_better(
    told: dict[bytes, float], key: bytes, content: int, row: Known | None, aim: Aim
) -> bool:
    """Whether the statement reports a multiple of the row with an interval no wider than this."""
    width = math.inf if row is None else row.half_width(aim.confidence) / abs(content)
    before = told.get(key, math.inf)
    told[key] = min(before, width)
    return before <= width < math.inf


def _best(made: Mapping[Criterion, Estimate | None], aim: Aim) -> Estimate | None:
    """The best of some estimates, by the criteria they were reported for, whose interval is no
    wider than was reported at the confidence."""
    each = [*dict.fromkeys(one for one in made.values() if one is not None)]
    if aim.criterion is not None:
        return reduce(lambda first, second: better(first, second, aim.criterion), each, None)
    told, confidence = made.get(aim.confidence), aim.confidence
    for one in sorted(each, key=lambda one: one.variance):
        if told is None or one is told:
            return one
        if one.half_width(confidence) <= told.half_width(confidence):
            return one
    return None


def _replaces(new: Estimate, reported: Estimate, aim: Aim) -> bool:
    """Whether it improves on what was reported, or is as good and has the law of its error where
    that had a bound."""
    if improves(new, reported, aim.criterion, aim.confidence):
        return True
    sharper = reported.weights.rough and not new.weights.rough
    return sharper and not surpasses(reported, new, aim.criterion)


def better(first: Estimate | None, second: Estimate | None, by: Criterion) -> Estimate | None:
    """The better of two estimates, the first where they are equals."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first
