"""Recorded answers of single rows, each with its own value and its own interval."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from tallyveil.inference import DiscreteLaplaceLaw, NoiseLaw
from tallyveil.mechanisms import AnyMechanism, CountMechanism, mechanism

__all__ = ["EXACT", "InRange", "Known", "Noisy", "known"]

EXACT: Final = DiscreteLaplaceLaw(0.0)


@dataclass(frozen=True)
class Noisy:
    """The truth and additive noise, in lattice units; or the truth itself, with a law of scale 0.

    These add up, and their intervals with them.
    """

    value: int
    law: NoiseLaw


@dataclass(frozen=True)
class InRange:
    """A count 0..n by a mechanism with a public range: it says how likely each truth is.

    A step of the row's lattice is one record. It is no part of a sum: its error depends on the
    truth, and does not average to nothing.
    """

    value: int
    mechanism: CountMechanism
    scale: float

    def ends(self, confidence: Fraction) -> tuple[int, int]:
        return self.mechanism.interval(self.scale, self.value, confidence)


Known: TypeAlias = Noisy | InRange


def known(noise: AnyMechanism, scale: float, value: int) -> Known:
    """What ``value`` says, released by ``noise`` at ``scale``."""
    if scale == 0:
        return Noisy(value, EXACT)
    if isinstance(noise, CountMechanism):
        return InRange(value, noise, scale)
    return Noisy(value, _law(noise.name, scale))


@lru_cache(maxsize=4096)
def _law(name: str, scale: float) -> NoiseLaw:
    noise = mechanism(name)
    if isinstance(noise, CountMechanism):
        raise TypeError(f"{name} has no law of its noise")
    return noise.law(scale)
