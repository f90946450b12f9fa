"""The law of noises given that they add up, against enumeration and published variances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from tallyveil.inference import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ErrorLaw,
    NoiseLaw,
    Noises,
    best_combinations,
)
from tallyveil.inference.conditional.conditional import ConditionalLaw, laws_of_atoms
from tallyveil.inference.conditional.tree import Tree
from tallyveil.inference.laws.noises import JointNoise

_TWO_LEVELS = (-1, 0, 0, 1, 1, 2, 2, 2)


def _exact(law: NoiseLaw) -> NoiseLaw:
    return type(law)(0.0)


def _total(law: NoiseLaw, leaves: int) -> Tree:
    """Leaves of which the sum is exact."""
    return Tree((-1, *[0] * leaves), (_exact(law), *[law] * leaves))


def _atom(tree: Tree) -> ConditionalLaw:
    [(_, law, _)] = laws_of_atoms(tree)
    return law


def _enumerated(tree: Tree, reach: int) -> Iterator[tuple[list[int], float]]:
    """Of each outcome of the leaves the sums of all counts, and the probability."""
    steps = np.arange(-reach, reach + 1, dtype=np.float64)
    masses = {law: np.exp(law.log_mass(steps)) for law in tree.laws if law and law.scale}
    found = []
    for values in itertools.product(range(-reach, reach + 1), repeat=len(tree.leaves)):
        sums = tree.sums(values)
        chance = 1.0
        for law, total in zip(tree.laws, sums, strict=True):
            if law is not None:
                known = masses.get(law)
                inside = abs(total) <= reach
                chance *= (
                    float(not total) if known is None else known[total + reach] if inside else 0
                )
        if chance:
            found.append((sums, chance))
    whole = sum(chance for _, chance in found)
    return ((sums, chance / whole) for sums, chance in found)


def _noises(tree: Tree, counts: Sequence[int], *others: NoiseLaw) -> Noises:
    """Of some counts of one draw of the tree, and others that are independent."""
    [(_, law, places)] = laws_of_atoms(tree)
    own = next(one for one in tree.laws if one is not None and one.scale)
    together = JointNoise(
        np.array([7] * len(counts)), np.array([places[n] for n in counts]), {7: law}
    )
    drawn = Noises.of(type(own), np.full(len(counts), own.scale))
    parts = [Noises(drawn.laws, drawn.scales, together)]
    return Noises.concatenated([*parts, *(Noises.of(type(one), one.scale) for one in others)])


@pytest.mark.parametrize(
    ("leaves", "scale", "variance"),
    [
        (3, 1.0, 0.661233), (3, 2.0, 3.162992), (3, 10.0, 83.166483), (4, 1.0, 0.876211),
        (4, 2.0, 4.029194), (4, 10.0, 104.829979), (10, 10.0, 155.282946),
        (102, 10.4167, 211.59087),
    ],
)  # fmt: skip
def test_variance_of_leaves_with_a_known_total(leaves: int, scale: float, variance: float) -> None:
    law = _atom(_total(DiscreteLaplaceLaw(scale), leaves))
    one = law.functional(np.array([1]), np.ones(1))
    assert one.variance == pytest.approx(variance, abs=2e-6)
    pair = law.functional(np.array([1, 1]), np.array([1.0, -1.0]))
    assert pair.variance == pytest.approx(2 * one.variance * leaves / (leaves - 1))


@pytest.mark.parametrize(
    ("law", "noisy", "root", "expected"),
    [
        (DiscreteLaplaceLaw, True, False, (0.433857, 0.147495, 0.700843, 0.147495)),
        (DiscreteLaplaceLaw, False, False, (1.028479, 1.542719, 1.028479, 1.542719)),
        (DiscreteLaplaceLaw, True, True, (0.50819, 0.306828, 0.75535, 0.360532)),
        (DiscreteGaussianLaw, True, False, (0.585553, 0.343639, 0.704797, 0.343639)),
        (DiscreteGaussianLaw, True, True, (0.62011, 0.481196, 0.723981, 0.516134)),
    ],
)
def test_variances_of_two_groups(
    law: type[NoiseLaw], noisy: bool, root: bool, expected: tuple[float, ...]
) -> None:
    """Groups of two and of three leaves, all with noise of scale 1."""
    one = law(1.0)
    inner = (one, one) if noisy else (None, None)
    tree = Tree(_TWO_LEVELS, (one if root else law(0.0), *inner, *[one] * 5))
    [(_, atom, places)] = laws_of_atoms(tree)
    found = [atom.functional(np.array([places[n]]), np.ones(1)).variance for n in (3, 1, 5, 2)]
    assert found == pytest.approx(expected, abs=3e-6)


@pytest.mark.parametrize("law", [DiscreteLaplaceLaw(0.7), DiscreteGaussianLaw(1.1)])
@pytest.mark.parametrize("noisy", [True, False])
def test_any_sum_has_the_law_of_enumeration(law: NoiseLaw, noisy: bool) -> None:
    """φ, the variance, and P(|X| ≤ h), alone and beside other noise."""
    inner = (law, law) if noisy else (None, None)
    tree = Tree((-1, 0, 0, 1, 1, 2, 2), (_exact(law), *inner, *[law] * 4))
    outcomes = list(_enumerated(tree, 9 if law.heavy else 6))
    for counts, weights in [
        ([3], [1.0]), ([1], [2.0]), ([3, 4], [1.0, -1.0]), ([3, 5, 6], [1.0, 0.5, -0.25]),
        ([1, 3, 5], [0.5, 1.0, -2.0]), ([3, 4, 5, 6], [0.75, -0.25, -0.25, -0.25]),
    ]:  # fmt: skip
        noises = _noises(tree, counts)
        [one] = noises.functionals(np.array(weights))
        values = [sum(a * s[n] for a, n in zip(weights, counts, strict=True)) for s, _ in outcomes]
        chances = np.array([chance for _, chance in outcomes])
        points = np.array([0.0, 0.3, 1.7, 4.0])
        phi = np.cos(points[:, None] * np.array(values)) @ chances
        assert np.exp(one.log_phi(points)) == pytest.approx(phi, abs=1e-4 if law.heavy else 1e-8)
        variance = float(np.array(values) ** 2 @ chances)
        assert one.variance == pytest.approx(variance, rel=3e-3 if law.heavy else 1e-7)
        error = ErrorLaw(np.array(weights), noises)
        for h in (0.0, 0.5, 1.0, 2.25):
            inside = float(chances[np.abs(values) <= h + 1e-9].sum())
            bounds = error.within(h)
            assert bounds.lower - 1e-4 <= inside <= bounds.upper + 1e-4
        half = error.half_width(0.8)
        assert float(chances[np.abs(values) <= half + 1e-9].sum()) >= 0.8 - 1e-4
        below = float(chances[np.abs(values) < half - 1e-6].sum())
        assert below <= 0.8 + 1e-4


def test_a_sum_beside_other_noise_is_the_convolution() -> None:
    law, other = DiscreteLaplaceLaw(1.0), DiscreteLaplaceLaw(1.5)
    tree = _total(law, 3)
    error = ErrorLaw(np.array([0.5, 0.5]), _noises(tree, [1], other))
    step, masses = _atom(tree).functional(np.array([1]), np.ones(1)).masses() or (0, np.zeros(1))
    assert step == 1
    both = np.concatenate([masses[:0:-1], masses])
    spread = np.exp(other.log_mass(np.arange(-80, 81, dtype=np.float64)))
    together = np.convolve(both, spread)
    middle = len(together) // 2
    for h in (0, 1, 2, 5):
        inside = float(together[middle - 2 * h : middle + 2 * h + 1].sum())
        bounds = error.within(h)
        assert bounds.lower <= inside + 1e-12
        assert bounds.upper >= inside - 1e-12
        assert bounds.upper - bounds.lower < 1e-8


@pytest.mark.parametrize("law", [DiscreteLaplaceLaw(2.0), DiscreteGaussianLaw(0.6)])
def test_independent_noises_dominate(law: NoiseLaw) -> None:
    """E e^{λX} is no more than theirs, for weights of any kind: bounds of tails rely on it."""
    tree = Tree((-1, 0, 0, 1, 1, 2, 2), (_exact(law), law, None, *[law] * 4))
    outcomes = list(_enumerated(tree, 8 if law.heavy else 5))
    random = np.random.default_rng(5)
    for weights in random.normal(size=(12, 4)):
        values = np.array([np.dot(weights, sums[3:]) for sums, _ in outcomes])
        chances = np.array([chance for _, chance in outcomes])
        for rate in (0.05, 0.1):
            logs = sum(float(law.log_moment(np.array([abs(a) * rate]))[0]) for a in weights)
            assert math.log(float(np.exp(rate * values) @ chances)) <= logs


def test_the_total_has_no_error() -> None:
    law = DiscreteLaplaceLaw(3.0)
    noises = _noises(_total(law, 4), [1, 2, 3, 4])
    error = ErrorLaw(np.ones(4), noises)
    assert error.variance == 0
    assert error.half_width(Fraction(19, 20)) == pytest.approx(0, abs=1e-9)
    nearly = ErrorLaw(np.array([1, 1 + 1e-13, 1 - 1e-13, 1]), noises)
    assert nearly.half_width(Fraction(19, 20)) < 1e-6


def test_draws_are_told_apart() -> None:
    """Two leaves of one draw have less in sum than two of two draws."""
    law = DiscreteLaplaceLaw(2.0)
    [(_, atom, _)] = laws_of_atoms(_total(law, 3))
    drawn = Noises.of(DiscreteLaplaceLaw, [2.0, 2.0])
    one = JointNoise(np.array([1, 1]), np.array([1, 1]), {1: atom})
    two = JointNoise(np.array([1, 2]), np.array([1, 1]), {1: atom, 2: atom})
    same, apart = (Noises(drawn.laws, drawn.scales, own) for own in (one, two))
    assert same.variance_of(np.ones(2)) == pytest.approx(3.162992, abs=1e-6)
    assert apart.variance_of(np.ones(2)) == pytest.approx(2 * 3.162992, abs=2e-6)
    assert same.signature != apart.signature
    assert Noises.signed(apart.signature).variance_of(np.ones(2)) == pytest.approx(
        6.325984, abs=2e-6
    )
    assert apart.take(np.array([1])).signature == same.take(np.array([0])).signature


def test_the_best_combination_of_a_draw_is_the_answer_itself() -> None:
    """With the exact total: the weights are those of the projection, and the error's variance is
    that of the draw."""
    tree = _total(DiscreteLaplaceLaw(1.0), 3)
    noises = Noises.concatenated([_noises(tree, [1, 2, 3]), Noises.of(DiscreteLaplaceLaw, 0.0)])
    history = sparse.csr_matrix(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]))
    asked = sparse.csr_matrix(np.array([[1, 0, 0], [1, 1, 0]]))
    for found in best_combinations(history, noises, asked):
        assert found is not None
        own = noises.take(found.places).variance_of(found.weights)
        assert own == pytest.approx(0.661233, abs=1e-6)


def test_hundreds_of_noisy_groups_have_the_variances_of_normal_noise() -> None:
    """The product of how likely each is to be the sum of its leaves is less than any float."""
    groups, law = 400, DiscreteGaussianLaw(5.0)
    parents = (-1, *[0] * groups, *(1 + n // 2 for n in range(2 * groups)))
    tree = Tree(parents, (_exact(law), *[law] * (3 * groups)))
    atom = _atom(tree)
    precision = np.kron(np.eye(groups), np.eye(2) + np.ones((2, 2))) / law.variance
    alone, every = np.linalg.inv(precision), np.ones(2 * groups)
    weighted = alone @ every
    covariance = alone - np.outer(weighted, weighted) / (every @ weighted)
    leaf = atom.functional(np.array([1 + groups]), np.ones(1))
    group = atom.functional(np.array([1]), np.ones(1))
    assert leaf.variance == pytest.approx(covariance[0, 0], rel=1e-6)
    assert group.variance == pytest.approx(covariance[:2, :2].sum(), rel=1e-6)
    point = np.array([0.01])
    assert leaf.log_phi(point)[0] == pytest.approx(-leaf.variance * 5e-5, rel=1e-6)
