"""The bound on ε is a lower bound, comes near what is true, and finds what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from tallyveil.audit.law import chances_of, drift, lower_bound, surprise
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw

DRAWS = 40_000
SOURCE = np.random.default_rng


def discrete_laplace(scale: float, seed: int, size: int = DRAWS) -> np.ndarray:
    """The difference of two geometric variables: the law by another road than the sampler's."""
    draw = SOURCE(seed)
    chance = -math.expm1(-1 / scale)
    return (draw.geometric(chance, size) - draw.geometric(chance, size)).astype(np.int64)


def law(scale: float):
    """P(K = k) for |k| ≤ 20 scales and some."""
    a, reach = math.exp(-1 / scale), math.ceil(20 * scale) + 5
    return -reach, (1 - a) / (1 + a) * a ** np.abs(np.arange(-reach, reach + 1.0))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_it_is_below_the_truth_and_near_it(epsilon: float) -> None:
    """30 audits at a false alarm rate of 10⁻⁸."""
    for seed in range(30):
        first, second = (discrete_laplace(1 / epsilon, n) for n in (seed, 1000 + seed))
        evidence = lower_bound(first, second + 1, delta=0, false_alarm=1e-8)
        assert evidence.epsilon <= epsilon
        assert evidence.epsilon > 0.6 * epsilon


def test_delta_takes_its_part_of_the_loss() -> None:
    """Randomised response that lies with 1/4 but tells all with 1/100: (ln 3, 1/100)."""
    draw = SOURCE(5)

    def tell(bit: int) -> np.ndarray:
        answer = np.where(draw.random(DRAWS) < 0.75, bit, 1 - bit)
        return np.where(draw.random(DRAWS) < 0.01, 7 + bit, answer).astype(np.int64)

    first, second = tell(0), tell(1)
    assert lower_bound(first, second, delta=0, false_alarm=1e-6).epsilon > 2
    assert lower_bound(first, second, delta=0.01, false_alarm=1e-6).epsilon < math.log(3)


def test_the_same_law_shows_nothing() -> None:
    same = discrete_laplace(3.0, 1)
    assert lower_bound(same, same.copy(), delta=0, false_alarm=1e-6).epsilon == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda k: np.sign(k) * (np.abs(k) // 2),
        lambda k: np.clip(k, -3, 3),
    ],
    ids=["half the noise", "noise cut off"],
)
def test_too_little_noise_is_refuted(wrong) -> None:
    first, second = (wrong(discrete_laplace(1.0, seed)) for seed in (1, 2))
    assert lower_bound(first, second + 1, delta=0, false_alarm=1e-6).epsilon > 1.2


def test_bounds_of_chances_are_those_of_clopper_and_pearson() -> None:
    """An event seen 30 of 50 times against 5: the textbook's quantiles, side by side."""
    first = np.array([1] * 30 + [0] * 20, dtype=np.int64)
    second = np.array([1] * 5 + [0] * 45, dtype=np.int64)
    evidence = lower_bound(
        np.concatenate([first, first]), np.concatenate([second, second]), delta=0, false_alarm=0.02
    )
    low, high = beta.ppf(0.01, 30, 21), beta.ppf(0.99, 6, 45)
    assert evidence.epsilon == pytest.approx(math.log(low / high), rel=1e-12)
    assert evidence.event in ("output ≥ 1", "output = 1")


@pytest.mark.parametrize("scale", [0.3, 2.0, 50.0])
def test_noise_of_its_law_is_no_surprise(scale: float) -> None:
    """20 looks; at 10⁻⁹ each, one run in 5·10⁷ fails."""
    for seed in range(20):
        assert surprise(discrete_laplace(scale, seed), law(scale)) > 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        lambda k: np.clip(k, -6, 6),
        lambda k: k // 2,
        lambda k: np.floor(k + SOURCE(3).uniform(-1, 0.5, len(k))).astype(np.int64),
        lambda k: k + (SOURCE(3).random(len(k)) < 0.1),
        lambda k: np.where(SOURCE(4).random(len(k)) < 0.002, 10**6, k),
    ],
    ids=["cut off", "halved", "rounded down", "biased", "far off now and then"],
)
def test_noise_of_another_law_is_a_surprise(wrong) -> None:
    assert surprise(wrong(discrete_laplace(2.0, 9)), law(2.0)) < 1e-9


@pytest.mark.parametrize("scale", [0.05, 0.4, 1.0, 7.5, 200.0])
def test_a_law_is_read_off_its_characteristic_function(scale: float) -> None:
    for claimed, power in ((DiscreteLaplaceLaw(scale), 1), (DiscreteGaussianLaw(scale), 2)):
        lowest, chances = chances_of(claimed, DRAWS)
        far = math.ceil(60 * scale) + 5
        k = np.arange(-far, far + 1.0)
        weights = np.exp(-(np.abs(k / scale) ** power) / power)
        inside = np.abs(k) <= -lowest
        assert chances == pytest.approx((weights / weights.sum())[inside], rel=1e-9, abs=1e-15)
        assert 1 - chances.sum() <= 1 / DRAWS


def test_a_mean_of_zero_is_told_from_a_little_more() -> None:
    """An error of the first kind has a chance of 10⁻⁹ in each of 20 looks."""
    claimed = DiscreteLaplaceLaw(2.0)
    for seed in range(20):
        noise = discrete_laplace(2.0, seed)
        assert drift(noise, claimed) > 1e-9
        assert drift(noise + (SOURCE(seed).random(DRAWS) < 0.12), claimed) < 1e-9


def test_a_chance_of_a_mean_is_never_understated() -> None:
    """Against the exact chance for one draw: P(|K| ≥ s) = 2aˢ/(1+a)."""
    claimed, a = DiscreteLaplaceLaw(3.0), math.exp(-1 / 3)
    for s in (1, 5, 20, 60):
        exact = 2 * a**s / (1 + a)
        assert exact <= drift(np.array([s], dtype=np.int64), claimed) <= 60 * s * exact


@pytest.mark.parametrize(
    ("sizes", "delta", "false_alarm"),
    [
        ((10, 11), 0, 1e-6),
        ((2, 2), 0, 1e-6),
        ((10, 10), -0.1, 1e-6),
        ((10, 10), math.nan, 1e-6),
        ((10, 10), 0, 0.0),
        ((10, 10), 0, math.nan),
    ],
)
def test_what_cannot_be_audited_is_refused(sizes, delta: float, false_alarm: float) -> None:
    first, second = (np.zeros(size, dtype=np.int64) for size in sizes)
    with pytest.raises(InvalidParameterValue):
        lower_bound(first, second, delta=delta, false_alarm=false_alarm)
