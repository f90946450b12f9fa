"""What is known of one table's rows, and how well: from all that was released, and what is exact.

For each row there is the best recorded answer of this very row, and the best linear unbiased
combination of the recorded answers that bear on it; the narrower of the two is what is known. Which
of several estimates is taken is decided by the laws of their errors, never by their values. All of
it is made of released answers and of public coefficients: it costs nothing, and what it takes in
time depends on nothing confidential. An answer of a mechanism with a public range stands for
itself: it has no part in a combination.

The rows that one statement asks are estimated together, so that what follows from them linearly has
an estimate that follows from theirs, unless together they tell too many cells apart.

What was once reported of a row is never worse later, though later answers may leave what it was
made of no place among those that take part: before an estimate is reported, the ledger is told
which answers it was made from, unless it knows. So it can be made again, by any process. Worse
means of a greater deviation: the ends of intervals are rounded, and may move by one step.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.accountant import ROW_BYTES, Accountant, Basis, Charge, Derivation
from tallyveil.cache import Cache
from tallyveil.inference import Noises
from tallyveil.invariants import Span
from tallyveil.knowledge.aim import Aim
from tallyveil.knowledge.all_looks import Sequences, sequences
from tallyveil.knowledge.answer import Estimated, released
from tallyveil.knowledge.estimate import Criterion, Estimate, Weights, improves, surpasses
from tallyveil.knowledge.exact import Exact
from tallyveil.knowledge.found import Bought, Found, Outlook, Rows
from tallyveil.knowledge.known import Known
from tallyveil.knowledge.matrix import most
from tallyveil.knowledge.outside import separate
from tallyveil.knowledge.precision import Preview
from tallyveil.knowledge.prepared import fitting, prepared
from tallyveil.knowledge.preview import previews
from tallyveil.knowledge.rounding import jointly_rounded
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.locks import Rank, ranked_lock
from tallyveil.workload.workload import Column

__all__ = ["Knowledge"]

_ROWS: Final = 2_000  # of a statement with more, rows have their own answers only
_ROWS_THAT_AGREE: Final = 20_000  # instead, where there are exact rows to agree with
_COLUMNS: Final = 100  # as well
_WORK: Final = 100_000  # entries of a system
_UNKNOWN: Final = 30_000  # for each row, where none has an answer of its own
_FEW: Final = 8  # columns that take whoever needs them next to no time
_WHATEVER: Final = 1 << 62  # of work: it was done before
_TOGETHER: Final = 2_000  # rows between two looks at the deadline
_SHARED: Final = 4  # so many times the work of one column is shared by all of a statement's


class Knowledge:
    """Of one table, by what the accountant records, in this process and others.

    Threads may share it. Its lock is held while answers are taken in, not while estimates are made.
    """

    def __init__(self, accountant: Accountant, table: str) -> None:
        self._accountant = accountant
        self._table = table
        self._lock = ranked_lock(Rank.KNOWLEDGE)
        self._state = State()
        self._exact: Exact | None = None
        self._outlooks: Cache[Outlook] = Cache(1024, 1 << 27, lambda _, one: one.weight)
        self._derived: Cache[Estimate] = Cache(
            200_000, 1 << 28, lambda _, one: 300 + 16 * len(one.numbers)
        )

    def declare(self, span: Span, values: Sequence[int]) -> None:
        """What is published exactly: a value for each row of the span. It is said once, before
        anything is asked."""
        with self._lock:
            self._exact = Exact(span, values)
            for column, own in span.disjoint_columns(values):
                self._state.declare(column, own)

    @property
    def exact(self) -> Exact | None:
        """What is published exactly, if anything is."""
        return self._exact

    @property
    def recorded(self) -> int:
        """How many columns of answers are recorded; it grows with every answer."""
        return self._accountant.recorded(self._table)

    def find(self, columns: Sequence[Column], aims: Sequence[Aim], *, fresh: bool = False) -> Found:
        """What is known of each row; what is exact alone if ``fresh`` answers are asked for."""
        exact = self._exact
        if exact is None and not fresh:
            return self._found(columns, aims)
        if exact is not None and not fresh and not exact.knows_all(columns):
            return exact.put(self._found(columns, aims))
        nothing = tuple((None,) * column.height for column in columns)
        found = Found(tuple(columns), tuple(aims), nothing)
        if exact is None:
            return found
        return exact.put(replace(found, outlooks=self._agreeing(columns, aims) if fresh else ()))

    def _agreeing(self, columns: Sequence[Column], aims: Sequence[Aim]) -> tuple[Outlook, ...]:
        """By exact rows alone: so fresh answers agree with them."""
        which = tuple(_estimated(aims))
        some = [columns[n] for n in which]
        system = None
        if 0 < sum(column.height for column in some) <= self._most_rows:
            system = System.of(self._state, some, (), _WORK)
        if system is None:
            return ()
        return (replace(Outlook.nothing(which, some, -1), system=system),)

    @property
    def _most_rows(self) -> int:
        return _ROWS if self._exact is None else _ROWS_THAT_AGREE

    def _found(self, columns: Sequence[Column], aims: Sequence[Aim]) -> Found:
        """By what is recorded."""
        rows: list[Sequence[Known | None]] = [(None,) * column.height for column in columns]
        estimated = _estimated(aims)
        outlooks = self._look_at(columns, aims, estimated)
        for outlook in outlooks:
            for number, estimates in zip(outlook.columns, outlook.rows, strict=True):
                own = self._state.own(columns[number])
                rows[number] = [
                    _improved(a, b, aims[number]) for a, b in zip(own, estimates, strict=True)
                ]
        for number, (column, aim) in enumerate(zip(columns, aims, strict=True)):
            deadline.check()
            if aim.in_range:
                if not outlooks:
                    self._learned()
                own = self._state.own(column, aim.mechanism.name)
                rows[number] = [
                    _in_range(a, b, aim) for a, b in zip(own, rows[number], strict=True)
                ]
        return Found(tuple(columns), tuple(aims), tuple(map(tuple, rows)), outlooks)

    def after(self, found: Found, bought: Bought | None, analyst: str) -> Rows:
        """What is known once something was bought, which ``analyst`` is about to be told: it can be
        found again, in any process."""
        rows = [list(known) for known in found.rows]
        outlooks = list(found.outlooks)
        if bought is not None:
            self._take_in(bought)
            _put(found.aims, bought, rows)
            if not found.alone and not bought.mechanism.needs.public_range:
                outlooks = [self._once_bought(found, one, bought) for one in found.outlooks]
                for now in outlooks:
                    for number, estimates in zip(now.columns, now.rows, strict=True):
                        aim = found.aims[number]
                        pairs = zip(rows[number], estimates, strict=True)
                        rows[number] = [_improved(a, b, aim) for a, b in pairs]
        derivations = [
            derivation
            for column, aim, known in zip(found.columns, found.aims, rows, strict=True)
            for derivation in self._unknown(column, known, aim.criterion)
        ]
        if derivations:
            self._accountant.derive({self._table: derivations}, analyst)
        for outlook in outlooks:
            _add_up(outlook, rows)
        return tuple(map(tuple, rows))

    def over_all_looks(
        self, columns: Sequence[Column], rows: Rows, confidence: Fraction
    ) -> tuple[Sequences, ...]:
        """The intervals of the columns' rows over all looks; they hold the answers too."""
        state, seen = self._learned()
        return tuple(
            sequences(state.sequence(column, seen), known, confidence)
            for column, known in zip(columns, rows, strict=True)
        )

    def previews(self, charge: Charge) -> list[Preview]:
        """How precisely counts would be known if ``charge`` were paid for (`preview`).

        Raises StatementTooComplex where there is too much to look at, and TypeError if its noise is
        not added.
        """
        pending = self._accountant.pending(self._table)
        state, seen = self._learned()
        # Some of them may have been recorded in between.
        left = [answer for answer in pending if not state.answered(answer.charge_id)]
        return list(previews(charge, state, seen, left))

    def learn(self) -> None:
        """Take in what is recorded, which takes long where that is much: before anybody asks."""
        self._learned()

    def _learned(self) -> tuple[State, int]:
        """What is recorded, and how many columns of it are looked at."""
        state = self._state
        with self._lock:
            start, first = len(state.answers), state.derivations
        answers, derivations = self._accountant.learned(self._table, start, first)
        with self._lock:
            # Somebody else may have learnt the first of them meanwhile.
            for answer in answers[len(state.answers) - start :]:
                state.learn(answer)
            for derivation in derivations[state.derivations - first :]:
                state.derive(derivation)
            return state, len(state.answers)

    def _take_in(self, bought: Bought) -> None:
        """Learn what was bought, and prepare it if it is much: who bought it has that done, and not
        the next who asks something else."""
        state, _ = self._learned()
        for place in range(len(bought.columns) if len(bought.columns) > _FEW else 0):
            prepared([state.answers[state.of_charge(bought.charge_id, place)].column])

    def _look_at(
        self, columns: Sequence[Column], aims: Sequence[Aim], which: Sequence[int]
    ) -> tuple[Outlook, ...]:
        """The best estimates of all rows of some columns, together if that can be; none has a wider
        interval than was reported."""
        if not which:
            return ()
        _, seen = self._learned()
        whole = self._look(columns, tuple(which), seen, 1) if len(which) > 1 else None
        outlooks = (
            [self._look(columns, (n,), seen, len(which)) for n in which]
            if whole is None
            else [whole]
        )
        return tuple(
            replace(
                one,
                rows=tuple(
                    self._with_reported(columns[n], rows, aims[n])
                    for n, rows in zip(one.columns, one.rows, strict=True)
                ),
            )
            for one in outlooks
            if one is not None
        )

    def _look(
        self, every: Sequence[Column], which: tuple[int, ...], seen: int, among: int
    ) -> Outlook | None:
        """What the first ``seen`` recorded columns say of some columns, which are ``among`` so many
        that share the work; None if several are too large to be looked at together."""
        columns = [every[n] for n in which]
        height = sum(column.height for column in columns)
        nothing = Outlook.nothing(which, columns, seen)
        if not 0 < height <= self._most_rows or max(among, len(which)) > _COLUMNS:
            return nothing if len(which) == 1 else None
        key = _key(columns, among)
        latest = self._outlooks.find(key)
        if latest is not None and latest.seen == seen:
            return replace(latest, columns=which)
        found = self._looked(columns, nothing, max(_SHARED, among), latest)
        if found is not None and (latest is None or latest.seen < seen):
            self._outlooks.put(key, found)
        return found

    def _looked(
        self, columns: Sequence[Column], nothing: Outlook, shares: int, latest: Outlook | None
    ) -> Outlook | None:
        """As `_look`. If that comes to the same recorded columns as for the ``latest``, it says the
        same."""
        state, seen = self._state, nothing.seen
        chosen, work = self._chosen(columns, seen)
        if chosen is None and len(columns) == 1:
            return replace(nothing, outside=True)
        work = work * _SHARED // shares
        taken = (chosen or ())[: most(work)]
        if latest is not None and latest.chosen == (taken, work):
            return replace(latest, seen=seen, columns=nothing.columns)
        system = System.of(state, columns, taken, work)
        if system is None:
            return replace(nothing, chosen=(taken, work)) if len(columns) == 1 else None
        if chosen is None:
            return replace(nothing, system=system, outside=True)
        if not system.used:  # what follows from exact rows alone is known without it (`exact`)
            return replace(nothing, system=system, chosen=(taken, work))
        return replace(nothing.estimated(system), chosen=(taken, work))

    def _chosen(self, columns: Sequence[Column], seen: int) -> tuple[tuple[int, ...] | None, int]:
        """Which recorded columns are to be looked at beside some columns, those with rows of theirs
        first, and the work they are worth; None if these can say nothing of any combination of the
        columns' rows. Those that tell too many cells apart are left out."""
        state, same, work = self._state, self._state.holding(columns, seen), _WORK
        if not same:
            work = min(_WORK, _UNKNOWN * sum(column.height for column in columns))
            if state.outside(columns, seen):
                return None, work
        found = dict.fromkeys(same)
        for _, level in state.nearest(columns, seen, most(work)):
            found |= dict.fromkeys(level)
            if len(found) >= most(work):
                break
        every = [*found][: most(work)]
        if not same and state.outside(columns, seen, every):
            return None, work
        fits = fitting(prepared([state.answers[n].column for n in every]), prepared(columns))
        return tuple(itertools.compress(every, fits)), work

    def _once_bought(self, found: Found, outlook: Outlook, bought: Bought) -> Outlook:
        """The outlook once some of its rows are bought, or of other columns beside them."""
        state, seen = self._learned()
        columns = [found.columns[n] for n in outlook.columns]
        places = [n for n, number in enumerate(bought.columns) if number in outlook.columns]
        if not places:
            now = self._look(found.columns, outlook.columns, seen, len(found.columns))
            return now or outlook
        used = [state.of_charge(bought.charge_id, place) for place in places]
        rows = [bought.rows[place] for place in places]
        mine = [outlook.columns.index(bought.columns[place]) for place in places]
        mixed = [list(estimates) for estimates in outlook.rows]
        for number, of, own in zip(used, mine, rows, strict=True):
            answer, noises = state.answers[number], state.noises(number)
            if noises is None:
                return outlook
            numbers = state.noise_numbers(number).tolist()
            for place, row in enumerate(own.tolist()):
                before = mixed[of][row]
                if before is not None:
                    mixed[of][row] = before.mixed(
                        number, numbers[place], answer.values[place], noises
                    )
        now = self._joined(state, outlook, columns, used, mine, rows)
        if now is None:
            now = outlook
        elif seen == outlook.seen + len(bought.columns):
            now = replace(now, seen=seen)
            self._outlooks.put(_key(columns, len(found.outlooks)), now)
        best = tuple(
            tuple(_better(a, b, found.aims[n].criterion) for a, b in zip(*pair, strict=True))
            for n, *pair in zip(now.columns, now.rows, mixed, strict=True)
        )
        return replace(now, rows=best)

    def _joined(
        self,
        state: State,
        outlook: Outlook,
        columns: Sequence[Column],
        used: Sequence[int],
        mine: Sequence[int],
        rows: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]],
    ) -> Outlook | None:
        """With what was bought of the outlook's columns ``mine``, which is recorded as ``used``."""
        system = outlook.system
        if system is None and outlook.outside:
            if len(columns) == 1 and separate(columns[0]) and len(rows[0]) == columns[0].height:
                return _own_answers(state, outlook, used[0])
            system = System.of(state, columns, (), _WORK)
        if system is None:
            return None
        starts = np.cumsum([0, *(column.height for column in columns)])
        joined = system.joined(
            used,
            np.concatenate([starts[of] + own for of, own in zip(mine, rows, strict=True)]),
            state.values(used),
            state.all_noises(used),
            np.concatenate([state.noise_numbers(number) for number in used]),
        )
        return outlook.estimated(joined)

    def _unknown(
        self, column: Column, rows: Sequence[Known | None], by: Criterion
    ) -> list[Derivation]:
        """How the estimates among what is reported of a column's rows were made, as far as the
        ledger does not know and the rows' own answers do not tell."""
        deadline.check()
        found: dict[Basis, list[bytes]] = {}
        for key, row in zip(column.row_keys, rows, strict=True):
            if not isinstance(row, Estimated) or row.estimate.alone:
                continue
            estimate = row.estimate
            if estimate.basis not in self._state.bases(key):
                self._derived.put((key, estimate.basis), estimate)
                found.setdefault(estimate.basis, []).append(key[:ROW_BYTES])
        return [Derivation(tuple(keys), basis, by) for basis, keys in found.items()]

    def _with_reported(
        self, column: Column, rows: Sequence[Estimate | None], aim: Aim
    ) -> tuple[Estimate | None, ...]:
        """What was reported of each row, unless the row here improves on it."""
        found, by = list(rows), aim.criterion
        for start in range(0, len(found), _TOGETHER):
            deadline.check()
            keys = enumerate(column.row_keys[start : start + _TOGETHER], start)
            reported = {row: bases for row, key in keys if (bases := self._state.bases(key, by))}
            pairs = [(row, basis) for row, bases in reported.items() for basis in bases]
            best: dict[int, Estimate | None] = {}
            for (row, _), one in zip(pairs, self._made(column, pairs), strict=True):
                best[row] = _better(best.get(row), one, by)
            for row, one in best.items():
                now = found[row]
                if now is None or (one is not None and not improves(now, one, by, aim.confidence)):
                    found[row] = one
        return tuple(found)

    def _made(self, column: Column, pairs: Sequence[tuple[int, Basis]]) -> list[Estimate | None]:
        """For each row of the column and basis the estimate, which may have to be made again."""
        keys = [(column.row_keys[row], basis) for row, basis in pairs]
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
        if max((*basis.whole, *basis.own), default=0) >= len(state.answers):
            return
        system = System.of(state, [part], basis.whole, _WHATEVER)
        estimates = [None] * part.height if system is None else system.estimates()
        for key, first in zip(part.row_keys, estimates, strict=True):
            estimate = first
            for number in basis.own:
                estimate = state.with_own(estimate, number, key)
            if estimate is not None:
                self._derived.put((key, basis), estimate)


