"""Checks of the mechanisms for one count with a public range, as matrices and on draws; and proofs
of the privacy of finite laws, by exhaustion in rational arithmetic.

A law is given by its columns: ``columns[j][i]`` = P[output i | truth j]. `mechanisms.matrix` proves
its matrices when it builds them. This module proves them again, in other arithmetic and from the
probabilities alone, so that a mistake in one of the two proofs is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Final, TypeAlias

import numpy as np

from tallyveil.audit.experiment import experiment
from tallyveil.audit.finding import Finding, charged_for_its_law, number, subject
from tallyveil.audit.noise import bounded, follows
from tallyveil.errors import UnprovenPrivacy
from tallyveil.mechanisms import CountMechanism, mechanism
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix, draw
from tallyveil.mechanisms.matrix.named import Named
from tallyveil.mechanisms.matrix.privacy_level import alpha_for
from tallyveil.mechanisms.units import exp_below

__all__ = [
    "MatrixColumns",
    "columns_of",
    "divergence",
    "flaw",
    "largest_divergence",
    "law_findings",
    "matrix_findings",
    "tightest_alpha",
]

MatrixColumns: TypeAlias = Sequence[Sequence[Fraction]]

# Odd and even n, on both sides of n = 2α/(1−α), at which mechanisms change, for most α.
RANGES: Final = (1, 2, 3, 4, 5, 7, 8, 12, 15)
_DRAWN: Final = 7


def flaw(columns: MatrixColumns) -> str | None:
    """Return why the columns are not laws on one set of outputs, or None if they are."""
    for j, column in enumerate(columns):
        if len(column) != len(columns[0]):
            return f"truth {j} has {len(column)} outputs, not {len(columns[0])}"
        if not all(probability >= 0 for probability in column):
            return f"truth {j} has a negative probability"
        if sum(column) != 1:
            return f"truth {j} adds up to {float(sum(column)):.9g}"
    return None


def tightest_alpha(columns: MatrixColumns, *, any_two: bool) -> Fraction:
    """Return the largest α with P[i|j] ≥ α P[i|j'] for all outputs i and neighbours j, j'.

    Neighbours are adjacent columns, or ``any_two``. This means ε-DP with ε = −ln α for all events,
    since sums of finitely many terms keep the ratio. α is 0 if an output excludes a truth.
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


def divergence(columns: MatrixColumns, factor: Fraction, *, any_two: bool) -> Fraction:
    """Return the least δ with (ln f, δ)-DP, f = ``factor``: the hockey-stick divergence

    max over neighbours j, j' of Σ_i max(0, P[i|j] − f P[i|j']) (METRIC Thm 3, on a finite range).
    """
    zero = Fraction(0)
    return max(
        sum((max(zero, a - factor * b) for a, b in zip(one, other, strict=True)), zero)
        for here, there in _neighbours(columns, any_two)
        for one, other in ((here, there), (there, here))
    )


def largest_divergence(alpha: Fraction, factor: Fraction) -> Fraction:
    """Return the largest `divergence` of any α-DP law: (1 − αf)/(1 + α) if αf ≤ 1, else 0.

    An event has probabilities p and q with q ≥ αp and 1−p ≥ α(1−q); p − fq is largest where both
    are equalities, at p = 1/(1+α), q = α/(1+α). Randomised response of one bit attains it.
    """
    return max(Fraction(0), (1 - alpha * factor) / (1 + alpha))


def _neighbours(
    columns: MatrixColumns, any_two: bool
) -> Iterator[tuple[Sequence[Fraction], Sequence[Fraction]]]:
    return combinations(columns, 2) if any_two else pairwise(columns)


def matrix_findings(family: Named, epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Check a matrix mechanism at α just above e^{−ε}: exactly for every n of `RANGES`, and on
    draws for one n. If it answers queries, it is drawn as in a release.
    """
    alpha = alpha_for(epsilon)
    name = subject(family.name, epsilon)
    try:
        matrices = {n: family.make(n, alpha) for n in RANGES}
    except UnprovenPrivacy as error:
        yield Finding(name, "a proof of its own", error.message, holds=False, exact=True)
        return
    laws = {f"n = {n}": columns_of(matrix) for n, matrix in matrices.items()}
    yield from law_findings(name, laws, epsilon, any_two=family.any_two)
    if family.family is not None:
        yield from _released(name, f"{family.name}(n={_DRAWN})", epsilon, draws)
        return
    matrix, truth = matrices[_DRAWN], _DRAWN // 2
    pair = [np.array(draw(matrix, [j] * draws), dtype=np.int64) for j in (truth, truth + 1)]
    yield bounded(name, pair[0], pair[1], epsilon, Fraction(0))
    for j, drawn in zip((truth, truth + 1), pair, strict=True):
        yield follows(f"{name}, truth {j}", drawn, (0, matrix.probabilities()[:, j]))


def _released(name: str, spec: str, epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Check draws made as in a statement at ``epsilon``: charged, and drawn against a receipt."""
    noise = mechanism(spec)
    if not isinstance(noise, CountMechanism):
        raise TypeError(f"{spec} has no public range")
    made = experiment(noise, epsilon, count=_DRAWN // 2, draws=draws)
    matrix = noise.matrix(made.scale)
    yield charged_for_its_law(name, epsilon, matrix.epsilon, made.claim)
    yield bounded(name, made.first, made.second, made.claim, Fraction(0))
    for truth, drawn in zip(made.truths, (made.first, made.second), strict=True):
        chances = matrix.probabilities()[:, truth]
        yield follows(f"{name}, truth {truth}", drawn, (0, chances))


def columns_of(matrix: CountMatrix) -> MatrixColumns:
    size = range(matrix.n + 1)
    return [[matrix.probability(i, j) for i in size] for j in size]


def law_findings(
    name: str, laws: Mapping[str, MatrixColumns], epsilon: Fraction, *, any_two: bool
) -> Iterator[Finding]:
    """Check that all ``laws`` are laws, ε-DP, and (ε/2, δ)-DP with a δ that ε-DP allows.

    A finding reports the first failure. If some are not laws, the other checks are skipped.
    """
    flaws = {case: found for case, law in laws.items() if (found := flaw(law)) is not None}
    where = ", ".join(laws).replace(", n = ", ", ")
    yield Finding(
        name, f"probabilities, {where}", _first(flaws) or "exactly", not flaws, exact=True
    )
    if flaws:
        return
    alphas = {case: tightest_alpha(law, any_two=any_two) for case, law in laws.items()}
    # 1/α ≤ e^ε, by a rational just below e^ε.
    most = exp_below(epsilon)
    failing = {case: f"alpha {number(a)}" for case, a in alphas.items() if a * most < 1}
    yield Finding(
        name,
        f"alpha at least {number(1 / most)}" + (", any two truths" if any_two else ""),
        _first(failing) or f"alpha {number(min(alphas.values()))}",
        not failing,
        exact=True,
    )
    factor = exp_below(epsilon / 2)
    allowed = largest_divergence(1 / most, factor)
    deltas = {case: divergence(law, factor, any_two=any_two) for case, law in laws.items()}
    excessive = {case: f"delta {number(d)}" for case, d in deltas.items() if d > allowed}
    yield Finding(
        name,
        f"delta at most {number(allowed)} at epsilon {number(epsilon / 2)}",
        _first(excessive) or f"delta {number(max(deltas.values()))}",
        not excessive,
        exact=True,
    )


def _first(flaws: Mapping[str, str]) -> str | None:
    return next((f"{case}: {found}" for case, found in flaws.items()), None)
