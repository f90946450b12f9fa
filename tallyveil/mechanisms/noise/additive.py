"""The base of mechanisms that add independent noise to every answer.

Noise around 0 is drawn exactly, from the system's cryptographic source (`exact_draws`), and added
in Python's integers, so nothing rounds or saturates depending on the data.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tallyveil import deadline
from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.inference import NoiseLaw
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.exact_draws import Integers
from tallyveil.mechanisms.protocol import Mechanism

__all__ = ["Additive"]

_TOGETHER: Final = 10_000  # rows whose noise is drawn at once: its words fit into a cache


class Additive(Mechanism):
    """Adds noise of one law to each answer, independently of the truth.

    Answers of all such mechanisms are of one kind: their ``spread`` and ``worst_error`` are the
    variance of the law.
    """

    law_type: type[NoiseLaw]

    def law(self, scale: float) -> NoiseLaw:
        """Return the law of the noise added to one answer, in lattice units."""
        return self.law_type(scale)

    def scale_for_half_width(self, half: int, confidence: float | Fraction) -> float:
        """Return the largest scale ≤ `MAX_SCALE` with P(|noise| ≤ half) ≥ confidence."""
        widest = self.law_type.scale_for_half_width(half, confidence)
        return min(calibrate.MAX_SCALE, widest)

    def spread(self, scale: float) -> float:
        return self.law(scale).variance

    def worst_error(self, scale: float) -> float:
        return self.law(scale).variance

    @abstractmethod
    def draw(self, scale: float, count: int) -> Integers:
        """Draw ``count`` independent values of the noise.

        Raises InvalidParameterValue for a scale that cannot be drawn (`calibrate.check_scale`).
        """

    def release(self, answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
        for scale in filter(None, receipt.scales):
            calibrate.check_scale(scale)
        exact = open_answer(answer, receipt)
        return tuple(
            self._perturbed(column, scale) if scale else column
            for column, scale in zip(exact, receipt.scales, strict=True)
        )

    def _perturbed(self, column: Sequence[int], scale: float) -> tuple[int, ...]:
        found: list[int] = []
        for start in range(0, len(column), _TOGETHER):
            exact = column[start : start + _TOGETHER]
            found += _add(exact, self.draw(scale, len(exact)))
        return tuple(found)


def _add(column: Sequence[int], noise: Integers) -> list[int]:
    found: list[int] = []
    for exact, drawn in zip(
        deadline.portions(column), deadline.portions(noise.tolist()), strict=True
    ):
        found += map(operator.add, exact, drawn)
    return found