def _key(columns: Sequence[Column], among: int) -> tuple[Hashable, ...]:
    return (max(_SHARED, among), *(column.row_keys for column in columns))


def _estimated(aims: Sequence[Aim]) -> list[int]:
    """The columns for which answers that are added up serve."""
    return [n for n, aim in enumerate(aims) if aim.by_auto or not aim.in_range]


def _own_answers(state: State, outlook: Outlook, number: int) -> Outlook:
    """Of one column, each of whose rows has its own answer in the recorded column ``number``."""
    noises = state.noises(number)
    own = Weights(np.ones(1), Noises.concatenated([] if noises is None else [noises]))
    basis = Basis(own=(number,))
    rows = tuple(
        Estimate(value, noise, own, basis)
        for value, noise in zip(
            state.answers[number].values, state.noise_numbers(number)[:, None], strict=True
        )
    )
    return Outlook(outlook.columns, outlook.seen, (rows,))


def _put(aims: Sequence[Aim], bought: Bought, rows: Sequence[list[Known | None]]) -> None:
    """The answers that were bought, where they are better than what was known."""
    for place, number in enumerate(bought.columns):
        answers, by = rows[number], aims[number].criterion
        says = released(bought.mechanism, bought.scales[place])
        asked = zip(bought.rows[place].tolist(), bought.values[place], strict=True)
        for n, (row, value) in enumerate(asked):
            if not n % _TOGETHER:
                deadline.check()
            fresh, before = says(value), answers[row]
            comparable = before is not None and before.additive and fresh.additive
            if before is None or not comparable or surpasses(fresh, before, by):
                answers[row] = fresh


