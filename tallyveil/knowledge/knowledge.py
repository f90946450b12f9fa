"""What is known about one table's rows, and how precisely, from released answers and exact rows.

A row has a best recorded answer of its own, and a best linear unbiased combination of relevant
recorded answers. The narrower is what is known. The choice between estimates depends on the laws of
their errors, never on their values. Everything is computed from released answers and public
coefficients: it costs nothing, and its duration depends on nothing confidential. An answer of a
mechanism with a public range is used alone, never in a combination.

What is reported about a row never gets worse: before an estimate is reported, the ledger records
which answers it was made from (`reported`). Worse means a wider interval at the same confidence,
except that its ends are rounded, and may move by one step, and that it is stretched where a value
outside of it is reported so that rows add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Arrays, Basis, Charge, Derivation, Records
from tallyveil.arrays import FloatArray
from tallyveil.inference import NoiseLaw
from tallyveil.invariants import Span
from tallyveil.knowledge.all_looks import EndsCache, Sequences, sequences
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.errors import Error
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.knowledge.answers.exact import ExactRows
from tallyveil.knowledge.answers.precision import Preview
from tallyveil.knowledge.direct_answers import direct_answers, looks
from tallyveil.knowledge.estimates import Estimates
from tallyveil.knowledge.estimator import Estimator, is_large
from tallyveil.knowledge.found import Bought, Found, Rows
from tallyveil.knowledge.joint_errors import with_noises
from tallyveil.knowledge.preview import previews
from tallyveil.knowledge.recorded.prepared import prepared
from tallyveil.knowledge.reported import Reported
from tallyveil.knowledge.row_multiples import in_proportion, narrowed, put_multiples, same_in_range
from tallyveil.knowledge.selection import (
    as_reported,
    better,
    improved,
    narrower_direct,
    no_wider,
    put_bought,
)
from tallyveil.knowledge.state import State
from tallyveil.knowledge.sums.adding_up import NOTHING, add_up, find_sums
from tallyveil.knowledge.sums.row_totals import Totals
from tallyveil.knowledge.widening import widened
from tallyveil.locks import Rank, ranked_lock
from tallyveil.workload.workload import Column, IntArray, Summed

__all__ = ["Knowledge"]

_LONG: Final = 1_000  # releases that take long to read
_TOGETHER: Final = 16  # releases added while others wait
_FEW: Final = 8  # columns whose preparation takes next to no time


class Knowledge:
    """What is known about one table, from what this and other processes recorded in the ledger.

    Threads may share it. It locks while what is recorded is added to its indexes, not while that
    is decoded, nor while estimates are computed.
    """

    def __init__(
        self, accountant: Records, table: str, *, version: int = 0, planned: bool = False
    ) -> None:
        """``version`` is that of a table whose rows are replaced."""
        self._accountant = accountant
        self._table, self._version = table, version
        self._lock = ranked_lock(Rank.KNOWLEDGE)
        self._state = State(accountant.seed)
        self._exact = ExactRows()
        self._estimator = Estimator(self._state, planned=planned)
        self._reported = Reported(self._state)
        self._ends = EndsCache()

    def declare(self, span: Span, values: Sequence[int]) -> None:
        """Set what is published exactly: a value for each row of the span. Call it once, before any
        query."""
        with self._lock:
            self._exact = ExactRows(span, values)
            for column, own in span.disjoint_columns(values):
                self._state.declare(column, own)

    @property
    def extent(self) -> tuple[int, int]:
        """How much is recorded; it grows with every answer and every estimate reported."""
        return self._accountant.extent(self._table, self._version)

    def find(
        self,
        columns: Sequence[Column],
        aims: Sequence[Aim],
        *,
        fresh: bool = False,
        summed: Sequence[Summed] = (),
    ) -> Found:
        """What is known about each row, and about the rows ``summed`` up from them. If ``fresh``
        answers are wanted, exact rows alone."""
        exact = self._exact
        columns = (*columns, *(one.column for one in summed))
        aims = (*aims, *(aims[one.of] for one in summed))
        may_be_exact = exact.may_answer(columns)
        if not fresh and not (may_be_exact and exact.knows_all(columns)):
            found = replace(self._found(columns, aims, len(summed)), summed=tuple(summed))
            return exact.put(found) if may_be_exact else found
        unknown = tuple(Answers.unknown(column.height) for column in columns)
        found = Found(columns, aims, unknown, summed=tuple(summed))
        if fresh and exact.span is not None and not is_large(columns):
            found = replace(found, estimates=self._estimator.agreeing(columns, _estimated(aims)))
        return exact.put(found) if may_be_exact else found

    def _found(self, columns: Sequence[Column], aims: Sequence[Aim], summed: int) -> Found:
        """What the ledger's records give. The last ``summed`` columns are sums of the others.

        Other threads may read further records meanwhile. Own answers are those that the estimates
        could be made from, so that no answer is reported without its combination with others."""
        rows = [Answers.unknown(column.height) for column in columns]
        enough = [np.zeros(column.height, dtype=np.bool_) for column in columns]
        estimates, seen = self._estimates(columns, aims, len(columns) - summed)
        for joint in estimates:
            for number, others in zip(joint.columns, joint.rows, strict=True):
                column, aim = columns[number], aims[number]
                if not aim.in_range:
                    enough[number] = others.holds(partial(_suffices, aim))
                own = improved(direct_answers(self._state, column, seen), others, aim)
                rows[number] = as_reported(own, others, self._reported, column, aim)
        for number, (column, aim) in enumerate(zip(columns, aims, strict=True)):
            deadline.check()
            if aim.in_range:
                rows[number] = direct_answers(self._state, column, seen, aim.mechanism.name)
        same_in_range(columns, aims, rows)
        narrowed(columns, aims, rows)
        known = tuple(columns), tuple(aims), tuple(rows), estimates
        return Found(*known, seen=seen, enough=tuple(enough))

    def after(
        self, found: Found, bought: Bought | None, analyst: str, *, nonnegative: bool = False
    ) -> tuple[Rows, frozenset[str]]:
        """Return what to report to ``analyst`` after a purchase, if any, and to what the values
        need not add up.

        Records first how estimates were made, so that any process can make them again. If
        ``nonnegative``, rows that no record can make negative are at least 0.
        """
        before = [
            narrower_direct(self._state, column, known, aim, found.seen)
            for column, known, aim in zip(found.columns, found.rows, found.aims, strict=True)
        ]
        rows, estimates = list(before), list(found.estimates)
        if bought is not None:
            self._add(bought)
            if not bought.by_other_rows:
                put_bought(self._state, found.aims, bought, rows)
                put_multiples(self._state, found.columns, found.aims, bought, rows)
            if bought.by_other_rows or not (found.alone or bought.mechanism.needs_range):
                _, seen = self._learned()
                estimates = self._estimator.after(found, bought, seen)
                for now in estimates:
                    for number, others in zip(now.columns, now.rows, strict=True):
                        aim = found.aims[number]
                        if bought.by_other_rows and found.examined:  # rows asked may be among them
                            own = direct_answers(self._state, found.columns[number], seen)
                            rows[number] = better(rows[number], own, aim)
                        rows[number] = improved(rows[number], others, aim)
            triples = zip(rows, before, found.aims, strict=True)
            rows = [no_wider(now, known, aim) for now, known, aim in triples]
        if found.estimates or bought is not None:
            narrowed(found.columns, found.aims, rows)
        derivations, totals = list[Derivation](), list[Totals]()
        made_from: dict[int, Sequence[Basis]] = {}
        narrowest: dict[bytes, float] = {}
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
            derivations += self._reported.derivations(column, known, aim, narrowest, total, sums)
        if derivations:
            self._accountant.derive(self._table, derivations, analyst, self._version)
        apart = self._add_up(found, estimates, rows, totals, nonnegative)
        return tuple(rows), apart

    def widened(
        self,
        found: Found,
        columns: Sequence[int],
        rows: Sequence[IntArray],
        laws: Sequence[NoiseLaw | None],
    ) -> tuple[float, ...]:
        """The factor for the noise of each column with which its ``rows``, bought together with
        noise of these ``laws``, meet their targets (`widening`)."""
        return widened(self._state, found, columns, rows, laws)

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
        """The variances of all rows of the columns, or half-widths at a confidence, as estimated
        from answers to ``others``, of these laws, and exact rows; None if these do not determine
        all, or a statement that asks them would not find it out: such answers serve it in any
        process. ``errors``: what they are known to be where nothing is exact. ``orthogonal``: all
        rows of the others are, and one of them touches each cell of any."""
        return self._estimator.follow(
            columns, others, laws, confidence, errors, orthogonal=orthogonal
        )

    def prepare(self, found: Found) -> None:
        """Find how the rows add up before some are bought, since that may take long. `after` then
        finds it cached."""
        for as_sums in (False, True) if found.summed else (False,):
            for joint in self._together(found, found.estimates, as_sums=as_sums):
                find_sums(self._state, joint, found.rows)

    def _add_up(
        self,
        found: Found,
        estimates: Sequence[Estimates],
        rows: list[Answers],
        totals: Sequence[Totals],
        nonnegative: bool,
    ) -> frozenset[str]:
        """Make the rows report values that add up, also to exact rows, if ``nonnegative`` counts of
        at least 0. Return to what they need not.

        Counts below 0 are moved together with all totals, by relations that depend on no answer,
        so that every process moves them alike. Where these are too many, the finest counts alone
        are raised, and totals are their sums.
        """
        columns, as_sums = found.columns, all(one.are_sums(rows[one.of]) for one in totals)
        counts = [n for n, one in enumerate(columns) if nonnegative and one.counts_up]
        together = self._together(found, estimates, as_sums=as_sums)
        if totals and any(rows[n].negative for n in counts):
            moved = list(rows)
            every = self._estimator.agreeing(columns, _estimated(found.aims))
            if not any(add_up(self._state, one, columns, moved, nonnegative) for one in every):
                rows[:], together = moved, ()
        apart = NOTHING
        for joint in together:
            apart |= add_up(self._state, joint, columns, rows, nonnegative)
        for number in counts:
            rows[number] = rows[number].raised
        asked = slice(found.asked)
        in_proportion(columns[asked], found.aims[asked], rows, counts)
        for one in totals:
            one.add_up(rows)
        return apart

    def _together(
        self, found: Found, estimates: Sequence[Estimates], *, as_sums: bool
    ) -> Sequence[Estimates]:
        """The systems of exact rows alone whose rows must add up: one over all columns if these
        were not estimated jointly, else those that relate rows. Columns known ``as_sums`` add up
        anyway. What their rows add up to depends on no answer."""
        exact, large = self._exact.span is not None, is_large(found.columns)
        which = _estimated(found.aims)
        whole = (one for one in estimates if one.system and len(one.columns) == len(which))
        apart = not as_sums and not any(whole)
        if as_sums:
            which = [n for n in which if n < found.asked]
            estimates = [one for one in estimates if one.columns[0] < found.asked]
        if not exact and len(found.columns) < 2 and all(one.disjoint for one in found.columns):
            return ()  # no row is a sum of others
        if apart or (exact if large else len(estimates) > 1):
            return self._estimator.agreeing(found.columns, which)
        return [
            related
            for one in estimates
            # Rows with estimates but no system have their own answers, and no relations.
            if (one.system or not (one.undetermined or any(own.known_rows for own in one.rows)))
            and (exact or (len(one.columns) > 1 and not large))
            for related in self._estimator.agreeing(found.columns, one.columns)
        ]

    def _estimates(
        self, columns: Sequence[Column], aims: Sequence[Aim], asked: int
    ) -> tuple[tuple[Estimates, ...], int]:
        """The best estimates, no wider than those reported before, and from how many recorded
        columns. Columns from number ``asked`` on are sums of the others.

        Estimator again if other threads reported rows from later answers meanwhile."""
        which = _estimated(aims)
        while True:
            deadline.check()
            state, seen = self._learned()
            looked = self._estimator.at(columns, which, seen, asked) if which else ()
            found = tuple(
                replace(
                    one,
                    rows=tuple(
                        self._reported.at_least(columns[n], rows, aims[n])
                        for n, rows in zip(one.columns, one.rows, strict=True)
                    ),
                )
                for one in looked
            )
            if not state.reported_since(columns, seen):
                return found, seen

    def over_all_looks(
        self, columns: Sequence[Column], rows: Rows, confidence: Fraction
    ) -> tuple[Sequences, ...]:
        """The intervals of the columns' rows over all looks, stretched to hold their answers."""
        state, seen = self._learned()
        return tuple(
            sequences(looks(state, column, seen), column, known, confidence, self._ends)
            for column, known in zip(columns, rows, strict=True)
        )

    def with_noises(self, column: Column, rows: Answers) -> list[Estimate | None]:
        """What was reported about a column's rows, with its noises (`joint_errors`)."""
        state, _ = self._learned()
        return with_noises(state, column, rows)

    def previews(self, charge: Charge) -> list[Preview]:
        """How precisely counts would be known after ``charge`` (`preview`).

        Raises StatementTooComplex if there is too much to check, and TypeError if its noise is not
        additive.
        """
        pending = self._accountant.pending(self._table)
        state, seen = self._learned()
        # Some may have been recorded in between, and others by now.
        left = [answer for answer in pending if not state.answered(answer.charge_id, seen)]
        return list(previews(charge, state, seen, left))

    def learn(self) -> None:
        """Read what is recorded, before the first query, since that may take long. If it does,
        store a summary for the next process."""
        written = self._accountant.derived(self._table, self._written, self._version)
        with self._lock:
            known = self._state.resume(written) if written else 0
        state, _ = self._learned()
        if state.releases - known > _LONG:
            self._accountant.summarise(0)

    def _written(self) -> Arrays:
        """The current state, for `State.resume`."""
        with self._lock:
            arrays, holding = self._state.written()
        numbers, halves = holding.written()
        return {**arrays, "numbers": numbers, "halves": halves}

    def _learned(self) -> tuple[State, int]:
        """Read what was recorded since; return the state, and the number of columns to use."""
        state = self._state
        with self._lock:
            start, first = state.releases, state.derivations
        of = self._table, start, first, self._version
        releases, derivations = self._accountant.learned(*of)
        for at in range(0, len(releases), _TOGETHER):
            some = releases[at : at + _TOGETHER]
            state.prepare(some, start + at)
            # A statement that ended inside would leave half a release behind.
            with self._lock, deadline.unlimited():
                # Another thread may have added the first of them meanwhile.
                for release in some[state.releases - start - at :]:
                    state.learn(release)
        with self._lock, deadline.unlimited():
            for derivation in derivations[state.derivations - first :]:
                state.derive(derivation)
            return state, state.recorded

    def _add(self, bought: Bought) -> None:
        """Read the recorded purchase, and prepare many columns or rows now: otherwise the next
        statement would have to wait for that."""
        state, _ = self._learned()
        state.settle()
        columns = len(bought.values)
        for place in range(columns if columns > _FEW else 0):
            prepared(state.seed, [state.answer(state.of_charge(bought.charge_id, place)).column])


def _suffices(aim: Aim, error: Error) -> bool:
    return error.suffices(aim)


def _estimated(aims: Sequence[Aim]) -> list[int]:
    """The columns for which estimates from additive noise may be used."""
    return [n for n, aim in enumerate(aims) if not aim.in_range]
