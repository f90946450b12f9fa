"""The least purchase beside a history: it meets the target, and a little less would not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import (
    LAWS,
    DiscreteLaplaceLaw,
    ErrorLaw,
    NoiseLaw,
    Noises,
    combined,
    top_up,
)
from tests.inference.exact import best_combination


def known(*scales: float) -> ErrorLaw:
    return ErrorLaw(np.full(len(scales), 0.7), Noises.of(DiscreteLaplaceLaw, list(scales)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("history", [(20.0, 31.0, 12.0), (100.0, 150.0)])
@pytest.mark.parametrize(("half_width", "confidence"), [(40, 0.95), (25.3, 0.8)])
def test_the_target_is_met_and_hardly_more(
    law: type[NoiseLaw], history: tuple[float, ...], half_width: float, confidence: float
) -> None:
    before = known(*history)
    bought = top_up(before, half_width, confidence, law)
    assert bought is not None
    together, by_itself = combined(before, law, bought), law(bought)
    assert min(one.half_width(confidence) for one in (together, by_itself)) <= half_width
    assert combined(before, law, bought * 1.001).half_width(confidence) > half_width
    bounded = top_up(before, half_width, confidence, law, rough=True)
    assert bounded is not None
    bound = combined(before, law, bounded).outer_half_width(confidence)
    assert min(bound, law(bounded).half_width(confidence)) <= half_width
    assert bounded <= bought
    alone = top_up(None, half_width, confidence, law)
    assert alone is not None
    assert bought >= alone
    if len(history) == 3:
        assert bought > 1.05 * alone


def test_sampled_the_combination_covers() -> None:
    """200,000 samples at 0.9: the share covered misses by 0.0035 once in 10⁷ (five deviations)."""
    history = (20.0, 31.0, 12.0)
    bought = top_up(known(*history), 30, 0.9)
    assert bought is not None
    rng = np.random.default_rng()
    n = 200_000

    def noise(scale: float) -> np.ndarray:
        p = -math.expm1(-1 / scale)
        return rng.geometric(p, n) - rng.geometric(p, n)

    before = 0.7 * sum(noise(scale) for scale in history)
    variances = known(*history).variance, DiscreteLaplaceLaw(bought).variance
    weight = variances[0] / sum(variances)
    error = (1 - weight) * before + weight * noise(bought)
    assert np.mean(np.abs(error) <= 30) == pytest.approx(0.9, abs=0.0035 + 0.002)


def test_it_is_the_best_combination_of_all_answers() -> None:
    """The purchase joins the history: best combinations have the same weights."""
    h = sparse.csr_matrix([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [1, 0, 0]])
    query = np.array([1, 0, 0])
    noises = Noises.of(DiscreteLaplaceLaw, [9.0, 5.0, 7.0, 12.0])
    weights = best_combination(h[:4], noises.variances, query)
    assert weights is not None
    before = ErrorLaw(weights, noises)
    bought = top_up(before, 10, 0.95)
    assert bought is not None
    everything = Noises.of(DiscreteLaplaceLaw, [*noises.scales, bought])
    after = best_combination(h, everything.variances, query)
    assert after is not None
    error = ErrorLaw(after, everything)
    together = combined(before, DiscreteLaplaceLaw, bought)
    assert error.variance == pytest.approx(together.variance, rel=1e-9)
    assert error.half_width(0.95) <= 10 * (1 + 1e-9)


def test_without_history_it_is_the_plain_purchase() -> None:
    for half_width in (0, 3, 60):
        alone = DiscreteLaplaceLaw.scale_for_half_width(half_width, 0.95)
        assert top_up(None, half_width, 0.95) == alone


def test_nothing_is_bought_where_history_suffices() -> None:
    assert top_up(known(2.0), 20, 0.95) is None
    assert top_up(ErrorLaw(np.zeros(1), Noises.of(DiscreteLaplaceLaw, [3.0])), 0, 0.99) is None


def test_a_history_that_nearly_suffices_leaves_little_to_buy() -> None:
    before = known(20.0, 31.0, 12.0)
    enough = before.half_width(0.95)
    scales = []
    for share in (0.999, 0.99, 0.9, 0.5):
        bought = top_up(before, share * enough, 0.95)
        assert bought is not None
        scales.append(bought)
    assert scales == sorted(scales, reverse=True)
    assert scales[0] > 5 * DiscreteLaplaceLaw.scale_for_half_width(round(enough), 0.95)


def test_what_makes_no_sense_is_refused() -> None:
    for half_width in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameterValue):
            top_up(None, half_width, 0.9)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidParameterValue):
            top_up(known(3.0), 2, confidence)
