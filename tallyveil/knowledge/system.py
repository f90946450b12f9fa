"""The linear system of a question: recorded rows, their noisy answers, and the question's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.accountant import Basis
from tallyveil.inference import Noises, best_combinations
from tallyveil.knowledge.estimated import Estimated, Weights
from tallyveil.workload.workload import IntArray

__all__ = ["System"]

_KINDS: Final = 64  # of a question's estimates with more laws, the others' intervals are bounds


@dataclass(frozen=True, eq=False)
class System:
    """``history`` (m×n) and ``question`` (k×n) are over the same cells. Row i of the history was
    answered by ``values[i]`` with the noise ``noises[i]``, whose number is ``numbers[i]``; ``used``
    are the recorded columns that the rows are of."""

    history: sparse.csr_matrix
    question: sparse.csr_matrix
    values: npt.NDArray[np.float64]
    noises: Noises
    numbers: IntArray
    used: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Of its matrices and its noises."""
        parts = [part for m in (self.history, self.question) for part in (m.data, m.indices)]
        matrices: int = sum(part.nbytes for part in parts)
        return matrices + 40 * len(self.values)

    def estimates(self) -> tuple[Estimated | None, ...]:
        """The best of each of the question's rows, None where it is not determined."""
        weights: dict[int, Weights] = {}
        basis = Basis(self.used)
        result: list[Estimated | None] = []
        for found in best_combinations(self.history, self.noises, self.question):
            if found is None:
                result.append(None)
                continue
            if found.kind not in weights:
                noises = self.noises.take(found.places)
                weights[found.kind] = Weights(found.weights, noises, len(weights) >= _KINDS)
            value = float(found.weights @ self.values[found.places])
            numbers = self.numbers[found.places]
            result.append(Estimated(value, numbers, weights[found.kind], basis))
        return tuple(result)

    def joined(
        self, column: int, rows: IntArray, values: Sequence[float], noises: Noises, start: int
    ) -> System:
        """With answers of some of the question's own rows, which are all rows of the recorded
        ``column`` and whose noises are numbered from ``start``."""
        return System(
            sparse.vstack([self.history, self.question[rows]], format="csr"),
            self.question,
            np.concatenate([self.values, np.array(values, dtype=np.float64)]),
            Noises.concatenated([self.noises, noises]),
            np.concatenate([self.numbers, start + np.arange(len(rows), dtype=np.int64)]),
            (*self.used, column),
        )
