"""Rows from which sums of a value and of its square follow, with less noise at the same cost.

The sums of one part of a group are polynomials of one value v from lo to hi there. With t = v − lo
in units of g and m = (hi − lo)/g they are bought as sums over the records of the part,

- of degree 1:        m − t,    t;
- of degree 2 in ε:   (m − t)²,    2 t (m − t),    t², whose sum is m² for each record (Bernstein);
- of degree 2 in ρ:   1,    u = 2t − m,    2u² − m² (Chebyshev).

In ε all of these have noise of one scale, as a record moves them by m or m² together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.mechanisms import Measure

__all__ = ["Family", "Moment", "Polynomial", "families"]

Polynomial: TypeAlias = tuple[Fraction, Fraction, Fraction]
"""Coefficients of 1, τ and τ², where τ = t/m is from 0 to 1."""

_SQUARED: Final = 30_000  # the most m for degree 2: coefficients stay below 2³¹
_VALUES: Final = 20_000  # that are compared with a polynomial
_NEARLY: Final = 1e-6  # of the largest value, as near as a polynomial is in floats


@dataclass(frozen=True, eq=False)
class Moment:
    """A row: its values for each cell of the part. Its noise is as large as that of a row of
    ``step``."""

    values: IntArray
    step: int


@dataclass(frozen=True, eq=False)
class Family:
    """Sums ``numbers`` of a part, which are ``polynomials`` of t = 0 … m, given for each cell. A
    step of t is ``unit`` steps of the sum ``of``."""

    of: int
    numbers: tuple[int, ...]
    polynomials: tuple[Polynomial, ...]
    t: IntArray
    m: int
    unit: int

    @property
    def degree(self) -> int:
        return 2 if any(one[2] for one in self.polynomials) else 1

    def moments(self, measure: Measure) -> list[Moment]:
        """The rows to buy."""
        t, m = self.t, self.m
        if self.degree == 1:
            return [Moment(m - t, m), Moment(t, m)]
        square = m * m
        if measure == "epsilon":
            return [
                Moment((m - t) ** 2, square),
                Moment(2 * t * (m - t), square),
                Moment(t**2, square),
            ]
        u = 2 * t - m
        return [
            Moment(np.ones_like(t), 1),
            Moment(u, m),
            Moment(2 * u**2 - square, square),
        ]


def families(sums: Sequence[tuple[int, IntArray]]) -> list[Family]:
    """Divide the sums, whose values for the cells of a part are given, into families of polynomials
    of one of them: of the first that has most of those left."""
    left, found = list(sums), list[Family]()
    while left:
        each = (_family(number, values, left) for number, values in left)
        best = max(each, key=lambda one: len(one.numbers))  # the first of equals
        found.append(best)
        left = [(number, values) for number, values in left if number not in best.numbers]
    return found


def _family(of: int, values: IntArray, sums: Sequence[tuple[int, IntArray]]) -> Family:
    """The sums that are polynomials of one of them."""
    low = int(values.min())
    unit = int(np.gcd.reduce(values - low))
    t = (values - low) // unit
    m = int(t.max())
    found: dict[int, Polynomial] = {}
    for number, own in sums:
        one = (Fraction(low), Fraction(unit * m), Fraction(0))
        polynomial = one if number == of else _polynomial(t, own, m)
        if polynomial is not None:
            found[number] = polynomial
    return Family(of, tuple(found), tuple(found.values()), t, m, unit)


def _polynomial(t: IntArray, values: IntArray, m: int) -> Polynomial | None:
    """The values as a polynomial of τ = t/m; None if they are none of degree 2 at most."""
    each, first = np.unique(t, return_index=True)
    own = values[first]
    if len(each) > _VALUES or not np.array_equal(own[np.searchsorted(each, t)], values):
        return None
    (t0, t1, t2), (y0, y1, y2) = (one[[0, len(each) // 2, -1]].tolist() for one in (each, own))
    slope = Fraction(y2 - y0, t2 - t0)
    bend = Fraction(0)
    if len(each) > 2:
        bend = (slope - Fraction(y1 - y0, t1 - t0)) / (t2 - t1)
    if bend and m > _SQUARED:
        return None
    # y = y0 + slope · t + bend · t (t − m), since t0 = 0 and t2 = m
    about = y0 + float(slope) * each + float(bend) * each * (each - m)
    if not np.allclose(about, own, rtol=0, atol=_NEARLY * float(np.abs(own).max())):
        return None  # exact integers take longer
    x, scale = each.astype(object), slope.denominator * bend.denominator
    exact = int(slope * scale) * x + int(bend * scale) * x * (x - m)
    if (exact != (own.astype(object) - y0) * scale).any():
        return None
    return Fraction(y0), (slope - bend * m) * m, bend * m * m
