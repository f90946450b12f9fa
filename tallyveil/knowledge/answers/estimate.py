"""An estimate from several recorded answers, with the exact law of its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from tallyveil.accountant import Basis
from tallyveil.arrays import FloatArray
from tallyveil.cache import Cache, cached_property, key_bytes
from tallyveil.inference import ErrorLaw, Noises
from tallyveil.inference.canonical import rounded
from tallyveil.inference.laws.noises import Signature
from tallyveil.workload.workload import IntArray

__all__ = [
    "ROUNDING",
    "Criterion",
    "Estimate",
    "NoiseWeights",
    "Shared",
    "WithError",
    "improves",
    "reported_width",
    "surpasses",
]

ROUNDING: Final = 1e-6
"""An estimate is a float. Its rounding must not make an interval narrower, nor hide that it lies
half-way between two integers."""

_Made = TypeVar("_Made")
_NO_BASIS: Final = Basis()
_BETTER: Final = 1 - 1e-9
_ROUNDED_UP: Final = 1 + 1e-12  # weights are rounded to 44 bits
_SAME: Final = 1e-12  # weights that differ by less, relative to themselves, are equal
_ROUNDING: Final = 1e-14  # or by less noise than this times the whole error's deviation

Criterion = Fraction | None
"""How estimates are compared: by their intervals at this confidence, or if None by variance."""


@dataclass(frozen=True, eq=False)
class NoiseWeights:
    """The weights and laws of an estimate's noises. Estimates with errors of one law may share it.
    If ``rough``, intervals come from a quick bound and are somewhat too wide."""

    values: FloatArray
    noises: Noises
    rough: bool = False
    like: NoiseWeights | None = field(default=None, repr=False)
    """Weights that these are a multiple of, except for rounding errors, signs and order."""
    _last: tuple[Fraction | None, float] = field(init=False, default=(None, 0.0))

    @property
    def error(self) -> ErrorLaw:
        return _error(*self.signature)

    @cached_property
    def variance(self) -> float:
        return self.noises.variance_of(self.values)

    @property
    def alone(self) -> bool:
        """Whether they are of one answer, to the row itself or to a multiple of it."""
        return len(self.values) == 1

    @cached_property
    def kind(self) -> Signature:
        """The noises in canonical order. Only weights of one kind may share a law."""
        return self.noises.take(self._order).signature

    def as_multiple(self, others: Sequence[NoiseWeights]) -> NoiseWeights:
        """Return these weights with the law of the first of the others, which have the same noises
        or are of the same `kind`, that they are a multiple of except for rounding errors, signs and
        order. Computing a law takes longer than comparing them all, and the number of laws does not
        depend on rounding errors. Without such others, return the weights as they are."""
        if others:
            every = np.array([other._ranked for other in others])
            factors = self._size / np.array([other._size for other in others])
            most = np.maximum(_SAME * np.abs(self._ranked), _ROUNDING * self._shares)
            near = np.abs(every * factors[:, None] - self._ranked) <= most
            for number in np.flatnonzero(near.all(axis=1))[:1].tolist():
                return replace(self, like=others[number])
        return self

    def half_width(self, confidence: Fraction) -> float:
        """Caches the last result, because a statement asks once for each of many rows."""
        last = self._last
        if last[0] is not confidence:
            last = confidence, self._half_width(confidence)
            object.__setattr__(self, "_last", last)
        return last[1]

    def _half_width(self, confidence: Fraction) -> float:
        width = ErrorLaw.outer_half_width if self.rough else ErrorLaw.half_width
        own = _WIDTHS.get(
            (width, self.unit, confidence), lambda: width(_error(*self.unit), confidence)
        )
        return self._size * own * _ROUNDED_UP

    @cached_property
    def signature(self) -> tuple[bytes, Signature]:
        """Equal for weights that differ only by rounding errors and order."""
        return rounded(self._ranked).tobytes(), self.kind

    @cached_property
    def unit(self) -> tuple[bytes, Signature]:
        """The signature in units of the largest weight. Many estimates differ only in that unit."""
        if self.like is not None:
            return self.like.unit
        return rounded(self._ranked / self._size).tobytes(), self.kind

    @cached_property
    def _size(self) -> float:
        """The largest weight."""
        return float(np.abs(self.values).max(initial=0.0)) or 1.0

    @cached_property
    def _order(self) -> IntArray:
        """The canonical order: by law, scale and size unless noises are drawn together."""
        if self.noises.together is not None:
            return np.lexsort((self.values, self.noises.numbers))
        return np.lexsort((np.abs(self.values), self.noises.scales, self.noises.laws))

    @cached_property
    def _ranked(self) -> FloatArray:
        """The weights in canonical order. Without their signs unless noises are drawn together,
        since laws are symmetric."""
        if self.like is not None:
            return self.like._ranked * (self._size / self.like._size)
        values = self.values[self._order]
        return np.abs(values) if self.noises.together is None else values

    @property
    def _shares(self) -> FloatArray:
        """The weight with which each noise alone would have the variance of all, in canonical
        order; infinite for exact rows, which have none. Weights are computed to a precision
        relative to these."""
        deviations = np.sqrt(self.noises.variances[self._order])
        whole = math.sqrt(float(((self._ranked * deviations) ** 2).sum()))
        infinite = np.full_like(deviations, math.inf)
        return np.divide(whole, deviations, out=infinite, where=deviations > 0)


@dataclass(frozen=True, eq=False)
class Estimate:
    """θ̂ = ``value`` = θ + Σ ``weights`` · noise, in lattice units. ``numbers`` identify the noises
    within the table. ``basis`` lists the answers it was made from, if it is to be recorded.
    ``draws`` are the joint draws of its noises, given if its weights are shared."""

    value: float
    numbers: IntArray
    weights: NoiseWeights
    basis: Basis = _NO_BASIS
    draws: IntArray | None = None

    @property
    def noises(self) -> Noises:
        """The noises, with this estimate's own draws. Shared weights may name other draws of the
        same law, which matters only when estimates are combined."""
        return self.weights.noises if self.draws is None else self.weights.noises.drawn(self.draws)

    @property
    def error(self) -> ErrorLaw:
        return self.weights.error

    @property
    def variance(self) -> float:
        return self.weights.variance

    @property
    def signature(self) -> tuple[bytes, Signature]:
        return self.weights.signature

    def half_width(self, confidence: Fraction) -> float:
        return self.weights.half_width(confidence)

    def times(self, factor: float) -> Estimate:
        """The estimate of ``factor`` times its row."""
        weights = replace(self.weights, values=self.weights.values * factor)
        return replace(self, value=self.value * factor, weights=weights)

    def mixed(self, own: Estimate, shared: Shared | None = None) -> Estimate:
        """The best combination with the row's ``own`` answer, which it must not use already."""
        share = self.variance / (self.variance + own.variance) if own.variance else 1.0

        def weights() -> NoiseWeights:
            values = [self.weights.values * (1 - share), own.weights.values * share]
            noises = Noises.concatenated([self.noises, own.noises])
            return NoiseWeights(np.concatenate(values), noises, self.weights.rough)

        def basis() -> Basis:
            return replace(self.basis, own=self.basis.own + own.basis.own)

        alike = shared is not None and self.draws is None and own.draws is None
        return Estimate(
            self.value * (1 - share) + own.value * share,
            np.concatenate([self.numbers, own.numbers]),
            shared.of((self.weights, own.weights), weights) if shared and alike else weights(),
            shared.of((self.basis, own.basis), basis) if shared else basis(),
        )

    @classmethod
    def total(cls, parts: Sequence[Estimate]) -> Estimate:
        """The sum of the estimates. The weights of a noise that several parts share add up."""
        numbers, first, places = np.unique(
            np.concatenate([part.numbers for part in parts]), return_index=True, return_inverse=True
        )
        weights = np.zeros(len(numbers))
        np.add.at(weights, places.ravel(), np.concatenate([part.weights.values for part in parts]))
        noises = Noises.concatenated([part.noises for part in parts]).take(first)
        rough = any(part.weights.rough for part in parts)
        return cls(sum(part.value for part in parts), numbers, NoiseWeights(weights, noises, rough))


