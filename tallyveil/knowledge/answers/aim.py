"""How good an answer to a column has to be."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallyveil.knowledge.answers.estimate import Criterion, WithError
from tallyveil.mechanisms import AnyMechanism

__all__ = ["Aim"]

# Widths and variances that differ by less than this are the same precision computed twice.
_SAME: Final = 1 + 2e-9


@dataclass(frozen=True)
class Aim:
    """As good as ``mechanism`` at ``scale``; or, if ``half_width`` is given, with an interval at
    ``confidence`` that is no wider to either side, in lattice units.

    ``by_auto``: answers by any other mechanism serve, if they are as good.
    """

    mechanism: AnyMechanism
    scale: float
    half_width: Fraction | None
    confidence: Fraction
    by_auto: bool = False

    @property
    def in_range(self) -> bool:
        """Whether answers of a mechanism with a public range are asked for."""
        return self.mechanism.needs_range and self.scale != 0

    @property
    def criterion(self) -> Criterion:
        return None if self.half_width is None else self.confidence

    def met_by(self, answer: WithError) -> bool:
        """By an unbiased answer."""
        if self.half_width is None:
            return answer.variance <= self.mechanism.worst_error(self.scale) * _SAME
        return answer.half_width(self.confidence) <= float(self.half_width) * _SAME

    def no_less(self, spread: float) -> bool:
        """Whether answers of this spread are as good, of the same mechanism."""
        return spread <= self.mechanism.spread(self.scale) * _SAME
