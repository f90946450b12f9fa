"""Laws of integer noise up to a constant factor, f(k) = e^{−x(k)} with rational x, and tilted ones.

A tilted law has weights of about f(k) e^{tk}: it shifts probability far to one side, and is drawn
exactly. It proposes the outcomes that lie beyond the tables of `conditioned`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property
from tallyveil.errors import FeatureNotSupported
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.exact_draws import QuantileBounds, decided
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace, geometric_numbers
from tallyveil.mechanisms.units import decimal

__all__ = ["LawWeights", "Tilt", "happens", "together", "weights_of"]

_SHARES: Final = tuple(n / 20 for n in range(1, 20))  # rates t, in 1/b
_SHIFTS: Final = tuple(n / 8 for n in range(1, 120))  # shifts of a law, in σ


@dataclass(frozen=True)
class Tilt:
    """``rate`` is t, ``cost`` is ln Σ f(k) e^{tk} − ln Σ f(k), and ``parameter`` is the law's own:
    a share of 1/b for Laplace, a shift for Gaussian noise."""

    rate: float
    cost: float
    parameter: float


class LawWeights(ABC):
    """The weights of ``noise`` of one law with a scale above 0."""

    noise: Additive

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @abstractmethod
    def exponent(self, values: Sequence[int]) -> Fraction:
        """Return Σ x(k), where x(0) = 0."""

    @abstractmethod
    def reach(self, exponent: float, rate: float) -> float:
        """Return the k ≥ 0 with x(k) + ``rate`` · k = ``exponent``, up to rounding."""

    @abstractmethod
    def at(self, steps: FloatArray) -> FloatArray:
        """Return f(k), within `error`."""

    def error(self, bound: int) -> float:
        """The largest relative error of `at` for |k| ≤ ``bound``, in units of 2⁻⁵³.

        x(k) is rounded three times at most, and `exp` is off by 4 units in the last place at most.
        """
        return 4 * float(self.exponent([bound])) + 8

    @abstractmethod
    def convolved(self, others: FloatArray, bound: int) -> FloatArray:
        """Return Σ_k f(k) · others[s − k] over |k| ≤ ``bound``, by sums of positive terms, within
        `convolution_error`.

        ``others`` must be symmetric. The result is ``bound`` longer on each side.
        """

    @abstractmethod
    def convolution_error(self, bound: int) -> float:
        """The largest relative error that `convolved` adds to its terms', in units of 2⁻⁵³."""

    @abstractmethod
    def work(self, reach: int, bound: int) -> int:
        """Return about how many operations `convolved` takes for results from −reach to reach."""

    @abstractmethod
    def log_total(self) -> Decimal:
        """Return ln Σ_k f(k), in the precision of the context."""

    @cached_property
    @abstractmethod
    def tilts(self) -> Sequence[Tilt]: ...

    def draw(self, count: int) -> list[int]:
        """Draw ``count`` independent values exactly."""
        found: list[int] = self.noise.draw(self.scale, count).tolist()
        return found

    @abstractmethod
    def draw_tilted(self, tilt: Tilt, count: int) -> list[int]:
        """Draw ``count`` independent values of the tilted law exactly."""

    @abstractmethod
    def log_chance(self, values: Sequence[int], tilt: Tilt) -> Decimal:
        """Return ln P of these values under the tilted law, in the precision of the context."""


class _Laplace(LawWeights):
    """f(k) = e^{−|k|/b}. Tilted, k = G − G′ with geometric numbers of two other scales."""

    noise = DiscreteLaplace()

    def exponent(self, values: Sequence[int]) -> Fraction:
        return sum(map(abs, values)) / Fraction(self.scale)

    def reach(self, exponent: float, rate: float) -> float:
        return exponent / (1 / self.scale + rate)

    def at(self, steps: FloatArray) -> FloatArray:
        result: FloatArray = np.exp(-np.abs(steps) / self.scale)
        return result

    def convolved(self, others: FloatArray, bound: int) -> FloatArray:
        """As declared. S_n = Σ_{0≤k<n} a^k x_{s−k} is S_m and S_{n−m}, moved by m and multiplied by
        a^m; so it takes the bits of n = ``bound`` + 1. The result is mirrored for k ≤ 0, since
        ``others`` are symmetric; it is no less than what is subtracted."""
        plain = np.pad(others, bound)
        power, found, m, left = plain.copy(), np.zeros_like(plain), 1, bound + 1
        while left:
            factor = math.exp(-m / self.scale)
            if left & 1:
                found[m:] = power[m:] + factor * found[:-m]
                found[:m] = power[:m]
            left >>= 1
            if left:
                power[m:] += factor * power[:-m]
                m *= 2
        result: FloatArray = found + found[::-1] - plain
        return result

    def convolution_error(self, bound: int) -> float:
        """As declared: two products with a rounded power of a and two sums for each bit, and the
        difference at the end, which doubles the error."""
        return 2 * (float(self.exponent([bound])) + 20 * (bound + 1).bit_length()) + 6

    def work(self, reach: int, bound: int) -> int:
        return 12 * reach * bound.bit_length()

    def log_total(self) -> Decimal:
        return _log_both(self.scale, self.scale)

    @cached_property
    def tilts(self) -> Sequence[Tilt]:
        own = float(self.log_total())
        return tuple(
            Tilt(share / self.scale, float(_log_both(*self._ends(share))) - own, share)
            for share in _SHARES
        )

    def _ends(self, share: float) -> tuple[float, float]:
        """Return the scales of k > 0 and of k < 0."""
        return self.scale / (1 - share), self.scale / (1 + share)

    def draw_tilted(self, tilt: Tilt, count: int) -> list[int]:
        over, under = self._ends(tilt.parameter)
        drawn = geometric_numbers(over, count) - geometric_numbers(under, count)
        found: list[int] = drawn.tolist()
        return found

    def log_chance(self, values: Sequence[int], tilt: Tilt) -> Decimal:
        over, under = self._ends(tilt.parameter)
        up, down = sum(k for k in values if k > 0), -sum(k for k in values if k < 0)
        each = decimal(up / Fraction(over) + down / Fraction(under))
        return -each - len(values) * _log_both(over, under)


