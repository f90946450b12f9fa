"""Estimates of a question's rows from everything that was answered about its table.

Each is the best linear unbiased combination of the recorded answers that `related` takes up, with
the exact law of its error. All of it is made of released answers and of public coefficients: it
costs nothing, and what it takes in time depends on nothing confidential.

What was once said of a row is kept in mind, for later answers may leave it no place among those
that are looked at. After a restart there is, for a row that was bought, what was known when it was
bought last. So what history has answered stays free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil import deadline
from tallyveil.accountant import Accountant, Answer
from tallyveil.gate.cache import Cache
from tallyveil.gate.candidates import Candidates
from tallyveil.gate.estimated import Criterion, Estimated, Weights, surpasses
from tallyveil.gate.related import Prepared, related
from tallyveil.inference import Law, NoiseLaw, Noises, best_combinations
from tallyveil.locks import Rank, ranked_lock
from tallyveil.mechanisms import CountMechanism, mechanism
from tallyveil.rewriter.workload import Column, IntArray

__all__ = ["Estimates", "Outlook"]

_ROWS: Final = 2_000  # of a column with more, rows have their own answers only
_KINDS: Final = 64  # of a column's estimates with more laws, the others' intervals are bounds
_TOGETHER: Final = 2_000  # rows between two looks at the deadline
_LARGEST: Final = 100_000  # recorded columns of more rows are not looked at


def _better(first: Estimated | None, second: Estimated | None, by: Criterion) -> Estimated | None:
    """The better of two estimates, the first where they are equals."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first


@dataclass(frozen=True, eq=False)
class _Known:
    """Recorded rows, noisy answers, and the question's rows, over the same cells."""

    history: sparse.csr_matrix
    question: sparse.csr_matrix
    values: npt.NDArray[np.float64]
    noises: Noises
    numbers: IntArray

    def estimates(self) -> tuple[Estimated | None, ...]:
        weights: dict[int, Weights] = {}
        result: list[Estimated | None] = []
        for found in best_combinations(self.history, self.noises, self.question):
            if found is None:
                result.append(None)
                continue
            if found.kind not in weights:
                noises = self.noises.take(found.places)
                weights[found.kind] = Weights(found.weights, noises, len(weights) >= _KINDS)
            value = float(found.weights @ self.values[found.places])
            result.append(Estimated(value, self.numbers[found.places], weights[found.kind]))
        return tuple(result)

    def joined(self, rows: IntArray, values: Sequence[float], noises: Noises, start: int) -> _Known:
        """With answers of some of the question's own rows, whose noises are numbered from
        ``start``."""
        return _Known(
            sparse.vstack([self.history, self.question[rows]], format="csr"),
            self.question,
            np.concatenate([self.values, np.array(values, dtype=np.float64)]),
            Noises.concatenated([self.noises, noises]),
            np.concatenate([self.numbers, start + np.arange(len(rows), dtype=np.int64)]),
        )


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the first ``seen`` recorded columns of a table say of a column's ``rows``.

    ``outside``: nothing, of no combination of the rows, so that once all rows are bought each has
    its own answer only. For in A H + a Q = q_i, with independent rows Q of the column, only a = e_i
    leaves nothing outside the span of H; then A H = 0, and A = 0 has the least variance.
    """

    seen: int
    rows: tuple[Estimated | None, ...]
    known: _Known | None = None
    outside: bool = False

    @property
    def weight(self) -> int:
        return 200 + sum(150 + len(row.numbers) * 8 for row in self.rows if row is not None)


class _Table:
    """What was answered about one table, in the order it was recorded."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.values: list[npt.NDArray[np.float64]] = []
        self.noises: list[Noises | None] = []
        self.starts: list[int] = [0]
        self.candidates = Candidates()
        self.holding: dict[bytes, tuple[int, ...]] = {}
        self.of_charge: dict[int, list[int]] = {}

    def learn(self, answer: Answer) -> None:
        number, column = len(self.answers), answer.column
        noises = _noises(answer)
        self.answers.append(answer)
        self.values.append(np.array(answer.values, dtype=np.float64))
        self.noises.append(noises)
        self.starts.append(self.starts[-1] + column.height)
        self.of_charge.setdefault(answer.charge_id, []).append(number)
        if noises is None or not 0 < column.height <= _LARGEST:
            return
        variance = float(noises.variances[0])
        self.candidates.add(number, column, variance)
        here = (number,)  # one object for the keys that are held nowhere else
        for key in column.row_keys:
            before = self.holding.get(key)
            self.holding[key] = here if before is None else before + here

    def noises_of(self, numbers: Sequence[int]) -> Noises:
        """Of all rows of some columns, whose noise is added."""
        each = [noises for n in numbers if (noises := self.noises[n]) is not None]
        heights = [self.answers[n].column.height for n in numbers]
        one = Noises.concatenated(each)
        return one.take(np.repeat(np.arange(len(each)), heights))


def _noises(answer: Answer) -> Noises | None:
    """Of one row of a column; None if they are not added."""
    noise = mechanism(answer.mechanism)
    if not answer.scale:
        return Noises.of(Law.DISCRETE_LAPLACE, 0.0)
    return None if isinstance(noise, CountMechanism) else _of_law(noise.law(answer.scale))


def _of_law(law: NoiseLaw) -> Noises:
    return Noises.of(law.family, law.scale)