class Shared:
    """What the estimates of many rows have in common. It is made once of the same objects, so that
    there are few objects for the collector of garbage to visit, and few error laws."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], Any]] = {}

    def of(self, parts: tuple[object, ...], make: Callable[[], _Made]) -> _Made:
        """What ``make`` made of these parts, which are compared by identity."""
        key = tuple(map(id, parts))
        if key not in self._made:
            self._made[key] = parts, make()  # as long as a part exists, no other has its identity
        made: _Made = self._made[key][1]
        return made


# Its spectrum takes up to half a megabyte.
@lru_cache(maxsize=256)
def _error(weights: bytes, noises: Signature) -> ErrorLaw:
    return ErrorLaw(np.frombuffer(weights), Noises.signed(noises))


_WIDTHS: Final[Cache[float]] = Cache(16_384, 1 << 26, lambda key, _: 500 + key_bytes(key))


def reported_width(half: float) -> int:
    """⌊2h⌋, the distance of the reported ends of an interval θ̂ ± h, whatever θ̂ is. That interval
    has ⌊2h⌋ or ⌊2h⌋ + 1 integers, so with these as its ends a smaller h could be reported as a
    wider interval."""
    return math.floor(2 * (half + ROUNDING))


class WithError(Protocol):
    @property
    def variance(self) -> float: ...

    def half_width(self, confidence: Fraction) -> float: ...


def surpasses(new: WithError, old: WithError, by: Criterion) -> bool:
    """Whether the new error is clearly smaller, judged by its law alone."""
    if by is None:
        return new.variance < old.variance * _BETTER
    return new.half_width(by) < old.half_width(by) * _BETTER


def improves(new: WithError, reported: WithError, by: Criterion, confidence: Fraction) -> bool:
    """Whether it `surpasses` what was reported, and its interval at ``confidence`` is no wider."""
    return surpasses(new, reported, by) and (
        by is not None or new.half_width(confidence) <= reported.half_width(confidence)
    )
