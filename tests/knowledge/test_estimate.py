"""When one estimate improves on another, when both have one law, and what is reported of one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, Noises
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights, improves
from tallyveil.knowledge.answers.known import Known, total
from tests.pairs import one_in

CONFIDENCE = Fraction(95, 100)


def _estimate(rng: np.random.Generator) -> Estimate:
    """Of one noise or several, of either law."""
    number = int(rng.integers(1, 12))
    law = rng.choice([DiscreteLaplaceLaw, DiscreteGaussianLaw])
    noises = Noises.of(law, rng.choice([2.0, 20.0, 60.0], number))
    weights = NoiseWeights(rng.normal(size=number) / number, noises)
    return Estimate(0.0, np.arange(number), weights)


@pytest.mark.parametrize("seed", one_in(3, range(60)))
def test_an_estimate_of_less_variance_improves_unless_its_interval_is_wider(seed: int) -> None:
    new, reported = (_estimate(np.random.default_rng([seed, n])) for n in range(2))
    better = new.variance < reported.variance
    no_wider = new.weights.error.half_width(CONFIDENCE) <= reported.half_width(CONFIDENCE)
    assert improves(new, reported, None, CONFIDENCE) == (better and no_wider)


@pytest.mark.parametrize("factor", [1.0, 3.0, 0.1, 7 / 3])
def test_weights_that_are_a_multiple_but_for_rounding_share_a_law(factor: float) -> None:
    rng = np.random.default_rng(5)
    noises = Noises.of(DiscreteLaplaceLaw, np.full(20, 20.0))
    sizes = np.append(np.ones(19), 1e-6)
    others = [NoiseWeights(rng.normal(size=20) * sizes, noises) for _ in range(3)]
    rounding = 1 + 2e-13 * rng.uniform(-1, 1, 20)
    values = others[1].values * rounding + 1e-15 * rng.uniform(-1, 1, 20)
    own = NoiseWeights(values * factor, noises)
    shared = own.as_multiple(others)
    assert shared.values is own.values
    assert own.unit != others[1].unit
    assert shared.half_width(CONFIDENCE) == pytest.approx(
        factor * others[1].half_width(CONFIDENCE), rel=1e-12
    )
    assert shared.unit == others[1].unit


@pytest.mark.parametrize("seed", range(5))
def test_weights_in_another_order_and_with_other_signs_share_a_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [(DiscreteLaplaceLaw, 20.0), (DiscreteGaussianLaw, 20.0), (DiscreteLaplaceLaw, 7.0)]
    noises = Noises.concatenated([Noises.of(law, np.full(6, scale)) for law, scale in kinds])
    other = NoiseWeights(rng.normal(size=18), noises)
    order = rng.permutation(18)
    changed = -0.3 * (1 + 2e-13 * rng.uniform(-1, 1, 18)) * rng.choice([-1, 1], 18)
    own = NoiseWeights((other.values * changed)[order], noises.take(order))
    assert own.kind == other.kind
    shared = own.as_multiple([other])
    assert shared.unit == other.unit
    assert shared.half_width(CONFIDENCE) == pytest.approx(own.half_width(CONFIDENCE), rel=1e-9)


@pytest.mark.parametrize("off", [1e-9, 1e-3])
def test_weights_of_which_one_differs_keep_a_law_of_their_own(off: float) -> None:
    noises = Noises.of(DiscreteLaplaceLaw, np.full(3, 20.0))
    other = NoiseWeights(np.array([1.0, 0.5, 1e-3]), noises)
    own = NoiseWeights(np.array([1.0, 0.5, 1e-3 * (1 + off)]), noises)
    assert own.as_multiple([other]) is own
    assert own.as_multiple([]) is own


def test_the_weights_of_exact_rows_do_not_distinguish_laws() -> None:
    noises = Noises.of(DiscreteLaplaceLaw, np.array([20.0, 20.0, 0.0]))
    other = NoiseWeights(np.array([1.0, 0.5, 0.25]), noises)
    own = NoiseWeights(np.array([-1.0, 0.5, 0.75]), noises)
    assert own.unit != other.unit
    assert own.as_multiple([other]).unit == other.unit
    assert own.half_width(CONFIDENCE) == other.half_width(CONFIDENCE)


@pytest.mark.parametrize("beside", [[], [Known.with_noise(-3, DiscreteLaplaceLaw(2.0))]])
def test_a_smaller_error_is_never_reported_with_a_wider_interval(beside: list[Known]) -> None:
    """Whatever the fraction of the estimate; and no integer of θ̂ ± h lies outside."""
    widest = 0
    for scale in np.linspace(0.01, 3, 60).tolist():
        weights = NoiseWeights(np.array([scale, scale / 3]), Noises.of(DiscreteLaplaceLaw, [1, 2]))
        widths = set()
        for value in np.linspace(-2, 2, 33).tolist():
            known = total([Known.estimated(Estimate(value, np.array([0, 1]), weights)), *beside])
            half = known.error.half_width(CONFIDENCE)
            reported, low, high = known.interval(CONFIDENCE)
            assert low <= math.ceil(known.value - half)
            assert high >= math.floor(known.value + half)
            assert abs(reported - (low + high) / 2) <= 0.5
            widths.add(high - low)
        assert max(widths) == min(widths) == math.floor(2 * half) >= widest
        widest = max(widths)


@pytest.mark.parametrize("scale", [0.9, 1.1, 1.3, 1.7, 2.3, 2.9])
def test_an_interval_does_not_depend_on_the_last_digits_of_the_estimate(scale: float) -> None:
    """Another process adds in another order, and an estimate may be a whole number."""
    weights = NoiseWeights(np.array([scale]), Noises.of(DiscreteLaplaceLaw, [2.0]))
    found = {
        Known.estimated(Estimate(value, np.array([0]), weights)).interval(CONFIDENCE)
        for whole in (933.0, 933.5)
        for value in (whole, math.nextafter(whole, 0), math.nextafter(whole, math.inf))
    }
    assert len(found) == 2
