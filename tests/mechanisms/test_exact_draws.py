"""Numbers are drawn from their law exactly: by bounds that hold, and as many bits as it takes."""

from __future__ import annotations

import itertools
import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from tallyveil.mechanisms.noise import exact_draws, gaussian
from tallyveil.mechanisms.noise.exact_draws import WeightTable, geometric
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace, geometric_numbers

TABLES = {
    "digits": (Fraction(1, 10**6), Fraction(0), 256),
    "even digits": (Fraction(1, 10**30), Fraction(0), 16),
    "geometric": (Fraction(1, 7), Fraction(0), None),
    "short": (Fraction(2**30), Fraction(0), None),
    "gaussian": (Fraction(1, 7000), Fraction(2, 7000), None),
    "narrow gaussian": (Fraction(3), Fraction(6), None),
}


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(150):
        yield


def cumulative(exponent: Fraction, change: Fraction, count: int | None) -> list[Any]:
    """The oracle: P(outcome ≤ j), each weight and the sum of them all by mpmath."""
    x, y = (mpmath.mpf(one.numerator) / one.denominator for one in (exponent, change))

    def weight(j: Any) -> Any:
        return mpmath.exp(-(j * x + j * (j - 1) / 2 * y))

    last = 8000 if count is None else count
    weights = list(
        itertools.takewhile(lambda w: w > mpmath.mpf(2) ** -400, map(weight, range(last)))
    )
    total = mpmath.fsum(weights)
    return [one / total for one in itertools.accumulate(weights)]


