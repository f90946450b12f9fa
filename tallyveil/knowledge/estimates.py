"""Estimates of a question's rows from everything that was answered about its table.

Each is the best linear unbiased combination of the recorded answers that `related` takes up, with
the exact law of its error. All of it is made of released answers and of public coefficients: it
costs nothing, and what it takes in time depends on nothing confidential.

What was once reported of a row is never worse later, though later answers may leave what it was
made of no place among those that are looked at: before an estimate is reported, the ledger is told
which answers it was made from, unless it knows. So it can be made again, by any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import ROW_BYTES, Accountant, Basis, Derivation
from tallyveil.cache import Cache
from tallyveil.knowledge.candidates import Chosen
from tallyveil.knowledge.estimated import Criterion, Estimated, Weights, improves, surpasses
from tallyveil.knowledge.recorded import RecordedTable
from tallyveil.knowledge.related import Prepared, related
from tallyveil.knowledge.system import System
from tallyveil.locks import Rank, ranked_lock
from tallyveil.workload.workload import Column, IntArray

__all__ = ["Estimates", "Outlook"]

_ROWS: Final = 2_000  # of a column with more, rows have their own answers only
_WHATEVER: Final = 1 << 62  # of work: it was done before
_TOGETHER: Final = 2_000  # rows between two looks at the deadline
_SHARED: Final = 4  # so many times the work of one column is shared by all of a statement's
_MANY: Final = 100  # of a statement with more columns, rows have their own answers only


def _shares(among: int) -> int:
    """In how many parts a statement of so many columns divides its work."""
    return max(_SHARED, among)


def _better(first: Estimated | None, second: Estimated | None, by: Criterion) -> Estimated | None:
    """The better of two estimates, the first where they are equals."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the first ``seen`` recorded columns of a table say of a column's ``rows``.

    ``outside``: nothing, of no combination of the rows, so that once all rows are bought each has
    its own answer only. For in A H + a Q = q_i, with independent rows Q of the column, only a = e_i
    leaves nothing outside the span of H; then A H = 0, and A = 0 has the least variance.
    """

    seen: int
    rows: tuple[Estimated | None, ...]
    known: System | None = None
    chosen: Chosen | None = None
    """What was looked at of them, if it is all that matters."""

    @property
    def outside(self) -> bool:
        return self.chosen is not None and self.chosen.outside

    @property
    def weight(self) -> int:
        rows = sum(150 + len(row.numbers) * 8 for row in self.rows if row is not None)
        system = 0 if self.known is None else self.known.nbytes
        return 200 + rows + system + (0 if self.chosen is None else 8 * len(self.chosen.numbers))


class Estimates:
    """Fed by what the accountant records, by this process and others. Threads may share it."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant
        self._lock = ranked_lock(Rank.KNOWLEDGE)
        self._tables: dict[str, RecordedTable] = {}
        self._prepared: Cache[Prepared] = Cache(4096, 1 << 27, lambda _, p: p.weight)
        self._outlooks: Cache[Outlook] = Cache(1024, 1 << 27, lambda _, o: o.weight)
        self._derived: Cache[Estimated] = Cache(
            200_000, 1 << 28, lambda _, e: 300 + 16 * len(e.numbers)
        )

    def outlook(
        self, table: str, column: Column, by: Criterion, confidence: Fraction, among: int
    ) -> Outlook:
        """For each row of the column the best estimate, or None where the recorded answers that
        were looked at do not determine it. None has a wider interval than was reported.

        ``among`` is how many columns the statement asks of the table.
        """
        known, seen = self._learned(table)
        found = self._found(table, known, seen, column, among)
        return replace(
            found, rows=self._with_reported(table, known, column, found.rows, by, confidence)
        )

    def after(
        self,
        table: str,
        column: Column,
        outlook: Outlook,
        purchase: tuple[int, int],
        rows: IntArray,
        by: Criterion,
        among: int,
    ) -> Outlook:
        """The outlook once ``rows`` of the column are bought: column ``purchase[1]`` of the
        recorded charge ``purchase[0]``."""
        known, seen = self._learned(table)
        number = known.of_charge[purchase[0]][purchase[1]]
        answer, start, noises = known.answers[number], known.starts[number], known.noises[number]
        if noises is None:
            return outlook
        # Each with its own fresh answer, whatever else there is to it.
        mixed = list(outlook.rows)
        for place, row in enumerate(rows.tolist()):
            before = outlook.rows[row]
            if before is not None:
                mixed[row] = before.mixed(number, start + place, answer.values[place], noises)
        key = (table, column.row_keys, _shares(among))
        alone = len(known.of_charge[purchase[0]]) == 1 and seen == outlook.seen + 1
        if outlook.outside and alone and len(rows) == column.height:
            own = Weights(np.ones(1), noises)
            found = Outlook(
                seen,
                tuple(
                    Estimated(float(value), np.array([start + place]), own, Basis(own=(number,)))
                    for place, value in enumerate(answer.values)
                ),
            )
            self._outlooks.put(key, found)
        elif outlook.known is None or len(known.of_charge[purchase[0]]) > 1:
            found = self._found(table, known, seen, column, among)
        else:
            own_noises = known.noises_of([number])
            joined = outlook.known.joined(number, rows, answer.values, own_noises, start)
            found = Outlook(seen, joined.estimates(), joined)
            if seen == outlook.seen + 1:
                self._outlooks.put(key, found)
        best = tuple(_better(a, b, by) for a, b in zip(found.rows, mixed, strict=True))
        return replace(found, rows=best)

    def unknown(
        self, table: str, column: Column, rows: Sequence[object], by: Criterion
    ) -> list[Derivation]:
        """How the estimates among what is reported of a column's rows were made, as far as the
        ledger does not know and the rows' own answers do not tell."""
        with self._lock:
            known = self._tables.setdefault(table, RecordedTable())
        found: dict[Basis, list[bytes]] = {}
        for key, row in zip(column.row_keys, rows, strict=True):
            if not isinstance(row, Estimated) or row.alone or row.basis in known.bases(key):
                continue
            self._derived.put((table, key, row.basis), row)
            found.setdefault(row.basis, []).append(key[:ROW_BYTES])
        return [Derivation(tuple(keys), basis, by) for basis, keys in found.items()]

    def _learned(self, table: str) -> tuple[RecordedTable, int]:
        with self._lock:
            known = self._tables.setdefault(table, RecordedTable())
            start, first = len(known.answers), known.derivations
        answers, derivations = self._accountant.learned(table, start, first)
        with self._lock:
            # Somebody else may have learnt the first of them meanwhile.
            for answer in answers[len(known.answers) - start :]:
                known.learn(answer)
            for derivation in derivations[known.derivations - first :]:
                known.derive(derivation)
            return known, len(known.answers)

    def _with_reported(
        self,
        table: str,
        known: RecordedTable,
        column: Column,
        rows: Sequence[Estimated | None],
        by: Criterion,
        confidence: Fraction,
    ) -> tuple[Estimated | None, ...]:
        """What was reported of each row, unless the row here improves on it."""
        found = list(rows)
        for start in range(0, len(found), _TOGETHER):
            deadline.check()
            keys = enumerate(column.row_keys[start : start + _TOGETHER], start)
            reported = {row: bases for row, key in keys if (bases := known.bases(key, by))}
            pairs = [(row, basis) for row, bases in reported.items() for basis in bases]
            best: dict[int, Estimated | None] = {}
            for (row, _), one in zip(pairs, self._made(table, known, column, pairs), strict=True):
                best[row] = _better(best.get(row), one, by)
            for row, one in best.items():
                now = found[row]
                if now is None or (one is not None and not improves(now, one, by, confidence)):
                    found[row] = one
        return tuple(found)

    def _made(
        self,
        table: str,
        known: RecordedTable,
        column: Column,
        pairs: Sequence[tuple[int, Basis]],
    ) -> list[Estimated | None]:
        """For each row of the column and basis the estimate, which may have to be made again."""
        keys = [(table, column.row_keys[row], basis) for row, basis in pairs]
        found = self._derived.find_all(keys)
        missing: dict[Basis, list[int]] = {}
        for (row, basis), estimate in zip(pairs, found, strict=True):
            if estimate is None:
                missing.setdefault(basis, []).append(row)
        if not missing:
            return found
        for basis, rows in missing.items():
            self._derive(table, known, column, rows, basis)
        return self._derived.find_all(keys)

    def _derive(
        self,
        table: str,
        known: RecordedTable,
        column: Column,
        rows: Sequence[int],
        basis: Basis,
    ) -> None:
        """Make again the estimates of some rows of a column that were made from ``basis``."""
        if max((*basis.whole, *basis.own), default=0) >= len(known.answers):
            return
        part = column.take(np.array(rows, dtype=np.int64))
        system = self._system(table, known, part, basis.whole, _WHATEVER)
        estimates = (None,) * len(rows) if system is None else system.estimates()
        for key, first in zip(part.row_keys, estimates, strict=True):
            estimate = first
            for number in basis.own:
                estimate = known.with_own(estimate, number, key)
            if estimate is not None:
                self._derived.put((table, key, basis), estimate)

    def _found(
        self, table: str, known: RecordedTable, seen: int, column: Column, among: int
    ) -> Outlook:
        """What the first ``seen`` columns say; the latest of it is kept."""
        key = (table, column.row_keys, _shares(among))
        latest = self._outlooks.find(key)
        if latest is not None and latest.seen == seen:
            return latest
        found = self._look(table, known, seen, column, among, latest)
        if latest is None or latest.seen < seen:
            self._outlooks.put(key, found)
        return found

    def _look(
        self,
        table: str,
        known: RecordedTable,
        seen: int,
        column: Column,
        among: int,
        latest: Outlook | None,
    ) -> Outlook:
        """As `_found`. If that comes to the same columns as for the ``latest``, so does it."""
        nothing = (None,) * column.height
        if not seen or not 0 < column.height <= _ROWS or among > _MANY:
            return Outlook(seen, nothing)
        same = {n for key in column.row_keys for n in known.holding.get(key, ()) if n < seen}
        chosen = known.candidates.choose(column, sorted(same), seen)
        question = self._prepare(table, column)
        numbers = chosen.numbers
        numbers = tuple(n for n in numbers if self._recorded(table, known, n).fits(question))
        chosen = replace(chosen, numbers=numbers)
        if latest is not None and latest.chosen == chosen:
            return replace(latest, seen=seen)
        work = chosen.work * _SHARED // _shares(among)
        system = self._system(table, known, column, numbers, work)
        if system is None:
            return Outlook(seen, nothing, chosen=chosen)
        return Outlook(seen, system.estimates(), system, chosen)

    def _system(
        self, table: str, known: RecordedTable, column: Column, numbers: Sequence[int], work: int
    ) -> System | None:
        found = related(
            self._prepare(table, column),
            numbers,
            lambda n: self._recorded(table, known, n),
            work,
        )
        if found is None:
            return None
        return System(
            found.history,
            found.question,
            np.concatenate([known.values[n] for n in found.used]),
            known.noises_of(found.used),
            np.concatenate(
                [np.arange(known.starts[n], known.starts[n + 1]) for n in found.used]
            ).astype(np.int64),
            found.used,
        )

    def _prepare(self, table: str, column: Column) -> Prepared:
        return self._prepared.get((table, column.row_keys), lambda: Prepared.of(column))

    def _recorded(self, table: str, known: RecordedTable, number: int) -> Prepared:
        return self._prepare(table, known.answers[number].column)