def _improved(reported: Known | None, other: Estimate | None, aim: Aim) -> Known | None:
    """The other answer, if it improves on one that may have been reported."""
    if other is None or (reported is not None and not reported.additive):
        return reported
    if reported is None or improves(other, reported, aim.criterion, aim.confidence):
        return Estimated(other)
    return Estimated(other) if _agrees_better(other, reported, aim) else reported


def _agrees_better(other: Estimate, reported: Known, aim: Aim) -> bool:
    """Whether it agrees with exact rows, is no less precise, and serves as well."""
    exact = bool(len(other.numbers)) and int(other.numbers.min()) < 0
    if not exact or other.variance > reported.variance:
        return False
    return aim.half_width is None or aim.met_by(other)


def _add_up(outlook: Outlook, rows: Sequence[list[Known | None]]) -> None:
    """Report values that add up, of rows that are estimated together, and to exact ones."""
    system = outlook.system
    exact = np.zeros(0, np.int64) if system is None else np.flatnonzero(system.numbers < 0)
    if system is None or not (len(outlook.columns) > 1 or len(exact)):
        return
    places = [(n, row) for n in outlook.columns for row in range(len(rows[n]))]
    known = [
        (number, place, answer)
        for number, place in enumerate(places)
        if (answer := rows[place[0]][place[1]]) is not None and answer.additive
    ]
    if not known:
        return
    matrix = system.question[[number for number, _, _ in known]]
    values = np.array([answer.value for _, _, answer in known], dtype=np.float64)
    variances = np.array([answer.variance for _, _, answer in known])
    told = jointly_rounded(
        sparse.vstack([matrix, system.history[exact]], format="csr"),
        np.concatenate([values, system.values[exact]]),
        np.concatenate([variances, np.zeros(len(exact))]),
    )
    for value, (_, (n, row), answer) in zip(told or (), known, strict=False):
        rows[n][row] = answer.reporting(value)


def _in_range(own: Known | None, unbiased: Known | None, aim: Aim) -> Known | None:
    """A recorded answer of the mechanism itself, or an unbiased one that serves better."""
    if own is None or unbiased is None:
        return own or unbiased
    return own if own.suffices(aim) or not unbiased.suffices(aim) else unbiased


def _better(first: Estimate | None, second: Estimate | None, by: Criterion) -> Estimate | None:
    """The better of two estimates, the first where they are equals."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first
