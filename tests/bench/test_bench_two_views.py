"""Conditioning and imaging: what they make of a law, what they cost, and where the paper errs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from bench.imaging import Imaged
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.inference import DiscreteLaplaceLaw, NoiseLaw
from tallyveil.inference.conditional.tree import Tree
from tests.bench.finite_laws import (
    conditioned,
    imaged,
    inequality_loss,
    loss,
    mixed,
    union_loss,
)

EXACT = DiscreteLaplaceLaw(0.0)


def noisy(count: int, epsilon: float, reach: int = 60) -> dict[int, float]:
    """The discrete Laplace law around a count, but for its ends."""
    return {
        k: math.tanh(epsilon / 2) * math.exp(-epsilon * abs(k - count))
        for k in range(-reach, reach + 1)
    }


def test_there_is_no_apple() -> None:
    """Example 2.3: the box holds an apple (0.7) or a banana (0.3). There never was an apple, or it
    is gone."""
    box = {("apple",): Fraction(7, 10), ("banana",): Fraction(3, 10)}
    without = [("banana",), ()]
    assert conditioned(box, without) == {("banana",): 1}
    taken = imaged(box, lambda fruits: tuple(f for f in fruits if f != "apple"))
    assert taken == {("banana",): Fraction(3, 10), (): Fraction(7, 10)}


@pytest.mark.parametrize(
    ("epsilon", "factor"), [(1.0, 1.209080), (0.1, 1.825994), (0.01, 1.980295)]
)
def test_conditioning_on_no_negative_answer_costs_more(epsilon: float, factor: float) -> None:
    """1 + γ, by enumeration: of neighbouring counts 0 and 1, and none is worse."""
    reach = math.ceil(80 / epsilon)
    losses = [
        loss(*(conditioned(noisy(x, epsilon, reach), range(reach)) for x in (count, count + 1)))
        for count in range(4)
    ]
    assert max(losses) == losses[0]
    assert losses[0] / epsilon == pytest.approx(factor, abs=2e-6)
    assert inequality_loss(epsilon) == pytest.approx(losses[0], rel=1e-9)
    assert epsilon < losses[0] <= inequality_loss(epsilon) * (1 + 1e-9) < 2 * epsilon


def test_imaging_on_no_negative_answer_costs_nothing_more() -> None:
    laws = [imaged(noisy(count, 1.0), lambda k: max(k, 0)) for count in (0, 1)]
    assert loss(*laws) == pytest.approx(1.0)


def test_no_epsilon_no_charge() -> None:
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameterValue):
            inequality_loss(epsilon)
    with pytest.raises(InvalidParameterValue):
        conditioned({0: 0.0, 1: 1.0}, [0])


def test_a_disjoint_union_is_a_mixture_but_its_weight_depends_on_the_data() -> None:
    """Theorem 3.5: part 1 holds, with λ = P(C) / P(C ∪ C′); part 2 does not. Counts 0 and 1,
    C = {0} and C′ = {1}: each conditional law is one outcome and costs nothing, and on both it
    costs ε."""
    laws = [noisy(count, 1.0) for count in (0, 1)]
    on_both = [conditioned(law, (0, 1)) for law in laws]
    for law, both in zip(laws, on_both, strict=True):
        share = law[0] / (law[0] + law[1])
        alone = [conditioned(law, (outcome,)) for outcome in (0, 1)]
        assert both == pytest.approx(mixed(alone, (share, 1 - share)))
    for outcome in (0, 1):
        assert loss(*(conditioned(law, (outcome,)) for law in laws)) == 0
    assert loss(*on_both) == pytest.approx(1.0)
    charged = union_loss(0.0, 0.0, [(law[0], law[1]) for law in laws])
    assert charged == pytest.approx(1.0)


@pytest.mark.parametrize("split", [0, 2, 5])
def test_a_disjoint_union_is_charged_enough(split: int) -> None:
    """C = {split, …} and C′ = {−2, −1}, over neighbouring counts."""
    first, second = range(split, 50), (-2, -1)
    for count in range(4):
        laws = [noisy(x, 0.7) for x in (count, count + 1)]
        alone = [loss(*(conditioned(law, own) for law in laws)) for own in (first, second)]
        chances = [
            (math.fsum(law[k] for k in first), math.fsum(law[k] for k in second)) for law in laws
        ]
        both = loss(*(conditioned(law, [*first, *second]) for law in laws))
        assert both <= union_loss(alone[0], alone[1], chances) + 1e-12


def test_a_mixture_costs_no_more_than_its_parts() -> None:
    """Theorem 3.9, for public weights."""
    pairs = [[noisy(count, epsilon) for count in (0, 1)] for epsilon in (0.3, 1.0)]
    mixtures = [mixed([pair[n] for pair in pairs], (0.25, 0.75)) for n in (0, 1)]
    assert loss(*mixtures) <= 1.0 + 1e-12
    assert math.fsum(mixtures[0].values()) == pytest.approx(1, abs=1e-6)


def test_mapping_and_conditioning_do_not_commute() -> None:
    """Lemma 3.4, part 2, where the map takes what is outside C into C."""
    law = {0: 0.5, 1: 0.3, 2: 0.2}
    mapped_first = conditioned(imaged(law, lambda k: k % 2), (0,))
    conditioned_first = imaged(conditioned(law, (0, 1)), lambda k: k % 2)
    assert mapped_first != conditioned_first


def taxi(scale: float) -> Tree:
    sizes = (43, 61, 1, 69, 69, 20)
    zones = [263 + number for number, size in enumerate(sizes) for _ in range(size)]
    law = DiscreteLaplaceLaw(scale)
    return Tree((*zones, *[269] * 6, -1), (law,) * 270)


@pytest.mark.parametrize(
    ("scale", "city", "boroughs", "zones"),
    [
        (2.0, 0.0072, 0.0398, 1.946),
        (0.5, 0.0019, 0.0102, 0.487),
        pytest.param(1.0, 0.0032, 0.0202, 0.973, marks=pytest.mark.slow),
    ],
)
def test_taxi_zones_by_imaging(scale: float, city: float, boroughs: float, zones: float) -> None:
    """How far counts of each level are off together, divided by 270, as a reference found for
    continuous noise; of 200 draws, within 6 standard errors and those of the reference."""
    noise = Imaged(taxi(scale))
    random = np.random.default_rng(5)
    drawn = np.array([noise.moved(random.laplace(0, scale, 270)) for _ in range(200)])
    off = np.abs(drawn)
    assert np.abs(drawn[:, 269] - drawn[:, 263:269].sum(axis=1)).max() < 1e-6
    for found, expected in (
        (off[:, 269], city),
        (off[:, 263:269].sum(axis=1), boroughs),
        (off[:, :263].sum(axis=1), zones),
    ):
        error = found.std() / 270 / math.sqrt(200)
        assert abs(found.mean() / 270 - expected) < 8 * error


@pytest.mark.parametrize("root", [EXACT, DiscreteLaplaceLaw(1.0)])
def test_whole_numbers_are_right_on_average(root: NoiseLaw) -> None:
    """Over all u the expectation is the value itself, every count is less than 1 off, and what is
    exact is 0."""
    law = DiscreteLaplaceLaw(2.0)
    tree = Tree((5, 5, 6, 6, 6, 7, 7, -1), (law,) * 5 + (law, EXACT, root))
    noise = Imaged(tree)
    real = noise.draw_real()
    steps = 2_000
    total = np.zeros(5)
    for step in range(steps):
        found = noise.rounded(real, (step + 0.5) / steps)
        sums = tree.sums(found)
        assert np.abs(np.array(sums) - real).max() < 1
        assert sums[6] == 0
        assert root.scale or sums[7] == 0
        total += found
    assert total / steps == pytest.approx(real[:5], abs=2 / steps)


def test_equal_noise_under_one_total_is_moved_alike() -> None:
    """e − mean e: of variance 1 − 1/n of that of e."""
    law = DiscreteLaplaceLaw(3.0)
    noise = Imaged(Tree((3, 3, 3, -1), (law, law, law, EXACT)))
    moved = noise.moved(np.array([5.0, -2.0, 0.0, 0.0]))
    assert moved == pytest.approx([4.0, -3.0, -1.0, 0.0])
    assert sum(noise.draw()) == 0


def test_what_cannot_be_moved() -> None:
    law = DiscreteLaplaceLaw(3.0)
    with pytest.raises(FeatureNotSupported):
        Imaged(Tree((1, -1), (law, None)))
    assert Imaged(Tree((1, -1), (EXACT, EXACT))).draw() == [0]
