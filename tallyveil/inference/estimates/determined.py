"""What a history determines of a question, and estimates once its rows are answered directly.

History: y = H x + noise of variances V (m×m). Of the rows Q x (k) of a question it determines those
combinations g Q that lie in the row space of H: with a basis N (r×k) of these g, N Q = B H for the
B (r×m) of least variance, C = B V Bᵀ. Let rows get fresh answers z = Q x + noise of variances D.
Each combination A H + a Q = e Q for a row e of the question has a = e − g N for some g, since
(e − a) Q = A H; and the A of least variance is g B. So the variance is

    g C gᵀ + (e − g N) D (e − g N)ᵀ,    least at  g = e D Nᵀ (N D Nᵀ + C)⁻¹,

the gain of a Kalman filter (Kalman 1960, "A New Approach to Linear Filtering and Prediction
Problems"): a system of at most k unknowns instead of m + k. Where the rows T are not answered, a
is 0: with D = 0 for these, g is the least under g N_T = e_T, by Lagrange's multipliers. Whatever
g is, A H + a Q = e Q holds as exactly as N Q = B H and g N_T = e_T do.

N is found from the errors of the nearest combinations W H of the rows Q: it spans the g with
g (Q − W H) = 0, and B = N W, as the nearest combination of least variance is linear in the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.blas import one_thread
from tallyveil.inference.estimates.least_norm import EXACT, without_dust
from tallyveil.inference.laws.noises import Noises

__all__ = ["Combination", "Determined"]

_NONE: Final = 1e-14  # a squared length this small is 0, beside rows of length 1
_CLEAR: Final = 1e-6  # from here on it is not 0; between the two it is unclear


@dataclass(frozen=True, eq=False)
class Combination:
    """A is ``weights[i]`` at row ``places[i]`` of the history, and 0 elsewhere.

    Combinations of the same ``kind`` have the same weights on noises of the same laws.
    """

    places: IntArray
    weights: FloatArray
    kind: int


@dataclass(frozen=True, eq=False)
class Determined:
    """For the rows ``asked`` (k) of a question, N is ``basis`` and B is ``weights``. N Q and B H
    differ on no cell by more than ``off`` (r). B has no columns if the history is not used."""

    asked: IntArray
    basis: FloatArray
    weights: FloatArray
    off: FloatArray

    @classmethod
    def of(cls, asked: IntArray, weights: FloatArray, off: FloatArray) -> Determined | None:
        """From the nearest combinations ``weights`` (k×m) of the rows and their errors ``off``
        (k×cells); None if it is not clear which combinations are determined."""
        number = len(asked)
        basis = np.eye(number)
        if np.abs(off).max(initial=0) > EXACT:
            squares = off @ off.T
            scale = np.sqrt(np.maximum(squares.diagonal(), 1.0))
            with one_thread():
                lengths, vectors = np.linalg.eigh(squares / np.outer(scale, scale))
            none = lengths <= _NONE
            if (lengths[~none] < _CLEAR).any():
                return None
            basis = vectors[:, none].T / scale
        return cls(asked, basis, basis @ weights, np.abs(basis @ off).max(axis=1, initial=0.0))

    @classmethod
    def nothing(cls, asked: IntArray) -> Determined:
        """No combination of the rows is determined."""
        return cls(asked, np.zeros((0, len(asked))), np.zeros((0, 0)), np.zeros(0))

    @property
    def nbytes(self) -> int:
        return self.asked.nbytes + self.basis.nbytes + self.weights.nbytes

    def combined(
        self, noises: Noises, answered: IntArray, questions: int
    ) -> list[Combination | None] | None:
        """For each row of the question the best combination of the history and, placed after its
        rows, the answers to the rows ``answered``; ``noises`` are those of all. None if a system
        must be solved instead: if a row has two answers, or the result would not be exact."""
        height = self.weights.shape[1]
        places = np.full(questions, -1, dtype=np.int64)
        places[answered] = height + np.arange(len(answered))
        own = places[self.asked]
        there = own >= 0
        if len(np.unique(answered)) < len(answered):
            return None
        gain = self._gain(noises.variances[:height], np.where(there, noises.variances[own], 0.0))
        if gain is None:
            return None
        every = np.zeros((len(own), len(noises)))
        every[:, :height] = gain @ self.weights
        every[:, own[there]] = (np.eye(len(own)) - gain @ self.basis)[:, there]
        every = without_dust(every, np.sqrt(noises.variances))
        result: list[Combination | None] = [None] * questions
        laws, kinds = noises.numbers, dict[tuple[bytes, bytes], int]()
        for row, weights in zip(self.asked.tolist(), every, strict=True):
            if not weights.any():
                continue
            used = np.flatnonzero(weights)
            key = weights[used].tobytes(), laws[used].tobytes()
            kind = kinds.setdefault(key, len(kinds))
            result[row] = Combination(used, weights[used], kind)
        return result

    def _gain(self, before: FloatArray, fresh: FloatArray) -> FloatArray | None:
        """g for each row (k×r), from the history's variances and those of the answers, 0 for rows
        without answers; None if it is not exact."""
        if not len(self.basis):
            return np.zeros((len(fresh), 0))
        rest = np.flatnonzero(fresh == 0)
        unit = float(fresh.max(initial=0.0)) or 1.0
        spread = self.basis * (fresh / unit)  # N D
        covariance = spread @ self.basis.T + (self.weights * (before / unit)) @ self.weights.T
        tied = self.basis[:, rest]
        system = np.block([[covariance, tied], [tied.T, np.zeros((len(rest), len(rest)))]])
        asked = np.eye(len(fresh))[rest]
        try:
            with one_thread():
                gain = np.linalg.solve(system, np.concatenate([spread, asked]))[: len(tied)].T
        except np.linalg.LinAlgError:
            return None
        off = np.abs(gain) @ self.off + np.abs(gain @ tied - asked.T).max(axis=1, initial=0.0)
        return None if (off > EXACT).any() else gain
