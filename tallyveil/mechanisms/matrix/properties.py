"""The seven properties of COUNT §IV-A, checked exactly on the integers that are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import pairwise

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix

__all__ = [
    "Property",
    "closure",
    "derivable_from_geometric",
    "holds",
    "parse_properties",
    "properties_of",
]


class Property(StrEnum):
    """A property of P[i|j], output i for truth j."""

    ROW_HONEST = "RH"
    """P[i|i] ≥ P[i|j]: output i is likeliest if i is the truth (eq. 7)."""
    ROW_MONOTONE = "RM"
    """Along a row, P[i|j] does not rise as j moves away from i (eq. 8)."""
    COLUMN_HONEST = "CH"
    """P[j|j] ≥ P[i|j]: no output is likelier than the truth (eq. 9)."""
    COLUMN_MONOTONE = "CM"
    """Down a column, P[i|j] does not rise as i moves away from j (eq. 10)."""
    FAIR = "F"
    """P[j|j] is the same for every truth (eq. 11)."""
    WEAKLY_HONEST = "WH"
    """P[j|j] ≥ 1/(n+1): the truth is at least as likely as in a uniform guess (eq. 13)."""
    SYMMETRIC = "S"
    """P[i|j] = P[n−i|n−j]: the matrix is centrosymmetric (eq. 14)."""


def parse_properties(names: Iterable[str]) -> frozenset[Property]:
    """Parse names, or text such as "WH,CM", "wh+cm" or "wh cm".

    Raises InvalidParameterValue for a name that is none of the seven.
    """
    if isinstance(names, str):
        names = names.replace(",", " ").replace("+", " ").split()
    found = set()
    for name in names:
        if name.upper() not in tuple(Property):
            raise InvalidParameterValue(
                f'there is no property "{name}"', hint=f"The properties are {', '.join(Property)}."
            )
        found.add(Property(name.upper()))
    return frozenset(found)


def closure(asked: Iterable[str]) -> frozenset[Property]:
    """Return these properties and all that follow from them: RM → RH, CM → CH → WH, F + RH → CH,
    F + CH → RH (COUNT §IV-A). Raises as `parse_properties`."""
    known = set(parse_properties(asked))
    while True:
        more = {Property.ROW_HONEST} if Property.ROW_MONOTONE in known else set()
        more |= {Property.COLUMN_HONEST} if Property.COLUMN_MONOTONE in known else set()
        more |= {Property.WEAKLY_HONEST} if Property.COLUMN_HONEST in known else set()
        if Property.FAIR in known and known & {Property.ROW_HONEST, Property.COLUMN_HONEST}:
            more |= {Property.ROW_HONEST, Property.COLUMN_HONEST}
        if more <= known:
            return frozenset(known)
        known |= more


def holds(matrix: CountMatrix, name: Property) -> bool:
    """Whether the property holds exactly."""
    return _CHECKS[name](matrix)


def properties_of(matrix: CountMatrix) -> frozenset[Property]:
    return frozenset(name for name in Property if holds(matrix, name))


def _rows(matrix: CountMatrix) -> Iterable[tuple[int, ...]]:
    return zip(*matrix.weights, strict=True)


def _peaks_at(line: tuple[int, ...], place: int) -> bool:
    return max(line) == line[place]


def _falls_from(line: tuple[int, ...], place: int) -> bool:
    rising, falling = line[: place + 1], line[place:]
    return all(a <= b for a, b in pairwise(rising)) and all(a >= b for a, b in pairwise(falling))


def _diagonal(matrix: CountMatrix) -> list[int]:
    return [column[j] for j, column in enumerate(matrix.weights)]


_CHECKS: dict[Property, Callable[[CountMatrix], bool]] = {
    Property.ROW_HONEST: lambda m: all(_peaks_at(row, i) for i, row in enumerate(_rows(m))),
    Property.ROW_MONOTONE: lambda m: all(_falls_from(row, i) for i, row in enumerate(_rows(m))),
    Property.COLUMN_HONEST: lambda m: all(_peaks_at(c, j) for j, c in enumerate(m.weights)),
    Property.COLUMN_MONOTONE: lambda m: all(_falls_from(c, j) for j, c in enumerate(m.weights)),
    Property.FAIR: lambda m: len(set(_diagonal(m))) == 1,
    Property.WEAKLY_HONEST: lambda m: (m.n + 1) * min(_diagonal(m)) >= m.total,
    Property.SYMMETRIC: lambda m: all(
        column == mirrored[::-1]
        for column, mirrored in zip(m.weights, m.weights[::-1], strict=True)
    ),
}


def derivable_from_geometric(matrix: CountMatrix) -> bool:
    """Whether P = D · GM for some column-stochastic D, exactly, at the matrix's own α.

    By the test of Gupte and Sundararajan (COUNT §IV-D) this holds iff, in every row, all three
    adjacent entries satisfy (P[i|j] − α P[i|j−1]) ≥ α (P[i|j+1] − α P[i|j]); the ends of a row
    require only that P is α-DP.
    """
    p, q = matrix.alpha.numerator, matrix.alpha.denominator
    columns = matrix.weights
    return all(
        (q * q + p * p) * here >= p * q * (before + after)
        for j in range(1, matrix.n)
        for before, here, after in zip(*columns[j - 1 : j + 2], strict=True)
    )
