"""Privacy of finite laws, proved by going through all of it in rational numbers.

A law is its columns: ``columns[j][i]`` = P[output i | truth j]. `mechanisms.matrix` proves its
matrices when they are made; this says it again, in other arithmetic and from the probabilities
alone, so that a mistake in one of the two shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import TypeAlias

__all__ = ["Columns", "divergence", "flaw", "largest_divergence", "tightest_alpha"]

Columns: TypeAlias = Sequence[Sequence[Fraction]]


def flaw(columns: Columns) -> str | None:
    """Why the columns are not laws on one set of outputs; None if they are."""
    for j, column in enumerate(columns):
        if len(column) != len(columns[0]):
            return f"truth {j} has {len(column)} outputs, not {len(columns[0])}"
        if not all(probability >= 0 for probability in column):
            return f"truth {j} has a negative probability"
        if sum(column) != 1:
            return f"truth {j} adds up to {float(sum(column)):.9g}"
    return None


def tightest_alpha(columns: Columns, *, any_two: bool) -> Fraction:
    """The largest α with P[i|j] ≥ α P[i|j'] for all outputs i and neighbours j, j'.

    Neighbours are adjacent columns, or ``any_two``. That is ε-DP with ε = −ln α, for all events:
    sums of finitely many terms keep the ratio. 0 if an output excludes a truth.
    """
    return min(
        (
            min(a, b) / max(a, b)
            for here, there in _neighbours(columns, any_two)
            for a, b in zip(here, there, strict=True)
            if a or b
        ),
        default=Fraction(1),
    )


def divergence(columns: Columns, factor: Fraction, *, any_two: bool) -> Fraction:
    """The least δ with (ln f, δ)-DP, f = ``factor``: the hockey-stick divergence

    max over neighbours j, j' of Σ_i max(0, P[i|j] − f P[i|j']) (METRIC Thm 3, on a finite range).
    """
    zero = Fraction(0)
    return max(
        sum((max(zero, a - factor * b) for a, b in zip(one, other, strict=True)), zero)
        for here, there in _neighbours(columns, any_two)
        for one, other in ((here, there), (there, here))
    )


def largest_divergence(alpha: Fraction, factor: Fraction) -> Fraction:
    """What `divergence` is at most for anything that is α-DP: (1 − αf)/(1 + α), if αf ≤ 1, else 0.

    An event has chances p and q with q ≥ αp and 1−p ≥ α(1−q); p − fq is largest where both are
    equalities, at p = 1/(1+α), q = α/(1+α). Randomised response of one bit reaches it.
    """
    return max(Fraction(0), (1 - alpha * factor) / (1 + alpha))


def _neighbours(
    columns: Columns, any_two: bool
) -> Iterator[tuple[Sequence[Fraction], Sequence[Fraction]]]:
    return combinations(columns, 2) if any_two else pairwise(columns)
