"""What every registered mechanism must do, whichever it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import logsumexp

from tallyveil.boundary import TrueAnswer, issue_receipt
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, ReceiptError
from tallyveil.mechanisms import (
    Adjacency,
    CountMechanism,
    DiscreteLaplace,
    Measure,
    Mechanism,
    family_of,
    mechanism,
    mechanism_names,
)
from tallyveil.mechanisms.registry import register
from tallyveil.workload.workload import Column, Workload
from tests.goodness import surprise

Floats = npt.NDArray[np.float64]
ADD_REMOVE = Adjacency("add_remove")
KEY = b"key"

# Logarithms of the probabilities up to a constant, straight from the definitions.
LOGARITHMS: dict[str, Callable[[Floats, float], Floats]] = {
    "laplace": lambda k, b: -np.abs(k) / b,
    "geometric": lambda k, b: np.abs(k) * math.log(math.exp(-1 / b)),
    "gaussian": lambda k, sigma: -(k**2) / (2 * sigma**2),
}

# Those with a public range have their laws in test_count_mechanisms.
IN_RANGE = [
    "truncated_geometric(n=6)",
    "fair(n=1)",
    "weakly_honest(n=4)",
    "designed(n=5, properties=cm+s, objective=l1, over=max)",
]

ADDITIVE = pytest.mark.parametrize(
    "noise", [mechanism(n) for n in LOGARITHMS], ids=lambda m: m.name
)
EVERY = pytest.mark.parametrize(
    "noise", [mechanism(n) for n in (*LOGARITHMS, *IN_RANGE)], ids=lambda m: m.name
)


def test_every_mechanism_is_tested() -> None:
    assert {*LOGARITHMS, *map(family_of, IN_RANGE)} == set(mechanism_names())


def law(noise: Mechanism, scale: float, reach: int) -> tuple[Floats, Floats]:
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(LOGARITHMS[noise.name](k, scale))
    return k, weights / weights.sum()


def moving(*steps: int) -> Workload:
    """One column, that one kind of record moves by ``steps`` and another not at all."""
    rows = np.flatnonzero(steps)
    moves = np.array(steps, dtype=np.int64)[rows]
    return Workload("t", (Column.joint(("a",), (2,), len(steps), rows, 0 * rows, moves),))


def release(noise: Mechanism, values: list[int], scale: float) -> tuple[int, ...]:
    (noisy,) = noise.release(TrueAnswer(KEY, [values]), issue_receipt(1, KEY, [scale]))
    return noisy


@ADDITIVE
@pytest.mark.parametrize("scale", [0.4, 20.0])
def test_the_noise_has_its_law_and_no_bias(noise: Mechanism, scale: float) -> None:
    """χ² on 40,000 draws, and their mean within 6 deviations; a sound sampler fails either once
    in 10⁸ runs.
    """
    draws = 40_000
    k, chance = law(noise, scale, math.ceil(40 * scale) + 40)
    drawn = np.array(release(noise, [1000] * draws, scale)) - 1000
    assert surprise(drawn.tolist(), dict(zip(k.tolist(), chance.tolist(), strict=True))) > 1e-8
    assert noise.law(scale).variance == pytest.approx(float((k**2 * chance).sum()), rel=1e-9)
    assert abs(float(drawn.mean())) < 6 * math.sqrt(noise.law(scale).variance / draws)


@ADDITIVE
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_its_interval_is_the_least_that_holds(
    noise: Mechanism, scale: float, confidence: float
) -> None:
    k, chance = law(noise, scale, math.ceil(60 * scale) + 40)
    half = noise.law(scale).half_width(confidence)
    assert chance[np.abs(k) <= half].sum() >= confidence - 1e-12
    assert half == 0 or chance[np.abs(k) < half].sum() < confidence
    widest = noise.scale_for_half_width(half, confidence)
    assert widest >= scale * (1 - 1e-9)
    assert noise.law(widest).half_width(confidence) == half
    assert noise.law(widest * (1 + 1e-6)).half_width(confidence) > half


@ADDITIVE
@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_the_cost_in_epsilon_bounds_every_ratio(noise: Mechanism, scale: float) -> None:
    if noise.needs_delta:
        with pytest.raises(FeatureNotSupported, match=noise.name):
            noise.loss(moving(1), [scale], ADD_REMOVE, "epsilon")
        return
    for step in (1, 3):
        charged = noise.loss(moving(step), [scale], ADD_REMOVE, "epsilon").bound / 1e12
        _, chance = law(noise, scale, 60)
        ratios = np.log(chance[step:] / chance[: len(chance) - step])
        assert np.abs(ratios).max() <= charged * (1 + 1e-9) + 1e-11


@ADDITIVE
@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_the_cost_in_rho_bounds_the_renyi_divergence(noise: Mechanism, scale: float) -> None:
    """D_a(P ‖ Q) ≤ aρ for several orders a, of one output and of two that move together."""
    k = np.arange(-400.0, 401.0)
    for step in (1, 2):
        one = noise.loss(moving(step), [scale], ADD_REMOVE, "rho").bound / 1e12
        two = noise.loss(moving(step, step), [scale], ADD_REMOVE, "rho").bound / 1e12
        for order in (1.0001, 1.5, 2.0, 8.0, 64.0):
            # ln Σ P^a Q^(1−a) / (a − 1), with P and Q given by their logarithms.
            p, q = LOGARITHMS[noise.name](k, scale), LOGARITHMS[noise.name](k - step, scale)
            divergence = (logsumexp(order * p + (1 - order) * q) - logsumexp(p)) / (order - 1)
            assert divergence <= order * one * (1 + 1e-9) + 1e-9
            # Divergences of independent outputs add up.
            assert 2 * divergence <= order * two * (1 + 1e-9) + 1e-9


@EVERY
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_it_costs_what_was_asked_and_not_more(noise: Mechanism, measure: Measure) -> None:
    if noise.needs_delta and measure == "epsilon":
        with pytest.raises(FeatureNotSupported):
            noise.scales_for(moving(1), "0.1", ADD_REMOVE, measure)
        return
    for workload in (moving(1), moving(3, -4), moving(1, 1, 1)):
        if noise.unfit(workload):
            with pytest.raises(FeatureNotSupported, match="counts only"):
                noise.scales_for(workload, "0.1", ADD_REMOVE, measure)
            continue
        for relation in (ADD_REMOVE, Adjacency("add_remove", 3), Adjacency("replace")):
            for cost in ("0.1", "0.000001", "7"):
                scales = noise.scales_for(workload, cost, relation, measure)
                bound = noise.loss(workload, scales, relation, measure).bound
                budget = Fraction(cost) * 10**12
                assert budget * (1 - Fraction(1, 10**9)) - 1 <= bound <= budget


@EVERY
@pytest.mark.parametrize("cost", [math.nan, math.inf, -math.inf, 0.0, -0.1, "x", 1e-13])
def test_a_cost_that_is_no_positive_number_is_refused(noise: Mechanism, cost: float) -> None:
    with pytest.raises(InvalidParameterValue, match="rho"):
        noise.scales_for(moving(1), cost, ADD_REMOVE, "rho")


@EVERY
@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0, 0.0, 1e300, 5e-324])
def test_a_scale_that_is_no_positive_number_has_no_cost(noise: Mechanism, scale: float) -> None:
    with pytest.raises(InvalidParameterValue):
        noise.loss(moving(1), [scale], ADD_REMOVE, "rho")


@ADDITIVE
@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0])
def test_a_law_has_a_finite_scale(noise: Mechanism, scale: float) -> None:
    with pytest.raises(InvalidParameterValue):
        noise.law(scale)


@EVERY
def test_a_receipt_is_needed_and_used_up(noise: Mechanism) -> None:
    answer, receipt = TrueAnswer(KEY, [[1]]), issue_receipt(1, KEY, [1.0])
    noise.release(answer, receipt)
    for wrong in (receipt, issue_receipt(2, b"another", [1.0]), issue_receipt(3, KEY, [1.0, 1.0])):
        with pytest.raises(ReceiptError):
            noise.release(answer, wrong)


@EVERY
@pytest.mark.parametrize("scale", [5e-324, 2.0**53, 1e300])
def test_a_scale_that_cannot_be_drawn_leaves_the_answer_sealed(
    noise: Mechanism, scale: float
) -> None:
    receipt = issue_receipt(1, KEY, [scale])
    with pytest.raises(InvalidParameterValue):
        noise.release(TrueAnswer(KEY, [[1]]), receipt)
    assert not receipt._spent


@EVERY
def test_integers_of_any_size_stay_integers(noise: Mechanism) -> None:
    edge = 2**63 - 1
    values = release(noise, [edge] * 200, 20.0)
    if isinstance(noise, CountMechanism):
        assert set(values) <= set(range(noise.n + 1))
    else:
        assert max(values) > edge > min(values)
    assert all(type(value) is int for value in values)
    assert release(noise, [5, 2**70], 0.0) == (5, 2**70)
    assert release(noise, [], 20.0) == ()


@EVERY
def test_its_name_is_what_a_ledger_finds_it_by(noise: Mechanism) -> None:
    assert mechanism(noise.name) == noise
    assert mechanism(noise.name) is mechanism(noise.name)
    assert noise.guarantee


def test_a_name_stands_for_one_mechanism() -> None:
    with pytest.raises(InvalidParameterValue, match="gumbel") as refused:
        mechanism("gumbel")
    assert all(name in str(refused.value) for name in mechanism_names())
    with pytest.raises(ValueError, match="already"):
        register(DiscreteLaplace())


def test_a_half_width_has_the_largest_scale_there_is() -> None:
    assert DiscreteLaplace().scale_for_half_width(2**53 - 1, 0.5) == 2.0**52
