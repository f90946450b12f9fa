"""Confidence sequences hold at all looks together, whatever the next look is chosen by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    NoiseLaw,
    confidence_sequence,
)
from tests.pairs import one_in

CONFIDENCES = [Fraction(1, 2), Fraction(95, 100), Fraction(99, 100)]
DEVIATIONS = 5.2  # of the normal law: 10⁻⁷ on one side
LAPLACE, GAUSSIAN = DiscreteLaplaceLaw, DiscreteGaussianLaw


def masses(law: NoiseLaw, reach: int) -> np.ndarray:
    """Straight from the definition."""
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    exponents = -np.abs(k) / law.scale
    if isinstance(law, DiscreteGaussianLaw):
        exponents = -(k**2) / (2 * law.scale**2)
    weights = np.exp(exponents)
    return weights / weights.sum()


def holds(
    laws: list[NoiseLaw], answers: np.ndarray, confidence: Fraction, contents: Sequence[int] = ()
) -> np.ndarray:
    """Whether each row's interval holds 0."""
    low, high = np.array(confidence_sequence(laws, answers.tolist(), confidence, contents)).T
    return (low <= 0) & (high >= 0)


FINER_IF_LARGE: dict[str, Callable[[int], NoiseLaw]] = {
    "much finer where the first is large": lambda y: LAPLACE(0.1 if abs(y) > 4 else 3.0),
    "coarser where the first is large": lambda y: LAPLACE(9.0 if abs(y) > 4 else 1.0),
    "gaussian where the first is positive": lambda y: GAUSSIAN(2.0) if y > 0 else LAPLACE(2.0),
}


@pytest.mark.parametrize(("name", "confidence"), one_in(2, product(FINER_IF_LARGE, CONFIDENCES)))
def test_two_looks_hold_together_by_exact_probabilities(name: str, confidence: Fraction) -> None:
    reach, first, choose = 60, LAPLACE(2.0), FINER_IF_LARGE[name]
    k = np.arange(-reach, reach + 1)
    held = 0.0
    at_first = holds([first], k[:, None], confidence)
    for y, chance, both in zip(k.tolist(), masses(first, reach), at_first, strict=True):
        second = choose(y)
        pairs = np.stack([np.full_like(k, y), k], axis=1)
        then = holds([first, second], pairs, confidence)
        held += chance * float(both) * float(masses(second, reach)[then].sum())
    assert held >= confidence - 1e-9


@pytest.mark.parametrize(("first", "confidence"), one_in(2, product([1, 3], CONFIDENCES)))
def test_looks_at_multiples_hold_together_by_exact_probabilities(
    first: int, confidence: Fraction
) -> None:
    """Which multiple is asked next is chosen by the first answer."""
    reach, laws = 60, [LAPLACE(2.0), LAPLACE(3.0)]
    k = np.arange(-reach, reach + 1)
    held = 0.0
    at_first = holds(laws[:1], k[:, None], confidence, [first])
    for y, chance, both in zip(k.tolist(), masses(laws[0], reach), at_first, strict=True):
        pairs = np.stack([np.full_like(k, y), k], axis=1)
        then = holds(laws, pairs, confidence, [first, 20 if abs(y) > 3 else 2])
        held += chance * float(both) * float(masses(laws[1], reach)[then].sum())
    assert held >= confidence - 1e-9


def brute_force(
    laws: list[NoiseLaw], answers: list[int], level: float, contents: list[int]
) -> list[int]:
    """θ with Σ_t p_0(y_0 − c_0 t) ∏_{i>0} p_i(y_i − c_i t) / p_i(y_i − c_i θ) ≤ Z / β."""
    reach = 600
    t = np.arange(-reach, reach + 1)
    each = []
    for law, y, c in zip(laws, answers, contents, strict=True):
        away = reach * c + abs(y)
        logs = np.log(np.maximum(masses(law, away), 1e-300))
        each.append(logs[y - c * t + away])
    later = np.sum(each[1:], axis=0)
    total = float(np.exp(each[0] + later).sum() / np.exp(each[0]).sum())
    return t[later >= math.log(total * level)].tolist()


@pytest.mark.parametrize(
    ("laws", "answers", "contents"),
    [
        ([LAPLACE(20.0), LAPLACE(20.0)], [5, -30], [1, 1]),
        ([LAPLACE(20.0), LAPLACE(20.0)], [5, -30], [1, 3]),
        ([LAPLACE(90.0), LAPLACE(20.0)], [40, -30], [4, 1]),
        ([GAUSSIAN(40.0), LAPLACE(30.0), GAUSSIAN(9.0)], [70, 12, -9], [7, 5, 1]),
        ([LAPLACE(1.0), LAPLACE(1.0)], [70, 12], [7, 1]),
        ([LAPLACE(20.0), LAPLACE(3.0), LAPLACE(2.0)], [60, 1, -4], [1] * 3),
        ([GAUSSIAN(20.0), GAUSSIAN(30.0), GAUSSIAN(15.0)], [-10, 40, 12], [1] * 3),
        ([GAUSSIAN(9.0), LAPLACE(2.0), GAUSSIAN(1.0), LAPLACE(1.5)], [0, 0, 1, 1], [1] * 4),
        ([LAPLACE(5.0)] * 30, list(range(-15, 15)), [1] * 30),
    ],
)
def test_the_interval_is_that_of_the_definition(
    laws: list[NoiseLaw], answers: list[int], contents: list[int]
) -> None:
    level = Fraction(7, 8) * Fraction(1, 20) / 2
    alone, content = laws[0].half_width(1 - level), contents[0]
    low = math.ceil((answers[0] - alone) / content)
    high = math.floor((answers[0] + alone) / content)
    for seen in range(2, len(laws) + 1):
        likely = brute_force(laws[:seen], answers[:seen], float(level), contents[:seen])
        low, high = max(low, likely[0]), min(high, likely[-1])
    ((found_low, found_high),) = confidence_sequence(laws, [answers], Fraction(95, 100), contents)
    assert found_low <= low
    assert found_high >= high
    assert found_high - found_low <= (high - low) * 1.05 + 2