class _Gaussian(LawWeights):
    """f(k) = e^{−k²/2σ²}. Tilted, it is the same law around another whole number."""

    noise = DiscreteGaussian()

    def exponent(self, values: Sequence[int]) -> Fraction:
        return sum(k * k for k in values) / (2 * Fraction(self.scale) ** 2)

    def reach(self, exponent: float, rate: float) -> float:
        return 2 * exponent / (rate + math.hypot(rate, math.sqrt(2 * exponent) / self.scale))

    def at(self, steps: FloatArray) -> FloatArray:
        result: FloatArray = np.exp(-((steps / self.scale) ** 2) / 2)
        return result

    def convolved(self, others: FloatArray, bound: int) -> FloatArray:
        result: FloatArray = np.convolve(others, self.at(np.arange(-bound, bound + 1.0)))
        return result

    def convolution_error(self, bound: int) -> float:
        return self.error(bound) + 2 * bound + 2

    def work(self, reach: int, bound: int) -> int:
        return 4 * reach * bound

    def log_total(self) -> Decimal:
        return _log_sum(1 / (2 * Fraction(self.scale) ** 2), getcontext().prec)

    @cached_property
    def tilts(self) -> Sequence[Tilt]:
        shifts = sorted({max(1, round(share * self.scale)) for share in _SHIFTS})
        square = self.scale**2
        return tuple(Tilt(shift / square, shift * shift / (2 * square), shift) for shift in shifts)

    def draw_tilted(self, tilt: Tilt, count: int) -> list[int]:
        return [k + int(tilt.parameter) for k in self.draw(count)]

    def log_chance(self, values: Sequence[int], tilt: Tilt) -> Decimal:
        around = self.exponent([k - int(tilt.parameter) for k in values])
        return -decimal(around) - len(values) * self.log_total()


def _log_both(over: float, under: float) -> Decimal:
    """Return ln of the sum of weights e^{−k/over} for k ≥ 0 and e^{k/under} for k < 0, which is
    ln (1 − ab) / (1 − a)(1 − b)."""
    return _known_log_both(over, under, getcontext().prec)


@lru_cache(maxsize=1024)
def _known_log_both(over: float, under: float, digits: int) -> Decimal:
    a, b = ((-1 / Decimal(scale)).exp() for scale in (over, under))
    return ((1 - a * b) / ((1 - a) * (1 - b))).ln()


@lru_cache(maxsize=256)
def _log_sum(rate: Fraction, digits: int) -> Decimal:
    """Return ln Σ_k e^{−k² rate}."""
    each, total, k = decimal(rate), Decimal(1), 1
    while total + (term := 2 * (-k * k * each).exp()) != total:
        total, k = total + term, k + 1
    return total.ln()


_KINDS: Final = {DiscreteLaplaceLaw: _Laplace, DiscreteGaussianLaw: _Gaussian}


@lru_cache(maxsize=256)
def weights_of(law: NoiseLaw) -> LawWeights:
    """Return the weights of ``law``.

    Raises FeatureNotSupported for laws other than Laplace and Gaussian, and for scale 0.
    """
    kind = _KINDS.get(type(law))
    if kind is None or not law.scale:
        raise FeatureNotSupported(f"{law.name} noise of scale {law.scale:g} cannot be conditioned")
    return kind(law.scale)


def together(one: NoiseLaw | None, other: NoiseLaw | None) -> NoiseLaw | None:
    """Return a law with x(j + k) ≤ x₁(j) + x₂(k) for all j and k; None if there is none here."""
    if isinstance(one, DiscreteLaplaceLaw) and isinstance(other, DiscreteLaplaceLaw):
        return max(one, other, key=lambda law: law.scale)
    if isinstance(one, DiscreteGaussianLaw) and isinstance(other, DiscreteGaussianLaw):
        return DiscreteGaussianLaw(math.hypot(one.scale, other.scale))
    return None


def happens(chance: Callable[[], Decimal], word: int) -> bool:
    """Whether U < chance, for a uniform U that begins with the 64 bits of ``word``.

    The chance is computed to as many digits as are needed to decide.
    """

    def bounds(bits: int) -> QuantileBounds:
        with localcontext(prec=bits // 3 + 40):
            scaled = chance() * (1 << bits)
            room = scaled.scaleb(-bits // 3 - 20) + 1
            return [int(scaled - room), 1 << bits], [int(scaled + room), 1 << bits]

    return decided(word, bounds) == 0
