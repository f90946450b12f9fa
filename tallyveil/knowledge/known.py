"""What is known of a row: a recorded answer of its own, or an estimate from several answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final, TypeAlias

from tallyveil.accountant import Recorded
from tallyveil.inference import DiscreteLaplaceLaw, NoiseLaw, half_width_of_sum
from tallyveil.knowledge.estimated import Estimated
from tallyveil.mechanisms import AnyMechanism, CountMechanism, mechanism

__all__ = [
    "EXACT",
    "InRange",
    "Known",
    "Noisy",
    "Unbiased",
    "ends",
    "error_of",
    "known",
    "released",
]

EXACT: Final = DiscreteLaplaceLaw(0.0)

# An estimate is a float; its rounding must not make an interval narrower.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Noisy:
    """The truth and additive noise, in lattice units; or the truth itself, with a law of scale 0.

    These add up, and their intervals with them.
    """

    value: int
    law: NoiseLaw

    @property
    def variance(self) -> float:
        return self.law.variance

    def half_width(self, confidence: Fraction) -> int:
        return _half_width(self.law, confidence)


@dataclass(frozen=True)
class InRange:
    """A count 0..n by a mechanism with a public range: it says how likely each truth is.

    A step of the row's lattice is one record. It is no part of a sum or an estimate: its error
    depends on the truth, and does not average to nothing.
    """

    value: int
    mechanism: CountMechanism
    scale: float

    def ends(self, confidence: Fraction) -> tuple[int, int]:
        return self.mechanism.interval(self.scale, self.value, confidence)

    def half_width(self, confidence: Fraction) -> float:
        """How far the farther end of the interval is."""
        low, high = self.ends(confidence)
        return max(self.value - low, high - self.value)


Unbiased: TypeAlias = Noisy | Estimated
Known: TypeAlias = Unbiased | InRange


def known(recorded: Recorded) -> Noisy | InRange:
    """What a row's own recorded answer says."""
    return _released(recorded.mechanism, recorded.scale)(recorded.value)


def released(noise: AnyMechanism, scale: float) -> Callable[[int], Noisy | InRange]:
    """What a value says that ``noise`` releases at ``scale``."""
    if scale == 0:
        return partial(Noisy, law=EXACT)
    if isinstance(noise, CountMechanism):
        return partial(InRange, mechanism=noise, scale=scale)
    return partial(Noisy, law=noise.law(scale))


@lru_cache(maxsize=4096)
def _released(name: str, scale: float) -> Callable[[int], Noisy | InRange]:
    return released(mechanism(name), scale)


@lru_cache(maxsize=4096)
def _half_width(law: NoiseLaw, confidence: Fraction) -> int:
    return law.half_width(confidence) if law.scale else 0


def error_of(row: Known) -> int:
    """Equal for rows of one and the same law of error, while both are held. An answer of a
    mechanism with a public range has a law of its own.
    """
    if isinstance(row, Noisy):
        return id(row.law)
    return id(row.weights) if isinstance(row, Estimated) else id(row)


def ends(group: Sequence[Known], confidence: Fraction) -> tuple[int, int, int]:
    """The sum of some rows, and the ends of its interval, in lattice units.

    The truth is an integer. So an estimate is rounded to the nearest, and the ends of its interval
    to the integers inside it, and the interval holds the truth no less often.
    """
    if len(group) == 1 and isinstance(group[0], InRange):
        return group[0].value, *group[0].ends(confidence)
    if len(group) == 1 and isinstance(group[0], Noisy):
        value, width = group[0].value, _half_width(group[0].law, confidence)
        return value, value - width, value + width
    if any(isinstance(row, InRange) for row in group):
        raise TypeError("answers of mechanisms with a public range do not add up")
    own = [row for row in group if isinstance(row, Noisy)]
    estimates = [row for row in group if isinstance(row, Estimated)]
    value, width = sum(row.value for row in own), 0
    if own:
        level = confidence if not estimates else 1 - (1 - confidence) / 2
        width = _width(frozenset(Counter(row.law for row in own).items()), level)
    if not estimates:
        return value, value - width, value + width
    total = estimates[0] if len(estimates) == 1 else Estimated.total(estimates)
    # The rows' own answers may have a part in the estimates: each has half of what may be missed.
    level = 1 - (1 - confidence) / 2 if own else confidence
    half = total.half_width(level) + _ROUNDING
    middle = round(total.value)
    low = min(middle, math.ceil(total.value - half)) - width
    high = max(middle, math.floor(total.value + half)) + width
    return value + middle, value + low, value + high


@lru_cache(maxsize=4096)
def _width(laws: frozenset[tuple[NoiseLaw, int]], confidence: Fraction) -> int:
    return half_width_of_sum([law for law, count in laws for _ in range(count)], confidence)
