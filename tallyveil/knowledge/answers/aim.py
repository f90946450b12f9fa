"""The precision that a statement asks for."""

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
    """The precision of ``mechanism`` at ``scale`` or, if ``half_width`` is given, an interval at
    ``confidence`` that reaches no further to either side, in lattice units."""

    mechanism: AnyMechanism
    scale: float
    half_width: Fraction | None
    confidence: Fraction

    @property
    def in_range(self) -> bool:
        """Whether the mechanism has a public range, and adds noise."""
        return self.mechanism.needs_range and self.scale != 0

    @property
    def criterion(self) -> Criterion:
        return None if self.half_width is None else self.confidence

    def met_by(self, answer: WithError) -> bool:
        """Whether an unbiased answer is precise enough."""
        if self.half_width is None:
            return answer.variance <= self.mechanism.worst_error(self.scale) * _SAME
        return answer.half_width(self.confidence) <= float(self.half_width) * _SAME

    def met_by_spread(self, spread: float) -> bool:
        """Whether answers of the same mechanism with this spread are precise enough."""
        return spread <= self.mechanism.spread(self.scale) * _SAME
