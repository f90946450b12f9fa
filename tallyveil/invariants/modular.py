"""The rank of any integer rows, and the rows that follow from them, modulo a prime of 61 bits.

The rank modulo a prime is at most the rank. A combination found modulo the prime is only a
candidate: it is converted to fractions (Wang's rational reconstruction) and multiplied out in
integers. Only one with λC = w on every cell is returned.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.invariants.combination import ExactCombination, ratio
from tallyveil.workload.classes import by_kind, stacked
from tallyveil.workload.workload import Factor

__all__ = ["Dependency", "Modular", "dependencies"]

_PRIME: Final = 2**61 - 1
_BOUND: Final = math.isqrt(_PRIME // 2)
_WORK: Final = 40_000_000  # changes of entries: less than a second
_SMALL: Final = 2**61  # sums below it fit in 64 bits

_Residues: TypeAlias = npt.NDArray[np.uint64]

Dependency: TypeAlias = tuple[int, IntArray, npt.NDArray[Any], int]
"""A row, the rows that ``unit`` times it is a sum of multiples of, and the factors: int64, or
Python's integers; the last is the unit."""


class Modular:
    """The span of a factor's rows. ``rank`` is None if finding it would take too much work."""

    def __init__(self, factor: Factor) -> None:
        self._rows = factor
        matrix = _dense(factor)
        found = None if matrix is None else _reduced(_residues(matrix), factor.height, _WORK)
        self.rank = None if found is None else len(found[1])

    def combinations(self, asked: Factor) -> list[ExactCombination | None]:
        """As `Laminar.combinations`."""
        found: list[ExactCombination | None] = [None] * asked.height
        height = self._rows.height
        matrix = None if self.rank is None else _dense(stacked([self._rows, asked]))
        solved = None if matrix is None else _reduced(_residues(matrix), height, _WORK)
        if matrix is None or solved is None:
            return found
        reduced, pivots, _ = solved
        solvable = ~reduced[len(pivots) :, height:].any(axis=0)
        for row in np.flatnonzero(solvable).tolist():
            values = reduced[: len(pivots), height + row].tolist()
            found[row] = _certified(matrix, pivots, values, height + row)
        return found


