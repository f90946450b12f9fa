"""Estimates of a question's rows from everything that was answered about its table.

Each is the best linear unbiased combination of the recorded answers that `related` takes up, with
the exact law of its error. All of it is made of released answers and of public coefficients: it
costs nothing, and what it takes in time depends on nothing confidential.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil.accountant import Accountant, Answer
from tallyveil.gate.related import Prepared, choose, related
from tallyveil.inference import ErrorLaw, Law, Noises, best_combination
from tallyveil.mechanisms import CountMechanism, mechanism
from tallyveil.rewriter.workload import Column, IntArray

__all__ = ["Estimated", "Estimates", "half_width_of"]

_KEPT: Final = 256
_WORK: Final = 1_000_000  # entries looked at for one column of a question
_APART: Final = 100_000
_ROWS: Final = 2_000  # of a column with more, rows have their own answers only
_BITS: Final = 2.0**44


@dataclass(frozen=True, eq=False)
class Estimated:
    """θ̂ = ``value`` = θ + Σ ``weights`` · noise, in lattice units. ``numbers`` tell the table's
    noises apart: those of one number are one and the same."""

    value: float
    numbers: IntArray
    weights: npt.NDArray[np.float64]
    noises: Noises

    @cached_property
    def error(self) -> ErrorLaw:
        return _error(*self.signature)

    @cached_property
    def variance(self) -> float:
        return float((self.weights**2 * self.noises.variances).sum())

    def half_width(self, confidence: Fraction) -> float:
        return half_width_of(*self.signature, confidence)

    @cached_property
    def signature(self) -> tuple[bytes, bytes, bytes]:
        """Equal for rows whose weights differ by rounding errors and by order only."""
        parts, powers = np.frexp(np.abs(self.weights))
        weights = np.ldexp(np.rint(parts * _BITS) / _BITS, powers)
        order = np.lexsort((weights, self.noises.scales, self.noises.laws))
        laws, scales = self.noises.laws[order], self.noises.scales[order]
        return weights[order].tobytes(), laws.tobytes(), scales.tobytes()

    @classmethod
    def total(cls, parts: Sequence[Estimated]) -> Estimated:
        """The sum, with the noises that some parts share."""
        numbers, first, places = np.unique(
            np.concatenate([part.numbers for part in parts]), return_index=True, return_inverse=True
        )
        weights = np.zeros(len(numbers))
        np.add.at(weights, places.ravel(), np.concatenate([part.weights for part in parts]))
        noises = Noises.concatenated([part.noises for part in parts]).take(first)
        return cls(sum(part.value for part in parts), numbers, weights, noises)


@lru_cache(maxsize=4096)
def _error(weights: bytes, laws: bytes, scales: bytes) -> ErrorLaw:
    noises = Noises(np.frombuffer(laws, dtype=np.int8), np.frombuffer(scales))
    return ErrorLaw(np.frombuffer(weights), noises)


@lru_cache(maxsize=16384)
def half_width_of(weights: bytes, laws: bytes, scales: bytes, confidence: Fraction) -> float:
    """Of the error Σ weights · noise, each given as the bytes of an array."""
    return _error(weights, laws, scales).half_width(confidence)


class _Table:
    """What was answered about one table, in the order it was recorded."""

    def __init__(self) -> None:
        self.seen = 0
        self.columns: list[Prepared] = []
        self.values: list[npt.NDArray[np.float64]] = []
        self.noises: list[Noises] = []
        self.starts: list[int] = [0]
        self.holding: dict[bytes, list[int]] = {}

    def learn(self, answer: Answer) -> None:
        self.seen += 1
        noise = mechanism(answer.mechanism)
        family = Law.DISCRETE_LAPLACE
        if answer.scale:
            if isinstance(noise, CountMechanism):
                return
            family = noise.law(answer.scale).family
        height = answer.column.height
        for key in answer.column.row_keys:
            self.holding.setdefault(key, []).append(len(self.columns))
        self.columns.append(Prepared.of(answer.column))
        self.values.append(np.array(answer.values, dtype=np.float64))
        self.noises.append(Noises.of(family, np.full(height, answer.scale)))
        self.starts.append(self.starts[-1] + height)


class Estimates:
    """Fed by what the accountant records, by this process and others. One thread at a time."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant
        self._tables: dict[str, _Table] = {}
        self._kept: OrderedDict[tuple[str, int, tuple[bytes, ...]], list[Estimated | None]] = (
            OrderedDict()
        )

    def rows(self, table: str, column: Column) -> list[Estimated | None]:
        """For each row of the column its estimate, or None where the recorded answers that were
        looked at do not determine it."""
        known = self._tables.setdefault(table, _Table())
        for answer in self._accountant.answers(table, known.seen):
            known.learn(answer)
        key = (table, known.seen, column.row_keys)
        if key not in self._kept:
            self._kept[key] = _estimates(known, column)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def _estimates(known: _Table, column: Column) -> list[Estimated | None]:
    nothing: list[Estimated | None] = [None] * column.height
    if not known.columns or not 0 < column.height <= _ROWS:
        return nothing
    question = Prepared.of(column)
    same = {n for key in column.row_keys for n in known.holding.get(key, ())}
    found = related(question, choose(question, tuple(same), known.columns), known.columns)
    if found is None:
        return nothing
    values = np.concatenate([known.values[n] for n in found.used])
    noises = Noises.concatenated([known.noises[n] for n in found.used])
    numbers = np.concatenate(
        [np.arange(known.starts[n], known.starts[n + 1]) for n in found.used]
    ).astype(np.int64)
    history = found.history
    if column.height * history.nnz > _APART:
        # Too much to look at everything for every row: at what bears on one of them only.
        apart = _touched(history, found.question) <= 1
        history, values = history[apart], values[apart]
        noises, numbers = noises.take(np.flatnonzero(apart)), numbers[apart]
    system = _System(history, noises.variances)
    result = nothing
    for row in range(column.height):
        solution = system.solve(found.question, row)
        if solution is not None:
            places, weights = solution
            value = float(weights @ values[places])
            result[row] = Estimated(value, numbers[places], weights, noises.take(places))
    return result