@pytest.mark.parametrize(
    ("laws", "answers", "contents"),
    [
        ([LAPLACE(20.0)] * 4, [0, 0, 70, -70], [1] * 4),
        ([LAPLACE(20.0)] * 4, [0, 0, 140, -210], [1, 1, 2, 3]),
        ([GAUSSIAN(20.0)] * 3, [0, 30, -40], [1] * 3),
        ([LAPLACE(90.0), LAPLACE(5.0), GAUSSIAN(4.0), LAPLACE(4.0)], [8, 3, -9, 12], [1] * 4),
    ],
)
def test_a_later_answer_makes_no_interval_wider(
    laws: list[NoiseLaw], answers: list[int], contents: list[int]
) -> None:
    """Nor does it matter whether what the earlier answers gave is kept or computed again."""
    confidence = Fraction(95, 100)
    kept = confidence_sequence(laws[:1], [answers[:1]], confidence, contents[:1])
    for seen in range(2, len(laws) + 1):
        before, sofar = kept, (laws[:seen], [answers[:seen]], confidence, contents[:seen])
        kept = confidence_sequence(*sofar, known=seen - 1, before=before)
        assert kept == confidence_sequence(*sofar)
        assert before[0][0] <= kept[0][0] <= kept[0][1] <= before[0][1]


def test_intervals_that_do_not_meet_give_way_to_the_latest() -> None:
    laws: list[NoiseLaw] = [LAPLACE(3.0), LAPLACE(0.1), LAPLACE(0.1)]
    answers = [0, 1000, 1000]
    for seen in (2, 3):
        ((low, high),) = confidence_sequence(laws[:seen], [answers[:seen]], Fraction(95, 100))
        assert 990 < low <= 1000 <= high < 1010
    ((low, high),) = confidence_sequence([LAPLACE(0.1)], [[7]], Fraction(95, 100), [20])
    assert (low, high) == (0, 1)


def test_far_from_zero_nothing_is_lost() -> None:
    laws: list[NoiseLaw] = [LAPLACE(3.0), LAPLACE(2.0), GAUSSIAN(1.0)]
    near, far = (
        confidence_sequence(laws, [[o + 4, o - 2, o]], Fraction(95, 100))[0] for o in (0, 10**30)
    )
    assert (far[0] - 10**30, far[1] - 10**30) == near


def drawn(law: NoiseLaw, size: int, rng: np.random.Generator) -> np.ndarray:
    reach = math.ceil(40 * max(law.scale, 1))
    return rng.choice(np.arange(-reach, reach + 1), size, p=masses(law, reach))


@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_six_looks_hold_where_each_is_chosen_by_the_last(confidence: Fraction) -> None:
    """Finer noise as long as the answers look like 0, and stop once the interval leaves 0 out."""
    rng, runs = np.random.default_rng(), 2000
    histories = {(): np.zeros((runs, 0), dtype=np.int64)}
    for look in range(6):
        grown: dict[tuple[NoiseLaw, ...], list[np.ndarray]] = {}
        for laws, answers in histories.items():
            looks_like_zero = np.abs(answers.sum(axis=1)) < 12
            for fine in (False, True):
                chosen = answers[looks_like_zero == fine]
                law = LAPLACE(4.0 / (look + 1)) if fine else GAUSSIAN(8.0)
                fresh = np.column_stack([chosen, drawn(law, len(chosen), rng)])
                if len(fresh):
                    grown.setdefault((*laws, law), []).append(fresh)
        histories = {laws: np.concatenate(parts) for laws, parts in grown.items()}
        histories = {
            laws: answers[holds(list(laws), answers, confidence)]
            for laws, answers in histories.items()
        }
    held = sum(map(len, histories.values()))
    allowed = DEVIATIONS * math.sqrt(runs * float(confidence * (1 - confidence)))
    assert held >= runs * confidence - allowed


def test_a_coarse_first_answer_spoils_nothing() -> None:
    rng = np.random.default_rng()
    fine: list[NoiseLaw] = [LAPLACE(5.0)] * 4
    answers = np.column_stack([drawn(law, 200, rng) for law in fine])
    coarse = np.column_stack([rng.integers(-(10**9), 10**9, 200), answers])
    alone = np.diff(confidence_sequence(fine, answers.tolist(), Fraction(95, 100)))
    after = np.diff(confidence_sequence([LAPLACE(1e9), *fine], coarse.tolist(), Fraction(95, 100)))
    assert after.mean() <= 1.6 * alone.mean()


def test_it_is_one_of_noisy_answers() -> None:
    for laws, confidence in (([], 0.95), ([LAPLACE(0.0)], 0.95), ([LAPLACE(1.0)], 1.0)):
        with pytest.raises(InvalidParameterValue):
            confidence_sequence(laws, [[0] * len(laws)], Fraction(confidence))