@pytest.mark.parametrize("law", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("bits", [64, 128, 192])
def test_every_probability_lies_between_its_bounds(law: Any, bits: int) -> None:
    low, high = WeightTable(*law)._bounds(bits)
    chance = cumulative(*law)
    assert len(low) == len(high) <= len(chance) or law[2] is None
    for least, most, exact in zip(low, high, chance, strict=False):
        assert least <= exact * 2**bits < most + 1
        assert most - least <= 2
    # What is beyond all bounds is less likely than can be seen in so many bits.
    assert high[-1] >= 2**bits - 1
    assert low == sorted(low)
    assert high == sorted(high)


class Bits:
    """What the system's source is made to give: the first bits of each U, then the following."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, numbers: Sequence[int], bits: int) -> None:
        """``numbers`` are the U, of so many bits each, in the order in which they are continued."""
        self._words = [
            [number >> (bits - 64 * (i + 1)) & (2**64 - 1) for i in range(bits // 64)]
            for number in numbers
        ]
        self._later = iter([word for words in self._words for word in words[1:]])
        monkeypatch.setattr(exact_draws.os, "urandom", self.urandom)
        monkeypatch.setattr(exact_draws.secrets, "randbits", self.randbits)

    def urandom(self, size: int) -> bytes:
        assert size == 8 * len(self._words)
        return np.array([words[0] for words in self._words], dtype=np.uint64).tobytes()

    def randbits(self, bits: int) -> int:
        assert bits == 64
        return next(self._later)


@pytest.mark.parametrize("law", TABLES.values(), ids=TABLES)
def test_a_uniform_number_that_64_bits_do_not_decide_is_continued(
    monkeypatch: pytest.MonkeyPatch, law: Any
) -> None:
    """Just below and just above C_j, by 2⁻¹⁸⁸."""
    chance = cumulative(*law)
    for j in range(0, min(len(chance) - 1, 60), 7):
        if chance[j + 1] - chance[j] < mpmath.mpf(2) ** -180:
            continue
        for away, outcome in ((-(2**68), j), (2**68, j + 1)):
            number = int(mpmath.floor(chance[j] * 2**256)) + away
            Bits(monkeypatch, [number], 256)
            assert WeightTable(*law).draw(1).tolist() == [outcome]


def test_a_uniform_number_in_the_far_tail_gives_its_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """U = 1 − 2⁻¹⁹²: the first j with a^{j+1} < 2⁻¹⁹², beyond any table of 64 bits."""
    Bits(monkeypatch, [2**192 - 1, 0], 192)
    rate = Fraction(1, 4)
    assert WeightTable(rate).draw(2).tolist() == [math.ceil(192 * math.log(2) * 4) - 1, 0]


@pytest.mark.parametrize(
    "rate", [Fraction(3), Fraction(1, 7), Fraction(1, 256), Fraction(1, 10**6), Fraction(1, 2**105)]
)
def test_the_digits_of_a_geometric_number_have_the_weights_of_what_they_stand_for(
    rate: Fraction,
) -> None:
    """e^{−rate g} for g = Σ d_i R_i + R T is the product of e^{−rate R_i d_i} and e^{−rate R T}."""
    digits, top = exact_draws._digits(rate)
    places = list(itertools.accumulate((base for base, _ in digits), operator.mul, initial=1))
    for place, (base, table) in zip(places, digits, strict=False):
        assert table._law == (rate * place, 0, base)
    assert top._law == (rate * places[-1], 0, None)
    assert rate * places[-1] > Fraction(1, 16)


def test_outcomes_come_as_often_as_their_law_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """With U on a grid instead of random: each outcome as often as points lie in its interval."""
    points = 2**14
    for law in TABLES.values():
        Bits(monkeypatch, [i << 50 | 1 << 49 for i in range(points)], 64)
        seen = np.bincount(WeightTable(*law).draw(points))
        ends = [0, *(math.ceil(float(c * points) - 0.5) for c in cumulative(*law))]
        expected = np.diff(ends)[: len(seen)]
        assert np.abs(seen - expected).max() <= 1
        assert seen.sum() == points


@pytest.mark.parametrize("law", TABLES.values(), ids=TABLES)
def test_many_numbers_have_the_same_outcomes_as_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, law: Any
) -> None:
    """U just below, at and just above every bound, and at both ends."""
    table = WeightTable(*law)
    near = {int(bound) + away for bound in table._high for away in range(-2, 3)}
    numbers = [0, *sorted(n for n in near if 0 <= n < 2**64), 2**64 - 1]
    monkeypatch.setattr(exact_draws, "decided", lambda word, _: -1 - word % 2**32)
    each = []
    for number in numbers:
        Bits(monkeypatch, [number], 64)
        each += table.draw(1).tolist()
    Bits(monkeypatch, numbers, 64)
    assert table.draw(len(numbers)).tolist() == each


def test_a_geometric_number_exceeds_others_with_their_powers() -> None:
    """e^{−n x} of n = 70,000, which has three digits; false alarm below 10⁻⁸."""
    drawn = geometric(Fraction(1, 100_000), 40_000)
    assert abs((drawn >= 70_000).mean() - math.exp(-0.7)) < 6 * 0.5 / 200
    assert (drawn >= 0).all()
    assert not (drawn >= 2**60).any()


@pytest.mark.parametrize("scale", [100.0, 1e6, 1e12, 2.0**52])
def test_noise_of_large_scales_has_the_law_of_its_limit(scale: float) -> None:
    """A sound sampler fails one run in 10⁷. The lattice is finer than 20,000 draws can tell."""
    drawn = np.array([float(k) for k in DiscreteLaplace().draw(scale, 20_000)]) / scale
    jitter = np.random.default_rng(1).random(20_000) - 0.5
    assert kstest(drawn + jitter / scale, "laplace").pvalue > 1e-7
    drawn = np.array([float(k) for k in DiscreteGaussian().draw(scale, 20_000)]) / scale
    assert kstest(drawn + jitter / scale, "norm").pvalue > 1e-7


@pytest.mark.parametrize("draw", [DiscreteLaplace().draw, DiscreteGaussian().draw])
def test_the_lowest_bits_of_large_noise_are_even(draw: Callable[[float, int], Any]) -> None:
    """Each of 8 remainders as often as the others; a sound sampler fails one run in 10⁸."""
    rest = np.bincount([int(k) % 8 for k in draw(2.0**40 + 1, 16_000)], minlength=8)
    assert ((rest - 2_000) ** 2 / 2_000).sum() < 52.0


class Fixed:
    """A table that gives the same outcomes each time."""

    def __init__(self, *outcomes: int) -> None:
        self._outcomes = np.array(outcomes, dtype=np.int64)

    def draw(self, count: int) -> Any:
        return self._outcomes[:count]


def test_noise_beyond_64_bits_does_not_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chance never gives it: T = 2¹⁴ at b = 2⁵² comes with e^{−2¹³}."""
    scale = 2.0**52
    (bases, _), places = exact_draws._digits(1 / Fraction(scale)), 1
    for base, _ in bases:
        places *= base
    fixed = [(base, Fixed(base - 1, 0)) for base, _ in bases], Fixed(2**14, 0)
    with monkeypatch.context() as patch:
        patch.setattr(exact_draws, "_digits", lambda _: fixed)
        assert geometric_numbers(scale, 2).tolist() == [2**14 * places + places - 1, 0]
    assert 2**14 * places > 2**63
    sizes = gaussian._Sizes(scale)
    monkeypatch.setattr(sizes, "_blocks", Fixed(2**17, 1, 1))
    monkeypatch.setattr(gaussian, "geometric", lambda rate, count: np.array([2**200] * count))
    drawn = sorted(map(abs, sizes.draw(3).tolist()))
    assert drawn[-1] >> sizes._bits == 2**17
    assert drawn[-1] > 2**63


def test_a_law_is_drawn_by_many_threads_at_once() -> None:
    """They share its tables: whoever comes first makes them."""
    gaussian._sizes.cache_clear()
    exact_draws._digits.cache_clear()
    found: list[Any] = []

    def draw() -> None:
        found.append(DiscreteGaussian().draw(1e6, 2_000))
        found.append(DiscreteLaplace().draw(1e6, 2_000))

    threads = [threading.Thread(target=draw) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for law, deviation in ((0, 1.0), (1, math.sqrt(2))):
        drawn = np.concatenate([one for one in found if (np.std(one) > 1.2e6) == bool(law)])
        assert len(drawn) == 12_000
        assert abs(drawn.std() / 1e6 - deviation) < 0.1
    assert len({tuple(one) for one in found}) == len(found)


@pytest.mark.parametrize("draw", [DiscreteLaplace().draw, DiscreteGaussian().draw])
def test_no_numbers_are_asked_for_and_none_are_given(draw: Callable[[float, int], Any]) -> None:
    assert len(draw(20.0, 0)) == len(draw(1e9, 0)) == 0
