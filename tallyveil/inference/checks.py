"""Checks of answers against each other, and what they make of an estimate.

A check is a combination of observations whose rows cancel: n_d = (−t_d on the basis, 1 at d). See
`estimator` for the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.inference.inverse_factor import InverseFactor
from tallyveil.inference.noise import FloatArray, Noises

__all__ = ["Checks"]

_NOTHING_NEW: Final = 1e-14


class Checks:
    """N, as the numbers of the observations in the basis and those checked, and T of rows t_d."""

    def __init__(self) -> None:
        self._basis = np.zeros(0, dtype=np.intp)
        self._checked = np.zeros(0, dtype=np.intp)
        self._table = np.zeros((0, 0))
        self._factor = InverseFactor()
        self.noises = Noises.concatenated([])
        self.variances: FloatArray = np.zeros(0)
        self._mixing: sparse.csr_matrix | None = None

    def noise_changed(
        self, noises: Sequence[Noises], mixings: Sequence[sparse.csr_matrix | None]
    ) -> None:
        """All observations' noises, and how they are mixed, batch by batch."""
        self.noises = Noises.concatenated(noises)
        self.variances = self.noises.variances
        self._mixing = None
        if any(mixing is not None for mixing in mixings):
            blocks = [
                sparse.eye(len(noise), format="csr") if mixing is None else mixing
                for noise, mixing in zip(noises, mixings, strict=True)
            ]
            self._mixing = sparse.block_diag(blocks, format="csr")
            self.variances = self._mixing.power(2) @ self.variances

    def on_noises(self, coefficients: FloatArray) -> FloatArray:
        """A M."""
        if self._mixing is None:
            return coefficients
        result: FloatArray = coefficients @ self._mixing
        return result

    def add_basis(self, number: int) -> None:
        self._basis = np.append(self._basis, number)
        self._table = _with_room(self._table, len(self._checked), len(self._basis))

    def add_check(self, number: int, coordinates: FloatArray) -> float:
        """Take up the check of an observation. Returns its variance relative to the largest
        variance in the basis that it is checked against."""
        against = self.variances[self._basis] * (np.abs(coordinates) > 1e-9)
        widest = float(against.max(initial=0.0))
        check = np.zeros(len(self.variances))
        check[self._basis] = -coordinates
        check[number] = 1.0
        spread = self._covariances(check)
        own = float(spread @ check)
        half, solved = self._factor.halves(self._products(spread))
        pivot = own - float(half @ half)
        if pivot > _NOTHING_NEW * own and own > 0:
            self._factor.append(solved, math.sqrt(pivot))
            self._checked = np.append(self._checked, number)
            self._table = _with_room(self._table, len(self._checked), len(self._basis))
            self._table[len(self._checked) - 1, : len(self._basis)] = coordinates
        return float(self.variances[number]) / widest if widest > 0 else math.inf

    def best(self, coordinates: FloatArray, observations: int) -> FloatArray:
        """A of least variance with A H = coordinates · B."""
        a = np.zeros(observations)
        a[self._basis] = coordinates
        if not len(self._checked):
            return a
        u = -self._factor.solve(self._products(self._covariances(a)))
        a[self._basis] -= u @ self._t
        a[self._checked] += u
        return a

    @property
    def _t(self) -> FloatArray:
        return self._table[: len(self._checked), : len(self._basis)]

    def _covariances(self, a: FloatArray) -> FloatArray:
        """a Σ."""
        if self._mixing is None:
            return a * self.variances
        result: FloatArray = self._mixing @ ((a @ self._mixing) * self.noises.variances)
        return result

    def _products(self, spread: FloatArray) -> FloatArray:
        """N · spread."""
        if not len(self._checked):
            return np.zeros(0)
        result: FloatArray = spread[self._checked] - self._t @ spread[self._basis]
        return result


def _with_room(table: FloatArray, rows: int, columns: int) -> FloatArray:
    if rows <= table.shape[0] and columns <= table.shape[1]:
        return table
    height = table.shape[0] if rows <= table.shape[0] else max(16, 2 * rows)
    width = table.shape[1] if columns <= table.shape[1] else max(16, 2 * columns)
    grown = np.zeros((height, width))
    grown[: table.shape[0], : table.shape[1]] = table
    return grown