class Estimates:
    """Fed by what the accountant records, by this process and others. Threads may share it."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant
        self._lock = ranked_lock(Rank.KNOWLEDGE)
        self._tables: dict[str, _Table] = {}
        self._prepared: Cache[Prepared] = Cache(4096, 1 << 27, lambda _, p: p.weight)
        self._outlooks: Cache[Outlook] = Cache(1024, 1 << 27, lambda _, o: o.weight)
        self._said: Cache[Estimated] = Cache(
            200_000, 1 << 28, lambda _, e: 300 + 16 * len(e.numbers)
        )

    def outlook(self, table: str, column: Column, by: Criterion) -> Outlook:
        """For each row of the column the best estimate, or None where the recorded answers that
        were looked at do not determine it."""
        known, seen = self._learned(table)
        found = self._outlooks.get(
            (table, seen, column.row_keys), lambda: self._look(table, known, seen, column, by)
        )
        return replace(found, rows=self._with_what_was_said(table, column, found.rows, by))

    def after(
        self,
        table: str,
        column: Column,
        outlook: Outlook,
        purchase: tuple[int, int],
        rows: IntArray,
        by: Criterion,
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
                mixed[row] = before.mixed(start + place, answer.values[place], noises)
        key = (table, seen, column.row_keys)
        alone = len(known.of_charge[purchase[0]]) == 1 and seen == outlook.seen + 1
        if outlook.outside and alone and len(rows) == column.height:
            own = Weights(np.ones(1), noises)
            found = Outlook(
                seen,
                tuple(
                    Estimated(float(value), np.array([start + place]), own)
                    for place, value in enumerate(answer.values)
                ),
            )
            self._outlooks.put(key, found)
        elif outlook.known is None or len(known.of_charge[purchase[0]]) > 1:
            found = self._outlooks.get(key, lambda: self._look(table, known, seen, column, by))
        else:
            joined = outlook.known.joined(rows, answer.values, known.noises_of([number]), start)
            found = Outlook(seen, joined.estimates(), joined)
            if seen == outlook.seen + 1:
                self._outlooks.put(key, found)
        best = tuple(_better(a, b, by) for a, b in zip(found.rows, mixed, strict=True))
        return replace(found, rows=best)

    def say(self, table: str, column: Column, rows: Sequence[object], by: Criterion) -> None:
        """Keep in mind what is said of a column's rows."""
        for key, row in zip(column.row_keys, rows, strict=True):
            if isinstance(row, Estimated):
                self._said.put((table, by, key), row)

    def _learned(self, table: str) -> tuple[_Table, int]:
        with self._lock:
            known = self._tables.setdefault(table, _Table())
            start = len(known.answers)
        answers = self._accountant.answers(table, start)
        with self._lock:
            # Somebody else may have learnt the first of them meanwhile.
            for answer in answers[len(known.answers) - start :]:
                known.learn(answer)
            return known, len(known.answers)

    def _with_what_was_said(
        self, table: str, column: Column, rows: Sequence[Estimated | None], by: Criterion
    ) -> tuple[Estimated | None, ...]:
        result = list(rows)
        for start in range(0, len(result), _TOGETHER):
            deadline.check()
            keys = column.row_keys[start : start + _TOGETHER]
            said = self._said.find_all([(table, by, key) for key in keys])
            for place, known in enumerate(said, start):
                if known is not None:
                    result[place] = _better(known, result[place], by)
        return tuple(result)

    def _look(self, table: str, known: _Table, seen: int, column: Column, by: Criterion) -> Outlook:
        if not seen or not 0 < column.height <= _ROWS:
            return Outlook(seen, (None,) * column.height)
        same = {n for key in column.row_keys for n in known.holding.get(key, ()) if n < seen}
        found, whole = self._from(table, known, seen, column, sorted(same))
        said = all(self._said.find((table, by, key)) is not None for key in column.row_keys)
        if same and not whole and not said:
            # What was known when some of its rows were bought last.
            then, _ = self._from(table, known, max(same) + 1, column, sorted(same))
            rows = (_better(a, b, None) for a, b in zip(found.rows, then.rows, strict=True))
            found = replace(found, rows=tuple(rows))
        return found

    def _prepare(self, table: str, column: Column) -> Prepared:
        return self._prepared.get((table, column.row_keys), lambda: Prepared.of(column))

    def _from(
        self, table: str, known: _Table, seen: int, column: Column, same: Sequence[int]
    ) -> tuple[Outlook, bool]:
        """From the first ``seen`` columns; and whether all of them were looked at."""
        chosen = known.candidates.choose(column, same, seen)
        if chosen.outside:
            return Outlook(seen, (None,) * column.height, outside=True), True
        found = related(
            self._prepare(table, column),
            chosen.numbers,
            lambda n: self._prepare(table, known.answers[n].column),
            chosen.work,
        )
        if found is None:
            return Outlook(seen, (None,) * column.height), not chosen.numbers
        values = np.concatenate([known.values[n] for n in found.used])
        noises = known.noises_of(found.used)
        numbers = np.concatenate(
            [np.arange(known.starts[n], known.starts[n + 1]) for n in found.used]
        ).astype(np.int64)
        system = _Known(found.history, found.question, values, noises, numbers)
        whole = len(found.used) == len(chosen.numbers)
        return Outlook(seen, system.estimates(), system), whole