def dependencies(matrix: IntArray, work: int = _WORK) -> tuple[list[Dependency], int] | None:
    """Each row that is a sum of multiples of rows before it, and what is left of the ``work``.

    Only rows that do not follow themselves are parts. None if finding them takes too much work, or
    has too many digits to be certain.
    """
    found = _reduced(_residues(matrix), matrix.shape[0], work)
    if found is None:
        return None
    reduced, pivots, left = found
    rest = np.setdiff1d(np.arange(matrix.shape[0]), pivots)
    residues = reduced[: len(pivots), rest].astype(np.int64)
    signed = np.where(residues > _PRIME // 2, residues - _PRIME, residues)
    largest = int(np.abs(matrix).max(initial=0))
    # Most factors are small integers: these sums are multiplied out together.
    most = min(_BOUND, _SMALL // max(1, len(pivots) * largest))
    small = np.abs(signed).max(axis=0, initial=0) <= most
    whole = signed[:, small].T @ matrix[pivots]
    if (whole != matrix[rest[small]]).any():
        return None
    order, result = np.array(pivots, dtype=np.int64), list[Dependency]()
    for number, row in enumerate(rest.tolist()):
        places = np.flatnonzero(residues[:, number])
        if small[number]:
            result.append((row, order[places], signed[places, number], 1))
            continue
        one = _in_fractions(matrix, row, order[places], residues[places, number].tolist())
        if one is None:
            return None
        result.append(one)
    return result, left


def _in_fractions(
    matrix: IntArray, row: int, parts: IntArray, residues: list[int]
) -> Dependency | None:
    """The row as a sum of fractions of the ``parts``; None if it is not certainly one."""
    found = [_fraction(value) for value in residues]
    factors = [factor for factor in found if factor is not None]
    unit = math.lcm(*(factor.denominator for factor in factors))
    times = np.array([int(factor * unit) for factor in factors], dtype=object)
    total = times @ matrix[parts].astype(object)
    if len(factors) < len(found) or (total != matrix[row].astype(object) * unit).any():
        return None
    return row, parts, times, unit


def _certified(
    matrix: IntArray, pivots: list[int], values: list[int], row: int
) -> ExactCombination | None:
    """The combination of the rows ``pivots`` with factors ``values`` modulo the prime, if it equals
    ``row`` in integers; otherwise None."""
    known: list[tuple[int, Fraction]] = []
    for place, value in zip(pivots, values, strict=True):
        factor = _fraction(value)
        if factor is None:
            return None
        if factor:
            known.append((place, factor))
    common = math.lcm(*(factor.denominator for _, factor in known))
    total = np.zeros(matrix.shape[1], dtype=object)
    for place, factor in known:
        total = total + matrix[place].astype(object) * int(factor * common)
    if (total != matrix[row].astype(object) * common).any():
        return None
    factors = tuple(ratio(*factor.as_integer_ratio()) for _, factor in known)
    return ExactCombination(tuple(place for place, _ in known), factors)


def _fraction(residue: int) -> Fraction | None:
    """a/b with a, b below √(p/2) and a ≡ residue · b, by Euclid's algorithm."""
    before, now, first, second = _PRIME, residue, 0, 1
    while now > _BOUND:
        quotient = before // now
        before, now = now, before - quotient * now
        first, second = second, first - quotient * second
    if not 0 < abs(second) <= _BOUND:
        return None
    return Fraction(now, second)


def _dense(factor: Factor) -> IntArray | None:
    """The matrix over the cells that its rows distinguish, without those of no row; None if
    elimination would take too much work."""
    kinds = by_kind(factor)
    if kinds.height * kinds.size * min(kinds.height, kinds.size) > _WORK:
        return None
    return kinds.dense()


def _residues(matrix: IntArray) -> _Residues:
    """The residues of the transposed matrix."""
    return (matrix.T % _PRIME).astype(np.uint64)


def _reduced(matrix: _Residues, columns: int, work: int) -> tuple[_Residues, list[int], int] | None:
    """The reduced echelon form by the first ``columns`` columns, those with pivots, and what is
    left of the ``work``; None if it takes more changes of entries than that."""
    pivots: list[int] = []
    for column in range(columns):
        deadline.check()
        top = len(pivots)
        filled = np.flatnonzero(matrix[top:, column])
        if not len(filled):
            continue
        place = top + int(filled[_latest(matrix[top + filled, column + 1 :])])
        matrix[[top, place]] = matrix[[place, top]]
        inverse = pow(int(matrix[top, column]), -1, _PRIME)
        own = np.flatnonzero(matrix[top])
        matrix[top, own] = _product(matrix[top, own], np.uint64(inverse))
        factors = matrix[:, column].copy()
        factors[top] = 0
        others = np.flatnonzero(factors)
        work -= len(others) * len(own)
        if work < 0:
            return None
        if len(others):
            taken = _product(factors[others, None], matrix[top, own][None, :])
            places = np.ix_(others, own)
            matrix[places] = _residue(matrix[places] + (np.uint64(_PRIME) - taken))
        pivots.append(column)
    return matrix, pivots, work


def _latest(rows: _Residues) -> int:
    """The row whose first entry comes last: as a pivot it fills the fewest of the next columns."""
    filled = rows != 0
    if not filled.size:
        return 0
    return int(np.where(filled.any(axis=1), filled.argmax(axis=1), filled.shape[1]).argmax())


def _product(a: _Residues | np.uint64, b: _Residues | np.uint64) -> _Residues:
    """a·b mod 2⁶¹ − 1 for residues, in halves of 31 bits, with 2⁶¹ ≡ 1."""
    low, half = np.uint64(2**31 - 1), np.uint64(31)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + a_low * b_high
    carried = (middle & np.uint64(2**30 - 1)) << half
    return _residue(
        np.uint64(2) * a_high * b_high + (middle >> np.uint64(30)) + carried + a_low * b_low
    )


def _residue(values: _Residues) -> _Residues:
    """The residues of numbers below 2⁶⁴."""
    prime = np.uint64(_PRIME)
    folded = (values & prime) + (values >> np.uint64(61))
    result: _Residues = np.where(folded >= prime, folded - prime, folded)
    return result