def _touched(history: sparse.csr_matrix, question: sparse.csr_matrix) -> IntArray:
    """How many of the question's rows each row of the history has cells in common with."""
    patterns = [
        sparse.csr_matrix(
            (np.ones(part.nnz, dtype=np.int64), part.indices, part.indptr), shape=part.shape
        )
        for part in (history, question)
    ]
    shared = (patterns[0] @ patterns[1].T).tocsr()
    counts: IntArray = np.diff(shared.indptr).astype(np.int64)
    return counts


_Solution = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


class _System:
    """Solves row by row, looking only at the recorded rows that are connected with the question's
    by cells that both touch, and at a system that looks the same only once."""

    def __init__(self, history: sparse.csr_matrix, variances: npt.NDArray[np.float64]) -> None:
        self._history = history
        self._variances = variances
        m, n = history.shape
        graph = sparse.csr_matrix(
            (np.ones(history.nnz, dtype=np.int8), history.indices + m, history.indptr),
            shape=(m, m + n),
        )
        graph.resize((m + n, m + n))
        parts = csgraph.connected_components(graph, directed=False)[1]
        self._of_cell = parts[m:]
        order = np.argsort(parts[:m], kind="stable")
        self._order, self._sorted = order, parts[:m][order]
        self._solved: dict[tuple[bytes, ...], npt.NDArray[np.float64] | None] = {}
        self._work = _WORK

    def solve(self, question: sparse.csr_matrix, row: int) -> _Solution | None:
        """The rows of the history that take part, and their weights."""
        ends = slice(question.indptr[row], question.indptr[row + 1])
        cells, coefficients = question.indices[ends], question.data[ends]
        touched = np.unique(self._of_cell[cells])
        low = np.searchsorted(self._sorted, touched, "left")
        high = np.searchsorted(self._sorted, touched, "right")
        if not len(cells) or (low == high).any():
            return None
        places = np.sort(
            np.concatenate([self._order[a:b] for a, b in zip(low, high, strict=True)])
        ).astype(np.int64)
        part = self._history if len(places) == self._history.shape[0] else self._history[places]
        self._work -= part.nnz
        if self._work < 0:
            return None
        seen, own = np.unique(part.indices, return_inverse=True)
        asked = np.zeros(len(seen), dtype=np.int64)
        at = np.searchsorted(seen, cells)
        if (at == len(seen)).any() or (seen[at] != cells).any():
            return None
        asked[at] = coefficients
        variances = self._variances[places]
        parts = (part.indptr, own.ravel(), part.data, asked, variances)
        key = tuple(array.tobytes() for array in parts)
        if key not in self._solved:
            small = sparse.csr_matrix(
                (part.data, own.ravel(), part.indptr), shape=(len(places), len(seen))
            )
            self._solved[key] = best_combination(small, variances, asked)
        weights = self._solved[key]
        if weights is None:
            return None
        used = np.flatnonzero(weights)
        return places[used], weights[used]
