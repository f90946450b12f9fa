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

TOGETHER: Final = 2_000  # rows between two checks of the deadline
_SOLVED: Final = 100_000  # entries of the system that checks a sum
_SAME: Final = 1 - 1e-9  # ratio of variances that count as equal
_NOTHING: Final[Mapping[int, Basis]] = {}


class Reported:
    """The reported estimates of one table's rows. Threads may share it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._derived = _Derived()

    def derivations(
        self,
        column: Column,
        rows: Sequence[Known | None],
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
                if basis is None or not _is_narrowest(narrowest, key, content, row, aim):
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
            if not _is_narrowest(narrowest, key, content, row, aim):
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
            part = total.column.take(np.array(numbers, dtype=np.int64))
            again = self._made_again(part, basis, _SOLVED, every=True)
            for number, row, one in zip(numbers, part.named_rows, again, strict=True):
                known = rows[number]
                if one is None or known is None or not _no_worse(one, known, aim.confidence):
                    found[number] = total.in_parts(number, fine, made_from)
                else:
                    found[number] = basis
                    self._derived.put(*row, basis, one)
        return found

    def made_from(self, column: Column, rows: Sequence[Known | None]) -> list[Basis]:
        """The answers that each row's known value was made from; none if it is exact."""
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
            same = (n for n in added if own_answer(self._state, n, key, place, content) == own)
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
        least = self._derived.find_all([(key, content, best)])[0]
        better = least is None or surpasses(least, estimate, None)
        return aim.confidence if better else None

    def at_least(
        self, column: Column, rows: Sequence[Estimate | None], aim: Aim
    ) -> tuple[Estimate | None, ...]:
        """Return the rows' estimates, replaced by reported ones that they do not improve on."""
        if not self._state.has_bases:
            return tuple(rows)
        found = list(rows)
        for start in range(0, len(found), TOGETHER):
            deadline.check()
            keys = enumerate(column.row_keys[start : start + TOGETHER], start)
            reported = {row: bases for row, key in keys if (bases := self._state.bases(key))}
            every = [(row, basis) for row, own in reported.items() for basis in {*own.values()}]
            made = dict(zip(every, self._estimates(column, every), strict=True))
            for row, bases in reported.items():
                one = _best({of: made[row, basis] for of, basis in bases.items()}, aim)
                now = found[row]
                if now is None or (one is not None and not _replaces(now, one, aim)):
                    found[row] = one
        return tuple(found)

    def narrowest(self, key: bytes, estimate: Estimate, confidence: Fraction) -> bool:
        """Whether this estimate has the narrowest interval reported at the confidence."""
        return self._state.bases(key).get(confidence) == estimate.basis

    def _estimates(
        self, column: Column, pairs: Sequence[tuple[int, Basis]]
    ) -> list[Estimate | None]:
        """The estimate for each pair of a row of the column and a basis, cached or made again."""
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
        """Make the estimates of some rows from ``basis`` again, and cache them."""
        if basis.parts:
            estimates = [self._summed(basis, *row) for row in part.named_rows]
        else:
            estimates = self._made_again(part, basis, WRITTEN_OUT)
        for (key, content), estimate in zip(part.named_rows, estimates, strict=True):
            if estimate is not None:
                self._derived.put(key, content, basis, estimate)

    def _summed(self, basis: Basis, key: bytes, content: int) -> Estimate | None:
        """The estimate of the row of this key and content as the sum of the basis's parts; None if
        the basis is not for a multiple of this row, or a part cannot be made again."""
        if key != basis.summed:
            return None
        found = list[Estimate]()
        for part in basis.parts:
            deadline.check()
            for one in self._made_again(decode_column(part.rows), part.basis, WRITTEN_OUT):
                if one is None:
                    return None
                found.append(one)
        whole = Estimate.total(found)
        if content != basis.content:
            whole = whole.times(content / basis.content)
        return replace(whole, basis=basis)

    def _made_again(
        self, part: Column, basis: Basis, work: int, *, every: bool = False
    ) -> list[Estimate | None]:
        """The estimates of some rows, or None, from as much of ``basis`` as fits in ``work``
        entries; if ``every``, from all of it."""
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
    """A cache of estimates by row key and basis, for all multiples of a row. Thread-safe."""

    def __init__(self) -> None:
        self._cache: Cache[tuple[int, Estimate]] = Cache(
            200_000, 1 << 28, lambda _, found: 300 + 16 * len(found[1].numbers)
        )

    def put(self, key: bytes, content: int, basis: Basis, estimate: Estimate) -> None:
        self._cache.put((key, basis), (content, estimate))

    def find_all(self, rows: Sequence[tuple[bytes, int, Basis]]) -> list[Estimate | None]:
        """The estimate for each row's key, content and basis, or None."""
        every = self._cache.find_all([(key, basis) for key, _, basis in rows])
        return [
            None
            if found is None
            else found[1]
            if found[0] == content
            else found[1].times(content / found[0])
            for found, (_, content, _) in zip(every, rows, strict=True)
        ]


def _is_narrowest(
    narrowest: dict[bytes, float], key: bytes, content: int, row: Known | None, aim: Aim
) -> bool:
    """Whether the statement has reported no multiple of the row as narrowly; notes the width."""
    width = math.inf if row is None else row.half_width(aim.confidence) / abs(content)
    before = narrowest.get(key, math.inf)
    narrowest[key] = min(before, width)
    return not before <= width < math.inf


def _no_worse(new: Estimate, known: Known, confidence: Fraction) -> bool:
    """Whether neither the variance nor the interval is larger. Equal variances mean that both are
    the same best combination."""
    if new.variance >= known.variance * _SAME:
        return new.variance * _SAME <= known.variance
    return new.half_width(confidence) <= known.half_width(confidence)


def _best(made: Mapping[Criterion, Estimate | None], aim: Aim) -> Estimate | None:
    """The best for the aim of the estimates ``made`` by the criteria they were reported for, whose
    interval is no wider than was reported at its confidence."""
    each = [*dict.fromkeys(one for one in made.values() if one is not None)]
    if aim.criterion is not None:
        return reduce(lambda first, second: better(first, second, aim.criterion), each, None)
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


def better(first: Estimate | None, second: Estimate | None, by: Criterion) -> Estimate | None:
    """The better of two estimates, the first if they are equal."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first
