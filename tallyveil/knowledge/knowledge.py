"""What is known of one table's rows, and how well: from all that was released, and what is exact.

For each row there is the best recorded answer of this very row, and the best linear unbiased
combination of the recorded answers that bear on it; the narrower of the two is what is known. Which
of several estimates is taken is decided by the laws of their errors, never by their values. All of
it is made of released answers and of public coefficients: it costs nothing, and what it takes in
time depends on nothing confidential. An answer of a mechanism with a public range stands for
itself: it has no part in a combination.

What was once reported of a row is never worse later: before an estimate is reported, the ledger is
told which answers it was made from, unless it knows (`reported`). Worse means of a wider interval
at the same confidence: its ends are rounded, and may move by one step, and it is stretched where a
value is reported outside of it, so that rows add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tallyveil import deadline
from tallyveil.accountant import Accountant, Arrays, Basis, Charge, Derivation
from tallyveil.invariants import Span
from tallyveil.knowledge.all_looks import Sequences, sequences
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Known
from tallyveil.knowledge.answers.exact import ExactRows
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.precision import Preview
from tallyveil.knowledge.found import Bought, Found, Outlook, Rows
from tallyveil.knowledge.improvement import (
    all_improved,
    as_reported,
    in_range,
    no_wider,
    put_bought,
)
from tallyveil.knowledge.looks import Looks, is_large
from tallyveil.knowledge.own import looks, own_answers
from tallyveil.knowledge.preview import previews
from tallyveil.knowledge.recorded.prepared import prepared
from tallyveil.knowledge.reported import Reported
from tallyveil.knowledge.state import State
from tallyveil.knowledge.sums.adding_up import add_up
from tallyveil.knowledge.sums.totals import Totals
from tallyveil.knowledge.system import System
from tallyveil.locks import Rank, ranked_lock
from tallyveil.workload.workload import Column, Summed

__all__ = ["Knowledge"]

_LONG: Final = 1_000  # releases that take long to learn
_FEW: Final = 8  # columns that take whoever needs them next to no time


class Knowledge:
    """Of one table, by what the accountant records, in this process and others.

    Threads may share it. Its lock is held while answers are taken in, not while estimates are made.
    """

    def __init__(self, accountant: Accountant, table: str) -> None:
        self._accountant = accountant
        self._table = table
        self._lock = ranked_lock(Rank.KNOWLEDGE)
        self._state = State()
        self._exact = ExactRows()
        self._looks = Looks(self._state)
        self._reported = Reported(self._state)

    def declare(self, span: Span, values: Sequence[int]) -> None:
        """What is published exactly: a value for each row of the span. It is said once, before
        anything is asked."""
        with self._lock:
            self._exact = ExactRows(span, values)
            for column, own in span.disjoint_columns(values):
                self._state.declare(column, own)

    @property
    def recorded(self) -> int:
        """How many columns of answers are recorded; it grows with every answer."""
        return self._accountant.recorded(self._table)

    def find(
        self,
        columns: Sequence[Column],
        aims: Sequence[Aim],
        *,
        fresh: bool = False,
        summed: Sequence[Summed] = (),
    ) -> Found:
        """What is known of each row, and of those ``summed`` up from them; what is exact alone if
        ``fresh`` answers are asked for."""
        exact = self._exact
        columns = (*columns, *(one.column for one in summed))
        aims = (*aims, *(aims[one.of] for one in summed))
        bears = exact.bears_on(columns)
        if not fresh and not (bears and exact.knows_all(columns)):
            found = replace(self._found(columns, aims, len(summed)), summed=tuple(summed))
            return exact.put(found) if bears else found
        nothing = tuple((None,) * column.height for column in columns)
        found = Found(columns, aims, nothing, summed=tuple(summed))
        if fresh and exact.span is not None and not is_large(columns):
            found = replace(found, outlooks=self._looks.agreeing(columns, _estimated(aims)))
        return exact.put(found) if bears else found

    def _found(self, columns: Sequence[Column], aims: Sequence[Aim], summed: int) -> Found:
        """By what is recorded; so many of the columns, the last, are summed up from the others."""
        rows: list[Sequence[Known | None]] = [(None,) * column.height for column in columns]
        outlooks = self._looked_at(columns, aims, _estimated(aims), len(columns) - summed)
        for outlook in outlooks:
            for number, estimates in zip(outlook.columns, outlook.rows, strict=True):
                column, aim = columns[number], aims[number]
                own = all_improved(own_answers(self._state, column), estimates, aim)
                rows[number] = as_reported(own, estimates, self._reported, column, aim)
        for number, (column, aim) in enumerate(zip(columns, aims, strict=True)):
            deadline.check()
            if aim.in_range:
                if not outlooks:
                    self._learned()
                own = own_answers(self._state, column, aim.mechanism.name)
                rows[number] = [in_range(a, b, aim) for a, b in zip(own, rows[number], strict=True)]
        kept = tuple(own if isinstance(own, Alike) else tuple(own) for own in rows)
        return Found(tuple(columns), tuple(aims), kept, outlooks)

    def after(
        self, found: Found, bought: Bought | None, analyst: str, *, nonnegative: bool = False
    ) -> tuple[Rows, bool]:
        """What is known once something was bought, which ``analyst`` is about to be told: it can be
        found again, in any process; and whether what is reported adds up, and to what is exact.
        ``nonnegative``: what no record can make negative is reported as 0 at least.
        """
        rows = list(found.rows)
        outlooks = list(found.outlooks)
        if bought is not None:
            self._take_in(bought)
            if not bought.indirect:
                put_bought(self._state, found.aims, bought, rows)
            if bought.indirect or not (found.alone or bought.mechanism.needs_range):
                _, seen = self._learned()
                outlooks = self._looks.after(found, bought, seen)
                for now in outlooks:
                    for number, estimates in zip(now.columns, now.rows, strict=True):
                        rows[number] = all_improved(rows[number], estimates, found.aims[number])
            triples = zip(rows, found.rows, found.aims, strict=True)
            rows = [no_wider(now, before, aim) for now, before, aim in triples]
        derivations, totals = list[Derivation](), list[Totals]()
        made_from: dict[int, Sequence[Basis]] = {}
        told: dict[bytes, float] = {}
        for number, (column, aim) in enumerate(zip(found.columns, found.aims, strict=True)):
            known, total = rows[number], None
            sums: Mapping[int, Basis] = {}
            if number >= found.asked:
                total = Totals.put(number, found.summed[number - found.asked], rows, aim)
                totals.append(total)
                if total.better and not is_large(found.columns):
                    of = total.of
                    if of not in made_from:
                        made_from[of] = self._reported.made_from(found.columns[of], rows[of])
                    fine = found.columns[of]
                    sums = self._reported.sums(total, rows[number], fine, made_from[of], aim)
            derivations += self._reported.unknown(column, known, aim, told, total, sums)
        if derivations:
            self._accountant.derive({self._table: derivations}, analyst)
        agree, complete = True, all(one.complete for one in totals)
        for outlook in self._together(found, outlooks, as_sums=complete):
            agree &= add_up(self._state, outlook, found.columns, rows, nonnegative)
        for one in totals:
            one.add_up(rows)
        return tuple(rows), agree

    def follow(self, columns: Sequence[Column], rows: Column) -> bool:
        """Whether all rows of some columns can be estimated from ``rows`` and what is exact."""
        return System.determines(self._state, rows, columns)

    def _together(
        self, found: Found, outlooks: Sequence[Outlook], *, as_sums: bool
    ) -> Sequence[Outlook]:
        """Whose rows are to add up: those of all columns, or if nothing is exact of not too many
        rows. Columns that are known ``as_sums`` of the others add up anyway."""
        exact, large = self._exact.span is not None, is_large(found.columns)
        which = _estimated(found.aims)
        wholes = (one for one in outlooks if one.system and len(one.columns) == len(which))
        apart = not as_sums and not any(wholes)
        if as_sums:
            which = [n for n in which if n < found.asked]
            outlooks = [one for one in outlooks if one.columns[0] < found.asked]
        if apart or (exact if large else len(outlooks) > 1):
            return self._looks.agreeing(found.columns, which)
        return [one for one in outlooks if exact or (len(one.columns) > 1 and not large)]

    def _looked_at(
        self, columns: Sequence[Column], aims: Sequence[Aim], which: Sequence[int], asked: int
    ) -> tuple[Outlook, ...]:
        """The best estimates of all rows of some columns, of which the first ``asked`` are no sums
        of others; none has a wider interval than was reported."""
        if not which:
            return ()
        _, seen = self._learned()
        return tuple(
            replace(
                one,
                rows=tuple(
                    self._reported.at_least(columns[n], rows, aims[n])
                    for n, rows in zip(one.columns, one.rows, strict=True)
                ),
            )
            for one in self._looks.at(columns, which, seen, asked)
        )

    def over_all_looks(
        self, columns: Sequence[Column], rows: Rows, confidence: Fraction
    ) -> tuple[Sequences, ...]:
        """The intervals of the columns' rows over all looks; they hold the answers too."""
        state, seen = self._learned()
        return tuple(
            sequences(looks(state, column, seen), column, known, confidence)
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
        """Take in what is recorded, which takes long where that is much: before anybody asks. What
        takes long is written down for the next process."""
        written = self._accountant.derived(self._table, self._written)
        with self._lock:
            known = self._state.resume(written) if written else 0
        state, _ = self._learned()
        if state.releases - known > _LONG:
            self._accountant.summarise(0)

    def _written(self) -> Arrays:
        """What `State.resume` takes, of what is learnt by now."""
        with self._lock:
            return self._state.written()

    def _learned(self) -> tuple[State, int]:
        """What is recorded, and how many columns of it are looked at."""
        state = self._state
        with self._lock:
            start, first = state.releases, state.derivations
        releases, derivations = self._accountant.learned(self._table, start, first)
        with self._lock:
            # Somebody else may have learnt the first of them meanwhile.
            for release in releases[state.releases - start :]:
                state.learn(release)
            for derivation in derivations[state.derivations - first :]:
                state.derive(derivation)
            return state, state.recorded

    def _take_in(self, bought: Bought) -> None:
        """Learn what was bought, and prepare it if it is much: who bought it has that done, and not
        the next who asks something else."""
        state, _ = self._learned()
        columns = len(bought.values)
        for place in range(columns if columns > _FEW else 0):
            prepared([state.answer(state.of_charge(bought.charge_id, place)).column])


def _estimated(aims: Sequence[Aim]) -> list[int]:
    """The columns for which answers that are added up serve."""
    return [n for n, aim in enumerate(aims) if aim.by_auto or not aim.in_range]
