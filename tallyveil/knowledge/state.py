"""A table's recorded answers, exact rows, and how reported estimates were made, in memory.

Recorded columns are numbered from 0 in the order of the ledger, exact columns −1, −2, … in the
order they were declared. An exact row is an answer of variance 0.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import ROW_BYTES, Answer, Arrays, Basis, Derivation, Release
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import Noises
from tallyveil.knowledge.answers.estimate import Criterion
from tallyveil.knowledge.answers.recorded_answer import noises_of
from tallyveil.knowledge.recorded.column_store import summarise
from tallyveil.knowledge.recorded.drawn import DrawnRows
from tallyveil.knowledge.recorded.matrix import COLUMN
from tallyveil.knowledge.recorded.one_row import MOST, along_one_row
from tallyveil.knowledge.recorded.relevance import Relevance
from tallyveil.knowledge.recorded.row_index import RowIndex
from tallyveil.knowledge.recorded.spans import Spans
from tallyveil.knowledge.recorded.undetermined_proof import keys_of, proves_undetermined
from tallyveil.workload.workload import Column

__all__ = ["State"]

_EXACT = "exact"  # instead of a mechanism's name
_BASES = 8  # criteria kept for each row, the latest


class State:
    """Grows in the order of the ledger. The caller must ensure that one thread at a time adds to
    it. ``seed`` is that of the table (`Accountant.seed`)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.exact: list[Answer] = []
        self.relevance = Relevance()
        self._exact_spans: Spans | None = None  # None until first used
        self.derivations = 0
        self._releases: list[Release] = []
        self._places: dict[int, int] = {}  # by charge, among the releases
        self._first = array("q")  # first column of each release
        self._release_of = array("q")  # release of each column
        self._starts = array("q", [0])
        self._exact_starts = [0]
        self._holding = RowIndex()
        self._exact_holding = RowIndex()
        self._bases: dict[bytes, Mapping[Criterion, Basis]] = {}
        self._drawn: dict[int, DrawnRows | None] = {}  # None until first used
        self._multiples = set[int]()  # columns with rows that are not primitive

    def declare(self, column: Column, values: Sequence[int]) -> None:
        """Add a column with exact values. Call it before `learn`."""
        self.exact.append(Answer(-1, _EXACT, column, 0.0, tuple(values), None))
        self._exact_starts.append(self._exact_starts[-1] + column.height)
        self._exact_spans = None
        self._exact_holding.add(-len(self.exact), column.row_keys)
        if column.row_contents is not None:
            self._multiples.add(-len(self.exact))

    def prepare(self, releases: Sequence[Release], start: int) -> None:
        """Decode the releases, whose first has number ``start``, name their rows and summarise
        their columns, for `learn`. Any thread may call it, and others may add releases meanwhile.
        """
        for release in releases[max(0, len(self._first) - start) :]:
            deadline.check()
            for answer in release.answers:
                _ = answer.column.row_keys
                summarise(answer.column)

    def learn(self, release: Release) -> None:
        """Add the columns of the next release, unless `resume` has added them."""
        place = len(self._releases)
        self._releases.append(release)
        if place == len(self._first):
            self._add_columns(place, release)
        self._places[release.charge_id] = place

    def _add_columns(self, place: int, release: Release) -> None:
        self._first.append(len(self._release_of))
        for answer in release.answers:
            number, column = len(self._release_of), answer.column
            self._release_of.append(place)
            self._starts.append(self._starts[-1] + column.height)
            self._holding.add(number, column.row_keys)
            if column.row_contents is not None:
                self._multiples.add(number)
            if answer.together is not None:
                self._drawn[number] = None
            if answer.law is not None and column.height:
                self.relevance.add(number, column, answer.law.variance)

    def settle(self) -> None:
        """Index the rows of columns that have many. Any thread may call it."""
        self._exact_holding.settle()
        self._holding.settle()

    def written(self) -> tuple[Arrays, RowIndex]:
        """The arrays computed from the releases so far, and a copy of the index of rows, which
        takes longer to write: `resume` needs both."""
        arrays = {
            "first": np.array(self._first),
            "release_of": np.array(self._release_of),
            "starts": np.array(self._starts),
            "drawn": np.array([*self._drawn], dtype=np.int64),
            "multiples": np.array([n for n in self._multiples if n >= 0], dtype=np.int64),
            **self.relevance.written(),
        }
        return arrays, self._holding.copy()

    def resume(self, written: Arrays) -> int:
        """Load the arrays of the first releases, which `learn` must still get; return how many."""
        for name in ("first", "release_of", "starts"):
            setattr(self, f"_{name}", array("q", written[name].tobytes()))
        self._drawn.update(dict.fromkeys(written["drawn"].tolist()))
        self._multiples.update(written["multiples"].tolist())
        self._holding = RowIndex(written["numbers"], written["halves"])
        self.relevance = Relevance.resumed(written)
        return len(self._first)

    def derive(self, derivation: Derivation) -> None:
        """Add bases of reported estimates. The latest replaces others for its criterion and for the
        confidence at which its interval was reported."""
        self.derivations += 1
        by, at, basis = derivation.by, derivation.at, derivation.basis
        alone = {by: basis} if at is None else {by: basis, at: basis}
        # Rows with the same bases before have the same after, and share one object.
        others: dict[int, tuple[Mapping[Criterion, Basis], Mapping[Criterion, Basis]]] = {}
        for row in derivation.rows:
            before = self._bases.get(row)
            if before is None:
                self._bases[row] = alone
                continue
            if id(before) not in others:
                left = [one for one in before.items() if one[0] not in alone]
                others[id(before)] = before, dict(left[len(alone) - _BASES :]) | alone
            self._bases[row] = others[id(before)][1]

    @property
    def has_bases(self) -> bool:
        """Whether any estimate was reported."""
        return bool(self._bases)

    def bases(self, key: bytes) -> Mapping[Criterion, Basis]:
        """The bases of a row's reported estimates, by its key: of the best for each criterion, and
        of the narrowest interval reported at each confidence."""
        return self._bases.get(key[:ROW_BYTES]) or {}

    def all_bases(self, keys: Sequence[bytes], start: int) -> dict[int, Mapping[Criterion, Basis]]:
        """The `bases` of rows with some, by the rows' numbers from ``start``."""
        every, rows = self._bases, enumerate(keys, start)
        return {row: bases for row, key in rows if (bases := every.get(key[:ROW_BYTES]))}

    def reported_since(self, columns: Iterable[Column], seen: int) -> bool:
        """Whether an estimate of a row of the columns was reported that was not made from the first
        ``seen`` recorded columns alone."""
        return self.recorded > seen and any(
            basis.last >= seen
            for column in columns
            for bases in self.all_bases(column.row_keys, 0).values()
            for basis in bases.values()
        )

    @property
    def releases(self) -> int:
        """The number of releases learnt."""
        return len(self._releases)

    @property
    def recorded(self) -> int:
        """The number of recorded columns."""
        return len(self._release_of)

    def answer(self, number: int) -> Answer:
        if number < 0:
            return self.exact[-1 - number]
        place = self._release_of[number]
        return self._releases[place].answers[number - self._first[place]]

    def of_charge(self, charge_id: int, place: int) -> int:
        """The number of the column at this place of a recorded charge."""
        return self._first[self._places[charge_id]] + place

    def answered(self, charge_id: int, seen: int) -> bool:
        """Whether the answer to this charge is among the first ``seen`` recorded columns."""
        place = self._places.get(charge_id)
        return place is not None and self._first[place] < seen

    def held(self, column: Column, seen: int) -> list[tuple[int, ...]] | None:
        """For each row the exact columns that contain it, then those of the first ``seen`` recorded
        columns; None if there are none."""
        exact, recorded = self._exact_holding.find(column.row_keys), self.held_by(column, seen)
        if exact is None or recorded is None:
            return exact or recorded
        return [a + b for a, b in zip(exact, recorded, strict=True)]

    def held_by(self, column: Column, seen: int) -> list[tuple[int, ...]] | None:
        """For each row those of the first ``seen`` recorded columns that contain it; None if there
        are none."""
        found = self._holding.find(column.row_keys)
        if found is None or self.recorded <= seen:
            return found
        return [numbers[: bisect_left(numbers, seen)] for numbers in found]

    def holding(self, columns: Iterable[Column], seen: int) -> list[int]:
        """Those of the first ``seen`` recorded columns that have additive noise and a row of the
        given columns, the latest first."""
        found = {
            n for column in columns for numbers in self.held_by(column, seen) or () for n in numbers
        }
        return sorted((n for n in found if self.answer(n).law is not None), reverse=True)

    def proves_undetermined(self, columns: Sequence[Column], recorded: Spans) -> bool:
        """Whether a quick check proves that the recorded and the exact columns determine no
        combination of the columns' rows but 0."""
        exact = [one.column for one in self.exact]
        if exact and self._exact_spans is None:
            self._exact_spans = Spans.of_columns(exact)
        known = [spans for spans in (recorded, self._exact_spans) if spans is not None]
        return proves_undetermined(columns, keys_of(columns), known)

    def helpful(self, columns: Sequence[Column], seen: int) -> list[int] | None:
        """Those of the first ``seen`` recorded columns that can help to estimate the rows, the
        latest first; None where `one_row` does not tell."""

        def mentioning(axis: str) -> list[int] | None:
            recorded = self.relevance.mentioning(axis, seen, MOST)
            if recorded is None or not self._drawn.keys().isdisjoint(recorded):
                return None
            exact = (-1 - n for n, one in enumerate(self.exact) if axis in one.column.axes)
            return [*exact, *recorded]

        found = along_one_row(columns, mentioning, lambda number: self.answer(number).column)
        return None if found is None else sorted((n for n in found if n >= 0), reverse=True)

    def relevant(
        self,
        same: Sequence[int],
        columns: Sequence[Column],
        seen: int,
        work: int,
        helpful: Sequence[int] | None,
    ) -> tuple[list[int], Spans]:
        """As `Relevance.relevant`, where exact rows connect columns too. If it is known which are
        ``helpful``, only these, as many as fit."""
        if helpful is not None:
            numbers = [*dict.fromkeys((*same, *helpful))]
            return self.relevance.fitting(numbers, columns, work, COLUMN)
        exact = [one.column for one in self.exact]
        return self.relevance.relevant(same, columns, seen, exact, work, COLUMN)

    def has_multiples(self, numbers: Iterable[int]) -> bool:
        """Whether any of these columns has rows that are not primitive."""
        return not self._multiples.isdisjoint(numbers)

    def drawn_rows(self, number: int) -> DrawnRows | None:
        """The answers of a recorded column's rows if their noise was drawn together, else None."""
        found = self._drawn.get(number)
        if found is None and number in self._drawn:
            answer, numbers = self.answer(number), self.noise_numbers(number)
            found = self._drawn[number] = DrawnRows.of(number, answer, numbers)
        return found

    def noises(self, number: int, row: int = 0) -> Noises | None:
        """The noise of one row of a column; None if it is not additive."""
        every = self._every(number)
        return every if every is None or number not in self._drawn else every.take(np.array([row]))

    def noise_numbers(self, number: int) -> IntArray:
        """Numbers that identify the noises of a column's rows in the table; negative for exact
        rows."""
        starts, of = (self._starts, number) if number >= 0 else (self._exact_starts, -1 - number)
        found = np.arange(starts[of], starts[of + 1], dtype=np.int64)
        return found if number >= 0 else -1 - found

    def noise_number(self, number: int, row: int) -> int:
        """As `noise_numbers`, for one row."""
        return (
            self._starts[number] + row
            if number >= 0
            else -1 - self._exact_starts[-1 - number] - row
        )

    def exact_columns(self, numbers: IntArray) -> IntArray:
        """The place of the exact column of each row, by the rows' noise numbers."""
        return np.searchsorted(self._exact_starts, -1 - numbers, side="right") - 1

    def values(self, numbers: Sequence[int]) -> FloatArray:
        """The values of all rows of some columns."""
        return np.array([v for n in numbers for v in self.answer(n).values], dtype=np.float64)

    def all_noises(self, numbers: Sequence[int]) -> Noises:
        """The noises of all rows of some columns, which must be additive."""
        each = [noises for n in numbers if (noises := self._every(n)) is not None]
        heights = [1 if n in self._drawn else self.answer(n).column.height for n in numbers]
        sizes = np.array([len(noises) for noises in each], dtype=np.int64)
        times = np.repeat(np.array(heights, dtype=np.int64), sizes)
        return Noises.concatenated(each).take(np.repeat(np.arange(len(times)), times))

    def _every(self, number: int) -> Noises | None:
        """The noises of all rows if they were drawn together, else one that stands for each."""
        drawn = self.drawn_rows(number)
        return noises_of(self.answer(number)) if drawn is None else drawn.noises
