"""The best estimates of a statement's rows from what is recorded, cached while they stay valid.

The rows of one statement are estimated jointly, so that linear relations between the rows hold
between their estimates. If they are too many, or distinguish too many cells, its columns are halved
until they fit. All parts share the work allowed for one statement.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.cache import Cache
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.estimate import Estimate, Shared
from tallyveil.knowledge.direct_answers import released
from tallyveil.knowledge.estimates import Estimates
from tallyveil.knowledge.found import Bought, Found
from tallyveil.knowledge.recorded.matrix import COLUMN
from tallyveil.knowledge.recorded.prepared import CELLS, fitting, prepared
from tallyveil.knowledge.reported import TOGETHER
from tallyveil.knowledge.selection import better
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import ANY_WORK, KINDS, WRITTEN_OUT, System, fitting_rows
from tallyveil.knowledge.update import updated
from tallyveil.workload.orthogonal import are_orthogonal
from tallyveil.workload.workload import Column

__all__ = ["Estimator", "is_large"]

_ROWS: Final = 2_000  # rows estimated jointly
_EVERY_ROW: Final = 4_000  # rows of a statement; further rows have their own answers only
_FOLLOWING: Final = 3_000  # rows of a statement that follow from other rows bought for it
_REMADE: Final = 32  # columns of a statement that may be more work than `_WORK`
_COLUMNS: Final = 512  # columns of a statement; with more, rows have their own answers only
_WORK: Final = 100_000  # entries of a system
_PART: Final = 20_000  # entries of one of several systems: few larger ones would be solved
_EACH: Final = 30_000  # entries for each row: more narrow nothing by 0.1 % (`bench.sessions`)
_PLANNED: Final = 10  # times as much work where a plan's rows, of up to a year of days, are known
_NARROW: Final = 4  # choices of columns over few attributes to try if all are too much work
_HALVES: Final = 3  # how often the columns are halved if all are too much work
_SHARED: Final = 4  # a statement's columns share this many times the work of one system


class _Share(NamedTuple):
    """A share of one statement's limits: entries of a system, and laws of errors."""

    work: int
    kinds: int

    @classmethod
    def of(cls, columns: int, every: int, more: int) -> _Share:
        """The share of ``columns`` of the ``every`` columns that a statement asks. ``more``: how
        many times the usual work it may be."""
        if columns == every:
            return cls(more * _WORK, KINDS)
        work = min(_PART, _WORK * _SHARED * columns // every)
        return cls(more * work, max(1, KINDS * columns // every))


class Estimator:
    """The estimates for one table. Threads may share it. ``planned``: the table has plans, whose
    rows each count many days."""

    def __init__(self, state: State, *, planned: bool = False) -> None:
        self._state = state
        self._more = _PLANNED if planned else 1
        self._estimates: Cache[Estimates] = Cache(1024, 1 << 27, lambda _, one: one.weight)

    def at(
        self, columns: Sequence[Column], which: Sequence[int], seen: int, asked: int
    ) -> tuple[Estimates, ...]:
        """Estimate all rows of the columns ``which`` from the first ``seen`` recorded columns,
        jointly where possible. Rows beyond the limit get no estimate.

        Columns from number ``asked`` on are sums of the others, and do not reduce their limits."""
        own, sums = (tuple(n for n in which if (n < asked) == first) for first in (True, False))
        if own and sums and len(which) <= _COLUMNS:
            some = [columns[n] for n in which]
            if not is_large(some):
                one = self._look(some, tuple(which), seen, _Share.of(1, 1, self._more), len(own))
                if one is not None:
                    return (one,)
        return self._in_parts(columns, own, seen) + self._in_parts(columns, sums, seen)

    def _in_parts(
        self, columns: Sequence[Column], which: Sequence[int], seen: int
    ) -> tuple[Estimates, ...]:
        """As `at`, for columns that are all asked or all sums."""
        found: list[Estimates] = []
        left, parts = _EVERY_ROW, [tuple(which)] if which else []
        while parts:
            part = parts.pop()
            some = [columns[n] for n in part]
            height = sum(column.height for column in some)
            one = None
            if 0 < height <= min(left, _ROWS) and len(which) <= _COLUMNS:
                share = _Share.of(len(part), len(which), self._more)
                one = self._look(some, part, seen, share, len(part))
            elif len(part) == 1:
                one = Estimates.nothing(part, some, seen)
            if one is None:
                middle = (len(part) + 1) // 2
                parts += [part[middle:], part[:middle]]
                continue
            left -= height if one.examined else 0
            found.append(one)
        return tuple(found)

    def agreeing(self, columns: Sequence[Column], which: Sequence[int]) -> tuple[Estimates, ...]:
        """The system of exact rows alone, with which fresh answers and those of large statements
        must agree. Large statements get no laws."""
        some = [columns[n] for n in which]
        if not sum(column.height for column in some):
            return ()
        share = _Share(WRITTEN_OUT, 0 if is_large(some) else KINDS)
        key = _key(some, share, len(some))
        found = self._estimates.find(key)
        if found is None:
            system = System.of(self._state, some, (), *share)
            found = replace(Estimates.nothing(tuple(which), some, -1), system=system)
            self._estimates.put(key, found)
        return (replace(found, columns=tuple(which)),)

    def follow(
        self,
        columns: Sequence[Column],
        others: Sequence[Column],
        laws: Sequence[NoiseLaw],
        confidence: Fraction | None,
        errors: Sequence[FloatArray] | None = None,
        *,
        orthogonal: bool = False,
    ) -> Sequence[FloatArray] | None:
        """The variances of all rows of the columns, or half-widths at a ``confidence``, as a
        statement that asks these estimates them from answers to ``others``, of these laws, and
        exact rows. None if they do not determine a row, or are more work than a statement may take,
        or than making reported estimates again; of half-widths, if they are estimated in parts.

        Where it is certain that all rows follow, with these ``errors`` if nothing is exact, only
        the work is examined, with the first and the last row of each column, or none if the rows of
        the others are ``orthogonal``, and one of them touches each cell of any."""
        height, work = sum(column.height for column in columns), WRITTEN_OUT
        if len(columns) > _REMADE:  # reported estimates are made again column by column
            work = self._more * min(_WORK, _EACH * height)
        if height > _FOLLOWING:
            return None
        if confidence is not None:
            if height > _ROWS or len(columns) > _COLUMNS:
                return None
            return System.errors(self._state, others, laws, columns, _WORK, confidence)
        ends = errors is not None and not self._state.exact
        orthogonal = orthogonal and ends
        if not self._are_wide((*columns, *others)):
            if orthogonal and System.by_formula(self._state, others, columns, work):
                return errors
            every = System.errors(self._state, others, laws, columns, work, ends=ends)
            return errors if ends and every is not None else every
        found = list[FloatArray]()
        for column in columns:
            deadline.check()
            own = _within(column, others)
            bought = [others[n] for n in own] if orthogonal else ()
            if bought and System.by_formula(self._state, bought, [column], work):
                continue
            some = [others[n] for n in own], [laws[n] for n in own]
            one = System.errors(self._state, *some, [column], work, ends=ends) if own else None
            if one is None:
                return None
            found += one
        return errors if ends else found

    def _are_wide(self, columns: Sequence[Column]) -> bool:
        """Whether the columns distinguish too many cells to be related to each other. Then each is
        estimated from what was bought about its own attributes, as marginals from contrasts."""
        sizes: dict[str, int] = {}
        for one in prepared(self._state.seed, columns):
            for axis, size in one.sizes.items():
                sizes[axis] = max(size, sizes.get(axis, 1))
        return math.prod(sizes.values()) > CELLS

    def _look(
        self,
        columns: Sequence[Column],
        which: tuple[int, ...],
        seen: int,
        share: _Share,
        asked: int,
    ) -> Estimates | None:
        """Estimate the columns, of which the first ``asked`` determine the others, from the first
        ``seen`` recorded columns; None if several columns are too large together."""
        key = _key(columns, share, asked)
        latest = self._estimates.find(key)
        if latest is not None and latest.seen == seen:
            return replace(latest, columns=which)
        found = self._uncached(
            columns, Estimates.nothing(which, columns, seen), share, latest, asked
        )
        if found is not None and found.unknown > _zero_rows(columns):
            found = self._narrowed(columns, found, share, asked)
        if found is not None and (latest is None or latest.seen < seen):
            self._estimates.put(key, found)
        return found

    def _uncached(
        self,
        columns: Sequence[Column],
        nothing: Estimates,
        share: _Share,
        latest: Estimates | None,
        asked: int,
    ) -> Estimates | None:
        """As `_look`, uncached. Reuses ``latest`` if the same recorded columns would be used."""
        state, seen = self._state, nothing.seen
        taken, work, whole = self._chosen(columns, seen, share.work, asked)
        unhelped = replace(nothing, undetermined=True, given_up=not whole)
        if taken is None and asked == 1:
            return unhelped
        if latest is not None and latest.chosen == (taken, work):
            return replace(latest, seen=seen, columns=nothing.columns)
        sums = sum(column.height for column in columns[asked:])
        if taken is None:
            system = System.of(state, columns, (), work, share.kinds, sums)
            return None if system is None else replace(unhelped, system=system)
        selection, chosen = fitting_rows(state, columns, taken, work), (taken, work)
        if selection is None:
            return replace(nothing, chosen=chosen) if len(columns) == 1 else None
        used, undetermined = selection.recorded, False
        if 0 < len(used) < len(taken):  # more were checked than there was the work for
            spans = state.relevance.spans(used, columns)
            undetermined = state.proves_undetermined(columns[:asked], spans)
            if undetermined and asked == 1:
                return replace(unhelped, chosen=chosen)
        system = System.of_selected(state, selection, share.kinds, sums)
        if undetermined:
            return replace(unhelped, system=system, chosen=chosen)
        if not used:  # rows that follow from exact rows alone are known already (`exact`)
            return replace(nothing, system=system, chosen=chosen)
        return replace(nothing.estimated(system), chosen=chosen)

    def _narrowed(
        self, columns: Sequence[Column], found: Estimates, share: _Share, asked: int
    ) -> Estimates:
        """Estimate from fewer recorded columns, if that determines more rows: with all of them,
        there may have been too much work to find out what a few determine."""
        used = () if found.system is None else found.system.used
        if not found.given_up and (found.undetermined or len(used) == found.seen):
            return found
        most, best, empty = share.work // COLUMN, found, _zero_rows(columns)
        narrow = self._state.relevance.narrow(columns, found.seen, most)
        halves = _HALVES if found.given_up else 0
        fewer: Iterator[Sequence[int]] = itertools.chain(
            itertools.islice(narrow, _NARROW),
            (used[: len(used) >> n] for n in range(1, halves + 1)),
        )
        # What was solved, and whether no part of it determines more rows.
        solved = [(frozenset(used), not found.given_up)]
        for numbers in filter(None, fewer):
            deadline.check()
            if _is_in_vain(numbers, solved):
                continue
            spans = self._state.relevance.spans(numbers, columns)
            if self._state.proves_undetermined(columns[:asked], spans):
                continue
            selection = fitting_rows(self._state, columns, numbers, share.work)
            own = () if selection is None else selection.recorded
            if selection is None or not own or _is_in_vain(own, solved):
                continue
            sums = sum(column.height for column in columns[asked:])
            system = System.of_selected(self._state, selection, share.kinds, sums)
            one = replace(found, undetermined=False).estimated(system)
            solved.append((frozenset(own), not one.given_up))
            if one.unknown < best.unknown:
                best = replace(one, chosen=found.chosen)
            if best.unknown <= empty:
                break
        return best

    def _chosen(
        self, columns: Sequence[Column], seen: int, work: int, asked: int
    ) -> tuple[tuple[int, ...] | None, int, bool]:
        """Choose recorded columns to estimate the columns from, those with common rows first, and
        the work allowed. Columns that distinguish too many cells are left out.

        None instead of them if they determine no combination of the columns' rows but 0. The third
        item is then whether that is certain: checked for all recorded columns."""
        state, same = self._state, self._state.holding(columns, seen)
        work = work * min(_WORK, _EACH * sum(column.height for column in columns)) // _WORK
        helpful = state.helpful(columns, seen) if same else None
        # If all recorded columns determine nothing, no part of them does.
        recorded = None if same else state.relevance.every(columns, seen)
        if recorded is not None and state.proves_undetermined(columns[:asked], recorded):
            return None, work, True
        every, spans = state.relevant(same, columns, seen, work, helpful)
        if not same and state.proves_undetermined(columns[:asked], spans):
            return None, work, False
        recorded_columns = [state.answer(n).column for n in every]
        fits = fitting(prepared(state.seed, recorded_columns), prepared(state.seed, columns))
        return tuple(itertools.compress(every, fits)), work, False

    def after(self, found: Found, bought: Bought, seen: int) -> list[Estimates]:
        """The estimates after the purchase."""
        if not bought.by_other_rows:
            return [self._after_bought(found, one, bought, seen) for one in found.estimates]
        fresh = [self._state.of_charge(bought.charge_id, n) for n in range(len(bought.values))]
        used = [n for one in found.estimates if one.system for n in one.system.used]
        before = [*dict.fromkeys(n for n in used if n not in fresh)]
        others = [[self._state.answer(n).column for n in own] for own in (fresh, before)]
        wide = self._are_wide((*found.columns, *itertools.chain(*others)))
        if found.examined and not wide:
            # As when the statement is asked again, to the last digit, if that uses what was bought.
            which = tuple(range(len(found.columns)))
            looked = self.at(found.columns, which, seen, found.asked)
            taken = [one.system.used for one in looked if one.system]
            if len(taken) == 1 and not looked[0].given_up and {*fresh} <= {*taken[0]}:
                return [*looked]
        # Column by column, as any process makes reported estimates again. Of bought columns that
        # are orthogonal to each other, those that are to the asked one as well take no part in it.
        apart = not wide and are_orthogonal(others[0])
        estimates = []
        for number, column in enumerate(found.columns):
            least = [fresh[n] for n in _within(column, others[0])] if wide else fresh
            if apart:
                each = zip(fresh, others[0], strict=True)
                least = [n for n, other in each if not are_orthogonal((column, other))]
            more = [before[n] for n in _within(column, others[1])] if wide else before
            known = list[Estimate | None]()
            for start in range(0, column.height, TOGETHER):
                rows = np.arange(start, min(start + TOGETHER, column.height), dtype=np.int64)
                part = column.take(rows)
                own = self._made(part, least, least, ANY_WORK)
                if more:  # with what was known before, if that is little work
                    better = self._made(part, (*least, *more), least, _WORK, thorough=False)
                    own = [a or b for a, b in zip(better, own, strict=True)]
                known += own
            nothing = Estimates.nothing((number,), [column], seen)
            estimates.append(replace(nothing, rows=(Answers.estimated(known),)))
        return estimates

    def _made(
        self,
        part: Column,
        used: Sequence[int],
        least: Sequence[int],
        work: int,
        *,
        thorough: bool = True,
    ) -> list[Estimate | None]:
        """The estimates of the rows from those recorded columns ``used`` that fit in ``work``
        entries; none if these are not at ``least`` some."""
        system = System.of(self._state, [part], used, work, thorough=thorough)
        if system is None or not {*least} <= {*system.used}:
            return [None] * part.height
        return system.solved()[0]

    def _after_bought(self, found: Found, joint: Estimates, bought: Bought, seen: int) -> Estimates:
        """The estimates after some of their rows, or rows of other columns, were bought."""
        state = self._state
        if not joint.examined and not any(own.known_rows for own in joint.rows):
            return joint  # it has too many rows
        columns = [found.columns[n] for n in joint.columns]
        asks = joint.columns[0] < found.asked
        asked = sum(n < found.asked for n in joint.columns) if asks else len(columns)
        alike = [one for one in found.estimates if (one.columns[0] < found.asked) == asks]
        places = [n for n, number in enumerate(bought.columns) if number in joint.columns]
        share = _Share.of(len(columns), sum(len(one.columns) for one in alike), self._more)
        if not places:
            return self._look(columns, joint.columns, seen, share, asked) or joint
        used = [state.of_charge(bought.charge_id, place) for place in places]
        rows = [bought.rows[place] for place in places]
        mine = [joint.columns.index(bought.columns[place]) for place in places]
        mixed, shared = [[*own.row_estimates] for own in joint.rows], Shared()
        for number, of, own in zip(used, mine, rows, strict=True):
            if state.answer(number).law is None:
                return joint
            for place, row in enumerate(own.tolist()):
                before = mixed[of][row]
                if before is not None:
                    fresh = released(state, number, place, shared=shared)
                    mixed[of][row] = before.mixed(fresh, shared)
        now = updated(
            state, joint, columns[:asked], columns[asked:], used, mine, rows, self._more * _WORK
        )
        if now is not None and now.given_up:
            # As the statement asked again finds in any process, which may choose what to use anew.
            now = self._look(columns, joint.columns, seen, share, asked) or now
        if now is None and len(columns) > 1 and not joint.examined and not is_large(columns):
            # So far the rows had their own answers, without relations. Now they are estimated, and
            # rounded as they will be when the statement is asked again.
            now = self._look(columns, joint.columns, seen, share, asked)
        if now is None:
            now = joint
        elif seen == joint.seen + len(bought.columns):
            now = replace(now, seen=seen)
            self._estimates.put(_key(columns, share, asked), now)
        every = zip(now.columns, now.rows, map(Answers.estimated, mixed), strict=True)
        return replace(
            now, rows=tuple(better(own, others, found.aims[n]) for n, own, others in every)
        )


def _is_in_vain(numbers: Collection[int], solved: Sequence[tuple[frozenset[int], bool]]) -> bool:
    """Whether recorded columns determine no more rows than one of those sets that were ``solved``,
    each with whether no part of it does: the same set, or such a part."""
    return any(
        one.issuperset(numbers) and (whole or len(one) == len(numbers)) for one, whole in solved
    )


def _within(column: Column, others: Sequence[Column]) -> list[int]:
    """The numbers of those others that mention no other attributes than the column."""
    own = frozenset(column.axes)
    return [n for n, other in enumerate(others) if own.issuperset(other.axes)]


def is_large(columns: Sequence[Column]) -> bool:
    """Whether there are too many rows for estimates from other answers."""
    return sum(column.height for column in columns) > _ROWS


def _zero_rows(columns: Sequence[Column]) -> int:
    """The number of rows without a coefficient. These are 0 and need no estimate."""
    return sum(len(column.zeros) for column in columns)


def _key(columns: Sequence[Column], share: _Share, asked: int) -> tuple[Hashable, ...]:
    """What estimates are cached by. Where only the first columns are ``asked``, the others may have
    no estimates, and no system that relates them: they follow as sums."""
    return (share, asked, *(column.row_names for column in columns))
