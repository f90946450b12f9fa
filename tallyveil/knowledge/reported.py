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
from tallyveil.accountant import ROW_BYTES, Basis, Derivation, decode_column
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
_SOLVED: Final = 100_000  # entries of the system by which a sum is checked
_SAME: Final = 1 - 1e-9  # of variances that are one computed twice
_NOTHING: Final[Mapping[int, Basis]] = {}


class Reported:
    """The estimates of a table's rows that were reported. Threads may share it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._derived = _Derived()

    def unknown(
        self,
        column: Column,
        rows: Sequence[Known | None],
        aim: Aim,
        told: dict[bytes, float],
        total: Totals | None = None,
        sums: Mapping[int, Basis] = _NOTHING,
    ) -> list[Derivation]:
        """How the estimates among what is known of a column's rows, and is reported, were made, as
        far as the ledger does not know and the rows' own answers do not tell.

        Where sums of other rows are reported instead, these have the laws of their errors. They
        have the variance of the estimate, or if they are better a basis of their own (`sums`).

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
                basis = sums.get(number)
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
                self._derived.put(key, content, basis, estimate)
            by = self._best_by(key, content, estimate, basis, aim)
            found.setdefault((basis, by), []).append(key[:ROW_BYTES])
        at = aim.confidence
        return [Derivation(tuple(keys), basis, by, at) for (basis, by), keys in found.items()]

    def sums(
        self,
        total: Totals,
        rows: Sequence[Known | None],
        fine: Column,
        made_from: Sequence[Basis],
        aim: Aim,
    ) -> dict[int, Basis]:
        """What the rows that are better known as sums are made from, by what each row of the
        ``fine`` column, which they sum up, is `made_from`.

        All their answers together, where what these say of the row is no worse than the sum.
        Elsewhere the sum is made again from its parts.
        """
        together: dict[Basis, list[int]] = {}
        for number in sorted(total.better):
            basis = total.basis(number, made_from)
            if basis is not None:
                together.setdefault(basis, []).append(number)
        found: dict[int, Basis] = {}
        for basis, numbers in together.items():
            deadline.check()
            part = total.column.take(np.array(numbers, dtype=np.int64))
            again = self._again(part, basis, _SOLVED, every=True)
            for number, row, one in zip(numbers, part.named_rows, again, strict=True):
                known = rows[number]
                if one is None or known is None or not _no_worse(one, known, aim.confidence):
                    found[number] = total.in_parts(number, fine, made_from)
                else:
                    found[number] = basis
                    self._derived.put(*row, basis, one)
        return found

    def made_from(self, column: Column, rows: Sequence[Known | None]) -> list[Basis]:
        """The answers that what is known of each row is from: none if it is exact."""
        held = self._state.held(column) or [()] * column.height
        found = list[Basis]()
        every = zip(column.named_rows, held, rows, strict=True)
        for place, ((key, content), numbers, row) in enumerate(deadline.stoppable(every)):
            if isinstance(row, Estimated):
                found.append(row.estimate.basis)
                continue
            own = row._replace(reported=None) if isinstance(row, Released) else None
            added = (
                n for n in reversed(numbers) if n >= 0 and self._state.answer(n).law is not None
            )
            says = (n for n in added if own_answer(self._state, n, key, place, content) == own)
            found.append(Basis(own=tuple(itertools.islice(says, 1))))
        return found

    def _best_by(
        self, key: bytes, content: int, estimate: Estimate, basis: Basis, aim: Aim
    ) -> Criterion:
        """The criterion by which no better estimate of a row was reported: the aim's, or that of
        its confidence."""
        best = self._state.bases(key).get(aim.criterion)
        if aim.criterion is not None or best is None or best == basis:
            return aim.criterion
        least = self._derived.find_all([(key, content, best)])[0]
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
        if basis.parts:
            estimates = [self._summed(basis, *row) for row in part.named_rows]
        else:
            estimates = self._again(part, basis, WRITTEN_OUT)
        for (key, content), estimate in zip(part.named_rows, estimates, strict=True):
            if estimate is not None:
                self._derived.put(key, content, basis, estimate)

    def _summed(self, basis: Basis, key: bytes, content: int) -> Estimate | None:
        """The estimate of the row of this key and content, or of a multiple of it, as the sum of
        its parts; None if it is another row, or one of the parts cannot be made again."""
        if key != basis.summed:
            return None
        found = list[Estimate]()
        for part in basis.parts:
            deadline.check()
            for one in self._again(decode_column(part.rows), part.basis, WRITTEN_OUT):
                if one is None:
                    return None
                found.append(one)
        whole = Estimate.total(found)
        if content != basis.content:
            whole = whole.times(content / basis.content)
        return replace(whole, basis=basis)

    def _again(
        self, part: Column, basis: Basis, work: int, *, every: bool = False
    ) -> list[Estimate | None]:
        """The estimates of some rows from ``basis``, as far as there is the ``work`` for it, or
        from ``every`` answer of it; None where there is none."""
        state = self._state
        unknown: list[Estimate | None] = [None] * part.height
        if max((*basis.whole, *basis.own), default=0) >= state.recorded:
            return unknown
        exact = not basis.whole and not basis.own
        found = unknown
        if basis.whole or exact:
            kinds = KINDS if basis.rough else ANY_KINDS
            system = System.of(state, [part], basis.whole, work, kinds)
            if system is None or (every and len(system.used) < len(basis.whole)):
                return unknown
            found = system.from_exact() if exact else system.solved()[0]
        for number in basis.own:
            found = [
                with_own(state, estimate, number, *row)
                for estimate, row in zip(found, part.named_rows, strict=True)
            ]
        return found


class _Derived:
    """Estimates by the row's key and the basis. The estimate of a row serves every multiple of it.
    Threads may share it."""

    def __init__(self) -> None:
        self._cache: Cache[tuple[int, Estimate]] = Cache(
            200_000, 1 << 28, lambda _, found: 300 + 16 * len(found[1].numbers)
        )

    def put(self, key: bytes, content: int, basis: Basis, estimate: Estimate) -> None:
        self._cache.put((key, basis), (content, estimate))

    def find_all(self, rows: Sequence[tuple[bytes, int, Basis]]) -> list[Estimate | None]:
        """For each row's key, content and basis the estimate, or None."""
        every = self._cache.find_all([(key, basis) for key, _, basis in rows])
        return [
            None
            if found is None
            else found[1]
            if found[0] == content
            else found[1].times(content / found[0])
            for found, (_, content, _) in zip(every, rows, strict=True)
        ]


def _told_better(
    told: dict[bytes, float], key: bytes, content: int, row: Known | None, aim: Aim
) -> bool:
    """Whether the statement reports a multiple of the row with an interval no wider than this."""
    width = math.inf if row is None else row.half_width(aim.confidence) / abs(content)
    before = told.get(key, math.inf)
    told[key] = min(before, width)
    return before <= width < math.inf


def _no_worse(new: Estimate, known: Known, confidence: Fraction) -> bool:
    """Whether neither the variance is greater nor the interval wider. Where the variances are equal
    both are the one best combination."""
    if new.variance >= known.variance * _SAME:
        return new.variance * _SAME <= known.variance
    return new.half_width(confidence) <= known.half_width(confidence)


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
