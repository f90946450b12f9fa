"""The closed forms against their definitions and the paper's numbers, and the exact proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.audit.matrices import columns_of, tightest_alpha
from tallyveil.errors import InvalidParameterValue, UnprovenPrivacy
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix, prove_pure
from tallyveil.mechanisms.matrix.explicit import (
    explicit_fair,
    geometric,
    randomised_response,
    uniform,
)
from tallyveil.mechanisms.matrix.objective import Objective, score
from tallyveil.mechanisms.matrix.privacy_level import alpha_for, epsilon_for
from tallyveil.mechanisms.matrix.properties import (
    Property,
    derivable_from_geometric,
    holds,
    parse_properties,
    properties_of,
)
from tests.inference.exact import solutions

Family = Callable[[int, Fraction], CountMatrix]
FAMILIES: list[Family] = [geometric, explicit_fair, uniform, randomised_response]
ranges = st.integers(1, 12)
alphas = st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=60)
families = st.sampled_from(FAMILIES)


@given(ranges, alphas)
def test_geometric_is_clamped_discrete_laplace(n: int, alpha: Fraction) -> None:
    matrix = geometric(n, alpha)
    law = (1 - alpha) / (1 + alpha)
    for j in range(n + 1):
        assert matrix.probability(0, j) == alpha**j / (1 + alpha)  # Σ of the law from j up
        assert matrix.probability(n, j) == alpha ** (n - j) / (1 + alpha)
        for i in range(1, n):
            assert matrix.probability(i, j) == law * alpha ** abs(i - j)
    assert score(matrix, Objective()) == 2 * alpha / (1 + alpha)


@given(ranges, alphas)
def test_explicit_fair_has_its_diagonal_and_every_property(n: int, alpha: Fraction) -> None:
    matrix = explicit_fair(n, alpha)
    terms = 1 + 2 * sum(alpha**k for k in range(1, (n - 1) // 2 + 1))
    terms += alpha ** ((n + 1) // 2) if n % 2 else 2 * alpha ** (n // 2)
    assert matrix.probability(0, 0) == 1 / terms
    if n % 2 == 0:  # eq. 15
        assert 1 / terms == (1 - alpha) / (1 + alpha - 2 * alpha ** (n // 2 + 1))
    assert properties_of(matrix) == set(Property)


def test_the_papers_numbers() -> None:
    """MATH §5; its losses are compared by `tallyveil mechanism compare`."""
    for n, y in [(7, 0.1530432653), (8, 0.1390781898)]:
        assert float(explicit_fair(n, "0.9").probability(3, 3)) == pytest.approx(y, abs=5e-11)
    for matrix, truthful in [(geometric(4, "10/11"), 0.238), (explicit_fair(4, "10/11"), 0.224)]:
        assert np.diag(matrix.probabilities()).mean() == pytest.approx(truthful, abs=5e-4)
    # Figure 4, row 2 of n=7: powers of α.
    row = explicit_fair(7, "0.9").probabilities()[2]
    assert [round(math.log(p / row[2], 0.9)) for p in row] == [1, 1, 0, 1, 2, 3, 3, 3]


@given(ranges, alphas)
def test_when_the_geometric_mechanism_has_which_property(n: int, alpha: Fraction) -> None:
    matrix = geometric(n, alpha)
    has = properties_of(matrix)
    assert has >= {"S", "RM", "RH"}
    if n >= 2:
        assert ("WH" in has) == (n >= 2 * alpha / (1 - alpha))  # Lemma 2
        assert ("CM" in has) == (alpha <= Fraction(1, 2))  # Lemma 3, the inequality put right
        assert "F" not in has


@given(alphas)
def test_for_one_person_they_all_are_randomised_response(alpha: Fraction) -> None:
    keep = 1 / (1 + alpha)
    for family in (geometric, explicit_fair, randomised_response):
        matrix = family(1, alpha)
        assert [matrix.probability(i, 0) for i in (0, 1)] == [keep, 1 - keep]
        assert [matrix.probability(i, 1) for i in (0, 1)] == [1 - keep, keep]


@given(ranges, alphas)
def test_randomised_response_hides_any_truth_from_any_other(n: int, alpha: Fraction) -> None:
    weights = randomised_response(n, alpha).weights
    for j in range(n + 1):
        for k in range(n + 1):
            if j != k:
                prove_pure([weights[j], weights[k]], alpha)


@given(families, ranges, alphas)
def test_properties_are_what_their_definitions_say(family: Family, n: int, alpha: Fraction) -> None:
    matrix = family(n, alpha)
    p = [[matrix.probability(i, j) for j in range(n + 1)] for i in range(n + 1)]
    inside = range(n + 1)
    entries = [(i, j) for i in inside for j in inside]
    said = {
        "RH": all(p[i][i] >= p[i][j] for i, j in entries),
        "RM": all(p[i][j - 1] <= p[i][j] for i, j in entries if 1 <= j <= i)
        and all(p[i][j + 1] <= p[i][j] for i, j in entries if i <= j < n),
        "CH": all(p[j][j] >= p[i][j] for i, j in entries),
        "CM": all(p[i - 1][j] <= p[i][j] for i, j in entries if 1 <= i <= j)
        and all(p[i + 1][j] <= p[i][j] for i, j in entries if j <= i < n),
        "F": all(p[i][i] == p[j][j] for i, j in entries),
        "WH": all(p[i][i] >= Fraction(1, n + 1) for i in inside),
        "S": all(p[i][j] == p[n - i][n - j] for i, j in entries),
    }
    assert {name: holds(matrix, Property(name)) for name in said} == said


@given(families, ranges, alphas)
def test_the_proof_finds_the_tightest_ratio(family: Family, n: int, alpha: Fraction) -> None:
    matrix = family(n, alpha)
    tightest = tightest_alpha(columns_of(matrix), any_two=False)
    if family is uniform:
        assert tightest == 1
        return
    assert tightest == alpha
    with pytest.raises(UnprovenPrivacy, match="distinguishes truth"):
        prove_pure(matrix.weights, alpha + Fraction(1, 10**30))


@given(families, st.integers(1, 6), alphas)
def test_derivable_means_a_stochastic_matrix_after_the_geometric_one(
    family: Family, n: int, alpha: Fraction
) -> None:
    matrix = family(n, alpha)
    inside = range(n + 1)
    gm = geometric(n, alpha)
    transposed = [[gm.probability(k, j) for k in inside] for j in inside]
    rows = solutions(transposed, [[matrix.probability(i, j) for i in inside] for j in inside])
    assert derivable_from_geometric(matrix) == all(
        value >= 0 for row in rows for value in row or [Fraction(-1)]
    )
    if n > 1:
        assert derivable_from_geometric(matrix) == (family in (geometric, uniform))


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ([], "at least two truths"),
        ([[1, 1]], "at least two truths"),
        ([[], []], "above zero"),
        ([[0, 0], [0, 0]], "above zero"),
        ([[1, 1], [1, 2]], "different totals"),
        ([[1, 1], [2]], "1 outputs, not 2"),
        ([[3, -1], [1, 1]], "not an integer"),
        ([[0.5, 0.5], [0.5, 0.5]], "not an integer"),
        ([[True, True], [1, 1]], "not an integer"),
        ([[1, 0], [0, 1]], "output 0 distinguishes truth 0 from 1"),
        ([[1, 1], [1, 1], [1, 1]], "3 truths have 2 outputs"),
    ],
)
def test_what_is_no_private_law_cannot_be_made(weights: list[list[int]], complaint: str) -> None:
    with pytest.raises(UnprovenPrivacy, match=complaint):
        CountMatrix("x", "0.5", weights)
    if "tells" not in complaint and "have" not in complaint:
        with pytest.raises(UnprovenPrivacy):
            prove_pure(weights, "1e-9")


def test_a_law_that_excludes_a_truth_is_not_private_at_all() -> None:
    with pytest.raises(UnprovenPrivacy, match="distinguishes truth 0 from 1"):
        prove_pure([[1, 0], [0, 1]], "1e-9")


NONSENSE = [math.nan, math.inf, -math.inf, 0, -0.5, "x", "1/0"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("alpha", [*NONSENSE, 1, 1.5])
def test_alpha_is_between_zero_and_one(family: Callable[..., CountMatrix], alpha: float) -> None:
    with pytest.raises(InvalidParameterValue, match="alpha"):
        family(3, alpha)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [0, -1, 501, 2.0, math.nan, True, "3"])
def test_ranges_are_whole_and_not_too_large(family: Callable[..., CountMatrix], n: int) -> None:
    with pytest.raises(InvalidParameterValue, match="the largest possible count"):
        family(n, Fraction(1, 2))


@pytest.mark.parametrize("epsilon", [*NONSENSE, 1e-13])
def test_epsilon_is_positive_and_finite(epsilon: float) -> None:
    with pytest.raises(InvalidParameterValue, match="epsilon"):
        alpha_for(epsilon)


@given(st.fractions(Fraction(1, 10**12), 60))
def test_alpha_is_on_the_private_side_of_epsilon_and_close(epsilon: Fraction) -> None:
    alpha = alpha_for(epsilon)
    capped = min(epsilon, Fraction(40))
    with localcontext(prec=80):
        exact = Fraction((-Decimal(capped.numerator) / Decimal(capped.denominator)).exp())
    assert exact <= alpha < 1
    assert capped * (1 - Fraction(1, 2**24)) <= epsilon_for(alpha) <= capped + Fraction(1, 10**54)


def test_properties_are_known_by_name() -> None:
    assert parse_properties("WH, CM") == {Property.WEAKLY_HONEST, Property.COLUMN_MONOTONE}
    with pytest.raises(InvalidParameterValue, match="XY") as caught:
        parse_properties(["XY"])
    assert "RH, RM, CH, CM, F, WH, S" in str(caught.value)


@given(st.lists(st.permutations([1, 2, 2, 2, 2, 3]), min_size=2, max_size=7))
def test_a_proof_looks_at_every_pair_of_integers_wherever_else_they_stand(
    columns: list[list[int]],
) -> None:
    """The same few integers stand at many places, as in a geometric mechanism."""
    pairs = [pair for two in pairwise(columns) for pair in zip(*two, strict=True)]
    private = all(a <= 2 * b and b <= 2 * a for a, b in pairs)
    with nullcontext() if private else pytest.raises(UnprovenPrivacy, match="distinguishes truth"):
        prove_pure(columns, "0.5")
