"""The linear system of a statement: recorded rows, their noisy answers, and the rows it asks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.accountant import Basis
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import (
    Combination,
    NoiseLaw,
    Noises,
    Solved,
    best_combinations,
    by_formula,
    solved,
)
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.recorded.drawn import DRAWS
from tallyveil.knowledge.recorded.matrix import Selection, cells_of_all, related, selected
from tallyveil.knowledge.recorded.prepared import PreparedColumn, prepared, prepared_column
from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column

__all__ = ["ANY_KINDS", "ANY_WORK", "KINDS", "WRITTEN_OUT", "System", "fitting_rows"]

ANY_WORK: Final = 1 << 62
ANY_KINDS: Final = 1 << 62

WRITTEN_OUT: Final = 2_000_000
"""The most entries of a system that is not bounded by a statement's share: one of exact rows alone,
or of all answers that a reported estimate was made from."""
KINDS: Final = 64
"""The most laws of errors computed for one question. Further estimates get bounds as intervals."""
_KINDS_TOGETHER: Final = 8  # where noises are drawn together: their laws take longer


@dataclass(frozen=True, eq=False)
class System:
    """``history`` (m×n) and ``question`` (k×n) are over the same cells. Row i of the history was
    answered by ``values[i]`` with the noise ``noises[i]``, whose number is ``numbers[i]``. ``used``
    are the recorded columns of these rows. At most ``kinds`` laws of errors are computed. Linear
    relations between the question's rows hold between their estimates too (docs/mathematics.md,
    "Rows that add up")."""

    history: sparse.csr_matrix
    question: sparse.csr_matrix
    values: FloatArray
    noises: Noises
    numbers: IntArray
    used: tuple[int, ...]
    kinds: int
    sums: int = 0
    """How many of the question's last rows are sums of others. These get ``kinds`` more laws."""
    thorough: bool = False
    """Whether the history was bought for the question, or has determined it before."""

    @classmethod
    def of(
        cls,
        state: State,
        columns: Sequence[Column],
        numbers: Sequence[int],
        work: int,
        kinds: int = KINDS,
        sums: int = 0,
        *,
        thorough: bool = False,
    ) -> System | None:
        """The system of the columns' rows and their `fitting_rows`; None if these are too large."""
        found = fitting_rows(state, columns, numbers, work)
        if found is None:
            return None
        return cls.of_selected(state, found, kinds, sums, thorough=thorough)

    @classmethod
    def of_selected(
        cls,
        state: State,
        selection: Selection,
        kinds: int,
        sums: int,
        *,
        thorough: bool = False,
    ) -> System:
        """The system of a question's rows and those of the columns selected for it."""
        found = selection.matrices()
        return cls(
            found.history,
            found.question,
            state.values(found.used),
            state.all_noises(found.used),
            np.concatenate([np.zeros(0, np.int64), *map(state.noise_numbers, found.used)]),
            tuple(n for n in found.used if n >= 0),
            kinds,
            sums,
            thorough,
        )

    @classmethod
    def errors(
        cls,
        state: State,
        others: Sequence[Column],
        laws: Sequence[NoiseLaw],
        columns: Sequence[Column],
        work: int,
        confidence: Fraction | None = None,
        ends: bool = False,
    ) -> list[FloatArray] | None:
        """The variances of all rows of the columns, or half-widths at a ``confidence``, as
        estimated from noisy rows of ``others``, with noise of these laws, and the exact rows. None
        if these do not determine a row, or do not fit in ``work`` entries. Of the ``ends`` of each
        column alone, those of its first and last row."""
        exact = [-1 - n for n in range(len(state.exact))]
        history = [*(state.answer(n).column for n in exact), *others]
        numbers = (*exact, *range(len(others)))
        own = dict(zip(numbers, prepared(state.seed, history), strict=True))
        found = related(prepared(state.seed, columns), numbers, own.__getitem__, work, len(exact))
        if found is None or found.used != numbers:
            return None
        each = [Noises.of(type(law), law.scale) for law in laws]
        heights = np.repeat(np.arange(len(others)), [column.height for column in others])
        noises = Noises.concatenated(each).take(heights)
        noises = Noises.concatenated([state.all_noises(exact), noises])
        variances = noises.variances
        errors, question = list[float](), found.question
        lengths = np.array([column.height for column in columns])
        if ends:
            last = np.cumsum(lengths) - 1
            rows = np.unique(np.concatenate([last - lengths + 1, last]))
            question, lengths = question[rows], np.minimum(lengths, 2)
        times = found.question.shape[0] / question.shape[0]
        every = best_combinations(found.history, noises, question, thorough=True, times=times)
        known = list[Estimate | None]()
        if confidence is not None:
            names = np.concatenate([*map(state.noise_numbers, exact), np.arange(len(heights))])
            values = np.zeros(len(names))
            system = cls(found.history, found.question, values, noises, names, (), KINDS)
            known = system.estimates(every)
        for row, one in enumerate(every):
            if one is None:
                return None
            if confidence is None:
                errors.append(float(one.weights**2 @ variances[one.places]))
                continue
            estimate = known[row]  # None for a row that is bought itself, or exact
            alone = NoiseWeights(one.weights, noises.take(one.places))
            error = alone if estimate is None else estimate.weights
            errors.append(error.half_width(confidence) if error.variance else 0.0)
        return np.split(np.array(errors), np.cumsum(lengths)[:-1])

    @staticmethod
    def by_formula(
        state: State, others: Sequence[Column], columns: Sequence[Column], work: int
    ) -> bool:
        """Whether `errors` is certain to find all rows of the columns, in the span of the rows of
        ``others``, which are orthogonal, where one touches each cell of any."""
        asked, bought = prepared(state.seed, columns), prepared(state.seed, others)
        cells = cells_of_all(asked, bought, work)
        rows, queries = (sum(one.height for one in each) for each in (others, columns))
        return cells is not None and by_formula(rows, cells, queries)

    @property
    def nbytes(self) -> int:
        """About the bytes of its matrices and noises."""
        parts = [part for m in (self.history, self.question) for part in (m.data, m.indices)]
        matrices: int = sum(part.nbytes for part in parts)
        return matrices + 40 * len(self.values)

    def solved(self) -> tuple[list[Estimate | None], Solved]:
        """Return the question's `estimates`, and what the solver found. Its ``determined`` is kept
        only for questions of at most ``kinds`` rows, each of which may have a law of its own."""
        found = solved(self.history, self.noises, self.question, thorough=self.thorough)
        few = self.question.shape[0] <= self.kinds
        return self.estimates(found.combinations), found if few else replace(found, determined=None)

    def from_exact(self) -> list[Estimate | None]:
        """The estimates of those rows of the question that follow from exact rows alone."""
        combinations = best_combinations(self.history, self.noises, self.question)
        return self.estimates(combinations, exact=True)

    def estimates(
        self, combinations: Sequence[Combination | None], *, exact: bool = False
    ) -> list[Estimate | None]:
        """The estimates of the question's rows from combinations of the history; None for rows that
        were not found to be determined.

        Multiples of a row share one law, in their own units. Rows that follow from exact rows alone
        are estimated only if ``exact``: reporting them needs a proof."""
        weights: dict[int, NoiseWeights] = {}
        alike: dict[Hashable, list[NoiseWeights]] = {}
        laws = set[Hashable]()
        kinds = self.kinds
        if self.noises.together is not None and kinds <= KINDS:
            kinds = min(kinds, _KINDS_TOGETHER)
        basis, rough = Basis(self.used), Basis(self.used, rough=True)
        together = self.noises.together
        rows = () if together is None else (_in_order(self.history), _in_order(self.question))
        result: list[Estimate | None] = []
        for found in combinations:
            if found is None:
                result.append(None)
                continue
            from_exact = bool((self.numbers[found.places] < 0).all())
            if from_exact != exact or (not exact and self._is_own(len(result), found, *rows)):
                result.append(None)
                continue
            if found.kind not in weights:
                noises = self.noises.take(found.places)
                most = kinds if len(result) < len(combinations) - self.sums else 2 * kinds
                own = NoiseWeights(found.weights, noises)
                same = own.kind if together is None else found.places.tobytes()
                others = alike.setdefault(same, [])
                own = own.as_multiple(others)
                if own.like is None and len(others) < 2 * KINDS:  # sums get as many laws again
                    others.append(own)
                if len(laws) < most:
                    laws.add(own.unit)
                weights[found.kind] = own if own.unit in laws else replace(own, rough=True)
            value = float(found.weights @ self.values[found.places])
            numbers = self.numbers[found.places]
            draws = None if together is None else together.owners[found.places]
            own = weights[found.kind]
            result.append(Estimate(value, numbers, own, rough if own.rough else basis, draws))
        return result

    def _is_own(self, row: int, found: Combination, *rows: sparse.csr_matrix) -> bool:
        """Whether the combination equals the row's own answer, because it has only answers of one
        charge whose noise was drawn together: these add up as the rows do. ``rows`` are the
        history's and the question's, `_in_order`."""
        if self.noises.together is None:
            return False
        noisy = self.numbers[found.places] >= 0
        draws = self.noises.together.owners[found.places[noisy]]
        charges = draws // DRAWS
        if (draws < 0).any() or (charges != charges[0]).any():
            return False
        most = found.places[noisy][np.argmax(np.abs(found.weights[noisy]))]
        history, question = rows
        return all(map(np.array_equal, _entries(history, most), _entries(question, row)))

    @property
    def without_history(self) -> System:
        """The system without answers."""
        nothing = np.zeros(0, dtype=np.int64)
        return replace(
            self,
            history=self.history[:0],
            values=self.values[:0],
            noises=self.noises.take(nothing),
            numbers=nothing,
            used=(),
        )

    def with_answers(
        self,
        used: Sequence[int],
        rows: IntArray,
        values: FloatArray,
        noises: Noises,
        numbers: IntArray,
    ) -> System:
        """Return the system with further answers, to the question's own ``rows``, which are those
        of the recorded columns ``used``."""
        return System(
            sparse.vstack([self.history, self.question[rows]], format="csr"),
            self.question,
            np.concatenate([self.values, values]),
            Noises.concatenated([self.noises, noises]),
            np.concatenate([self.numbers, numbers]),
            (*self.used, *used),
            self.kinds,
            self.sums,
        )


def fitting_rows(
    state: State, columns: Sequence[Column], numbers: Sequence[int], work: int
) -> Selection | None:
    """The exact rows and those recorded columns ``numbers``, from the first, that fit in ``work``
    entries with the columns' rows; None if these are too large."""
    every = (*(-1 - n for n in range(len(state.exact))), *numbers)

    def history(number: int) -> PreparedColumn:
        return prepared_column(state.seed, state.answer(number).column)

    return selected(prepared(state.seed, columns), every, history, work, len(state.exact))


def _in_order(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """A copy in canonical form, so that equal rows have equal entries."""
    copy = matrix.copy()
    copy.sum_duplicates()
    copy.eliminate_zeros()
    return copy


def _entries(matrix: sparse.csr_matrix, row: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The columns and the values of a row."""
    part = slice(*matrix.indptr[row : row + 2])
    return matrix.indices[part], matrix.data[part]
