"""The laws of integer noise up to a constant, f(k) = e^{−x(k)} with a rational x, and tilted ones.

A tilted law has weights about f(k) e^{tk}: it goes far out one way, and is drawn exactly. It
proposes the outcomes that lie beyond the tables of `conditioned`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.errors import FeatureNotSupported
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.inversion import QuantileBounds, decided
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace, geometric_numbers
from tallyveil.mechanisms.units import decimal

__all__ = ["LawWeights", "Tilt", "happens", "weights_of"]

_SHARES: Final = tuple(n / 20 for n in range(1, 20))  # of 1/b that a rate is
_SHIFTS: Final = tuple(n / 8 for n in range(1, 120))  # of σ that a law is shifted by


@dataclass(frozen=True)
class Tilt:
    """``rate`` is t, ``cost`` is ln Σ f(k) e^{tk} − ln Σ f(k), ``by`` what the law is told."""

    rate: float
    cost: float
    by: float


class LawWeights(ABC):
    """Of ``noise`` of one law with a scale above 0."""

    noise: Additive

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @abstractmethod
    def exponent(self, values: Sequence[int]) -> Fraction:
        """Σ x(k), where x(0) = 0."""

    @abstractmethod
    def at(self, steps: FloatArray) -> FloatArray:
        """f(k), within a few units in the last place."""

    @abstractmethod
    def convolved(self, others: FloatArray, bound: int) -> FloatArray:
        """Σ_k f(k) · others[s − k] of symmetric others, over |k| ≤ ``bound`` or more, by sums of
        positive terms; ``bound`` longer on each side."""

    @abstractmethod
    def work(self, reach: int, bound: int) -> int:
        """About how many operations that takes, of numbers of −reach … reach."""

    @abstractmethod
    def log_total(self) -> Decimal:
        """ln Σ_k f(k), in the precision of the context."""

    @cached_property
    @abstractmethod
    def tilts(self) -> Sequence[Tilt]: ...

    def draw(self, count: int) -> list[int]:
        """Independent draws, exactly."""
        found: list[int] = self.noise.draw(self.scale, count).tolist()
        return found

    @abstractmethod
    def draw_tilted(self, tilt: Tilt, count: int) -> list[int]:
        """Independent draws of the tilted law, exactly."""

    @abstractmethod
    def log_chance(self, values: Sequence[int], tilt: Tilt) -> Decimal:
        """ln P of such draws, in the precision of the context."""


class _Laplace(LawWeights):
    """f(k) = e^{−|k|/b}. Tilted, k = G − G′ with two geometric numbers of other scales."""

    noise = DiscreteLaplace()

    def exponent(self, values: Sequence[int]) -> Fraction:
        return sum(map(abs, values)) / Fraction(self.scale)

    def at(self, steps: FloatArray) -> FloatArray:
        result: FloatArray = np.exp(-np.abs(steps) / self.scale)
        return result

    def convolved(self, others: FloatArray, bound: int) -> FloatArray:
        """Σ_{k≥0} a^k x_{s−k}, in steps of twice as many terms, and the same from the other end:
        ``others`` are symmetric."""
        found, reach = np.pad(others, bound), 1
        plain = found.copy()
        while reach < len(found):
            found[reach:] += math.exp(-reach / self.scale) * found[:-reach]
            reach *= 2
        result: FloatArray = found + found[::-1] - plain
        return result

    def work(self, reach: int, bound: int) -> int:
        return 8 * reach * reach.bit_length()

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
        """The scales of k > 0 and of k < 0."""
        return self.scale / (1 - share), self.scale / (1 + share)

    def draw_tilted(self, tilt: Tilt, count: int) -> list[int]:
        over, under = self._ends(tilt.by)
        drawn = geometric_numbers(over, count) - geometric_numbers(under, count)
        found: list[int] = drawn.tolist()
        return found

    def log_chance(self, values: Sequence[int], tilt: Tilt) -> Decimal:
        over, under = self._ends(tilt.by)
        up, down = sum(k for k in values if k > 0), -sum(k for k in values if k < 0)
        each = decimal(up / Fraction(over) + down / Fraction(under))
        return -each - len(values) * _log_both(over, under)


class _Gaussian(LawWeights):
    """f(k) = e^{−k²/2σ²}. Tilted, it is the same law around another whole number."""

    noise = DiscreteGaussian()

    def exponent(self, values: Sequence[int]) -> Fraction:
        return sum(k * k for k in values) / (2 * Fraction(self.scale) ** 2)

    def at(self, steps: FloatArray) -> FloatArray:
        result: FloatArray = np.exp(-((steps / self.scale) ** 2) / 2)
        return result

    def convolved(self, others: FloatArray, bound: int) -> FloatArray:
        result: FloatArray = np.convolve(others, self.at(np.arange(-bound, bound + 1.0)))
        return result

    def work(self, reach: int, bound: int) -> int:
        return 4 * reach * bound

    def log_total(self) -> Decimal:
        return _log_sum(1 / (2 * Fraction(self.scale) ** 2), getcontext().prec)

    @cached_property
    def tilts(self) -> Sequence[Tilt]:
        shifts = sorted({max(1, round(share * self.scale)) for share in _SHIFTS})
        square = self.scale**2
        return tuple(Tilt(by / square, by * by / (2 * square), by) for by in shifts)

    def draw_tilted(self, tilt: Tilt, count: int) -> list[int]:
        return [k + int(tilt.by) for k in self.draw(count)]

    def log_chance(self, values: Sequence[int], tilt: Tilt) -> Decimal:
        around = self.exponent([k - int(tilt.by) for k in values])
        return -decimal(around) - len(values) * self.log_total()


def _log_both(over: float, under: float) -> Decimal:
    """Of weights e^{−k/over} for k ≥ 0 and e^{k/under} below: ln (1 − ab) / (1 − a)(1 − b)."""
    return _known_log_both(over, under, getcontext().prec)


@lru_cache(maxsize=1024)
def _known_log_both(over: float, under: float, digits: int) -> Decimal:
    a, b = ((-1 / Decimal(scale)).exp() for scale in (over, under))
    return ((1 - a * b) / ((1 - a) * (1 - b))).ln()


@lru_cache(maxsize=256)
def _log_sum(rate: Fraction, digits: int) -> Decimal:
    """ln Σ_k e^{−k² rate}."""
    each, total, k = decimal(rate), Decimal(1), 1
    while total + (term := 2 * (-k * k * each).exp()) != total:
        total, k = total + term, k + 1
    return total.ln()


_KINDS: Final = {DiscreteLaplaceLaw: _Laplace, DiscreteGaussianLaw: _Gaussian}


@lru_cache(maxsize=256)
def weights_of(law: NoiseLaw) -> LawWeights:
    """Raises FeatureNotSupported for a law whose weights are not known up to a constant."""
    kind = _KINDS.get(type(law))
    if kind is None or not law.scale:
        raise FeatureNotSupported(f"{law.name} noise of scale {law.scale:g} cannot be conditioned")
    return kind(law.scale)


def happens(chance: Callable[[], Decimal], word: int) -> bool:
    """Whether a U that begins with the 64 bits of ``word`` is less than a chance, which is worked
    out to as many digits as that takes."""

    def bounds(bits: int) -> QuantileBounds:
        with localcontext(prec=bits // 3 + 40):
            scaled = chance() * (1 << bits)
            room = scaled.scaleb(-bits // 3 - 20) + 1
            return [int(scaled - room), 1 << bits], [int(scaled + room), 1 << bits]

    return decided(word, bounds) == 0
