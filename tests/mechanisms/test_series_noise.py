"""Series: the law of their noise by brute force, that it is private, and that it is drawn."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest
from mpmath import exp as mp_exp
from mpmath import mp, mpf

from tallyveil.mechanisms.records import ClampedLaplace, SeriesNoise
from tallyveil.mechanisms.records.record_response import DRAWS
from tallyveil.mechanisms.records.series_noise import geometric, type_b_eulerian
from tallyveil.sanitise import least_error
from tests.goodness import surprise

FloatArray = npt.NDArray[np.float64]


def noise(law: SeriesNoise, reach: int) -> FloatArray:
    """P(U = u) for all u within ``reach`` of nought, by the definition."""
    u = np.arange(-reach, reach + 1)
    norm = np.max(np.abs(np.meshgrid(*[u] * law.times, indexing="ij")), axis=0)
    chances: FloatArray = np.exp(-norm / law.scale)
    return chances / chances.sum()


def matrix(law: SeriesNoise) -> FloatArray:
    """P[y, x] of all series x, missing values included, summing up what is cut off at the ends."""
    reach, last = round((20 if law.times == 3 else 40) * law.scale), law.size - 2
    chances = noise(law, reach)
    u = np.arange(-reach, reach + 1)
    shape = (law.size,) * law.times
    kept = law.flag.kept / DRAWS
    missing_output = law.cells - 1
    found = np.zeros((law.cells, law.cells))
    for code, series in enumerate(product(range(law.size), repeat=law.times)):
        missing = law.size - 1 in series
        around = (law.middle,) * law.times if missing else series
        moved = np.meshgrid(*(np.clip(u + x, 0, last) for x in around), indexing="ij")
        outputs = np.ravel_multi_index(tuple(m.ravel() for m in moved), shape)
        own = np.bincount(outputs, chances.ravel(), minlength=law.cells)
        found[:, code] = (1 - kept if missing else kept) * own
        found[missing_output, code] += kept if missing else 1 - kept
    return found


@pytest.mark.parametrize(("times", "size"), [(1, 2), (1, 5), (2, 3), (2, 5), (2, 6)])
@pytest.mark.parametrize("epsilon", [Fraction(2, 3), Fraction(1), Fraction(6)])
def test_any_two_series_are_told_apart_by_epsilon(times: int, size: int, epsilon: Fraction) -> None:
    law = SeriesNoise(times, size, epsilon)
    if law.scale == 0:
        assert law.expected_error == law.flag.change / DRAWS
        return
    p = matrix(law)
    assert p.sum(axis=0) == pytest.approx(1)
    reached = p[p.max(axis=1) > 0]
    assert (reached > 0).all()
    assert len(reached) == law.values
    ratios = reached[:, :, None] / reached[:, None, :]
    assert ratios.max() <= math.exp(epsilon) * (1 + 1e-6)
    assert ratios.max() >= math.exp(epsilon) * 0.6


@pytest.mark.parametrize(("times", "size"), [(1, 5), (2, 5), (2, 8), (3, 3)])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(6)])
def test_the_error_is_no_larger_than_it_says(times: int, size: int, epsilon: Fraction) -> None:
    law = SeriesNoise(times, size, epsilon)
    p = matrix(law)
    series = np.array(list(product(range(size), repeat=times)))
    missing = (series == size - 1).any(axis=1)
    far = np.abs(series[:, None] - series[None]).max(axis=2).astype(float)
    far[missing[:, None] | missing[None]] = law.diameter
    far[missing[:, None] & missing[None]] = 0
    errors = (far * p).sum(axis=0)
    assert least_error(law.values, law.diameter, epsilon) <= errors.max()
    assert errors.max() <= law.expected_error * (1 + 1e-6)
    assert law.expected_error <= 1.5 * errors.max()


def test_of_many_series_the_error_is_a_number() -> None:
    assert SeriesNoise(12, 26, Fraction(1, 10**9)).expected_error == pytest.approx(24, rel=1e-6)
    assert SeriesNoise(9, 90, Fraction(10**6)).expected_error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_how_far_off_each_time_and_the_worst_are(times: int) -> None:
    """(k+1)b/2 and kb for large b. 20,000 draws, of a standard deviation below (k+1)b each: a mean
    within 6 standard errors, false alarm below 10⁻⁸.
    """
    law = SeriesNoise(times, 102, Fraction(1, 10))
    deviations = np.abs(law._noise(20_000))
    room = 6 * (times + 1) * law.scale / math.sqrt(20_000)
    assert deviations[0].mean() == pytest.approx((times + 1) / 2 * law.scale, abs=room)
    assert deviations.max(axis=0).mean() == pytest.approx(times * law.scale, abs=room)


@pytest.mark.parametrize(("times", "epsilon"), [(1, "1/2"), (4, "3"), (12, "1"), (20, "4000")])
def test_the_scale_leaves_room_for_what_is_rounded(times: int, epsilon: str) -> None:
    """1/b ≤ ε/2h with the room that the docstring counts on, exactly; and never much more noise."""
    law = SeriesNoise(times, 7, Fraction(epsilon))
    rate, asked = 1 / Fraction(law.scale), Fraction(epsilon) / 6
    assert rate <= min(asked * (1 - Fraction(1, 2**53)), Fraction(45))
    assert rate >= min(asked, Fraction(45)) * (1 - Fraction(1, 2**50))


@pytest.mark.parametrize("k", [1, 2, 3, 7, 12])
def test_numbers_of_type_b(k: int) -> None:
    """Σ_m B(k,m) C(r+k−m, k) = (2r+1)^k for all r: the identity that the drawing stands on."""
    numbers = type_b_eulerian(k)
    assert sum(numbers) == 2**k * math.factorial(k)
    for r in range(3 * k):
        total = sum(b * math.comb(r + k - m, k) for m, b in enumerate(numbers) if r >= m)
        assert total == (2 * r + 1) ** k


@pytest.mark.parametrize(("times", "epsilon"), [(1, "1"), (3, "1/7"), (12, "5"), (24, "900")])
def test_the_weights_of_m_are_near_enough(times: int, epsilon: str) -> None:
    """Relative to B(k,m) e^{−m/b} in 400 bits, up to a factor that is the same for all m."""
    law = SeriesNoise(times, 4, Fraction(epsilon))
    sums = [0, *law._weights]
    weights = [b - a for a, b in pairwise(sums)]
    with mp.workprec(400):
        exact = [
            mpf(b) * mp_exp(-mpf(m) / mpf(law.scale)) for m, b in enumerate(type_b_eulerian(times))
        ]
        common = mpf(weights[0]) / exact[0]
        for weight, own in zip(weights, exact, strict=True):
            assert abs(mpf(weight) / (own * common) - 1) < mpf(2) ** -170


@pytest.mark.parametrize("scale", [1 / 45, 0.4, 3.0])
def test_a_geometric_draw(scale: float) -> None:
    """Chi-square at 10⁻⁶."""
    a = math.exp(-1 / scale)
    law = {g: (1 - a) * a**g for g in range(100)}
    assert surprise(geometric(scale, 20_000).tolist(), law) > 1e-6


# Chi-square with 10⁻⁶ of false alarm at each of five cases.
@pytest.mark.parametrize(
    ("times", "size", "code"), [(1, 6, 1), (2, 5, 0), (2, 5, 7), (2, 5, 24), (3, 3, 14)]
)
def test_what_is_drawn_has_the_law(times: int, size: int, code: int) -> None:
    law = SeriesNoise(times, size, Fraction(2))
    expected = dict(enumerate(matrix(law)[:, code].tolist()))
    found = law.perturb(np.full(20_000, code, dtype=np.int64)).tolist()
    assert all(expected[output] for output in found)
    assert surprise(found, expected) > 1e-6


def test_one_time_is_one_number() -> None:
    """A series of one time is `ClampedLaplace`, but for the scale's last digits."""
    series, number = SeriesNoise(1, 9, Fraction(2)), ClampedLaplace(9, Fraction(2))
    assert series.scale == pytest.approx(number.scale, rel=1e-14)
    assert number.expected_error <= series.expected_error
    assert (series.values, series.diameter) == (number.values, number.diameter)


@pytest.mark.parametrize(("times", "size"), [(0, 5), (2, 1), (60, 2), (1, 2**41)])
def test_what_is_no_series(times: int, size: int) -> None:
    with pytest.raises(ValueError, match="series"):
        SeriesNoise(times, size, Fraction(1))
