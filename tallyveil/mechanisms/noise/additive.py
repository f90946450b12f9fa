"""What mechanisms have in common that add independent noise to every answer.

Noise is drawn around 0, exactly, from the system's cryptographic source (`inversion`), and added in
Python's integers, so nothing rounds or saturates depending on the data.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from tallyveil import deadline
from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import FeatureNotSupported
from tallyveil.inference import NoiseLaw
from tallyveil.mechanisms.losses.privacy_loss import Loss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.inversion import Integers
from tallyveil.mechanisms.protocol import Needs
from tallyveil.mechanisms.relation import Relation
from tallyveil.workload.workload import Workload

__all__ = ["AdditiveNoise"]


class AdditiveNoise(ABC):
    """Implements `Additive`. A step costs 1/scale in ε, and 1/(2 scale²) in ρ (`measure`)."""

    name: str
    guarantee: str
    needs = Needs()

    def scales_for(
        self,
        workload: Workload,
        cost: Fraction | float | str,
        relation: Relation,
        measure: Measure,
    ) -> tuple[float, ...]:
        self._check(measure)
        return calibrate.scales_for(workload, cost, relation, measure)

    def loss(
        self, workload: Workload, scales: Sequence[float], relation: Relation, measure: Measure
    ) -> Loss:
        self._check(measure)
        return calibrate.scale_loss(workload, scales, relation, measure)

    def unfit(self, workload: Workload) -> str | None:
        return None

    def spread(self, scale: float) -> float:
        return self.law(scale).variance

    def worst_error(self, scale: float) -> float:
        return self.law(scale).variance

    @abstractmethod
    def law(self, scale: float) -> NoiseLaw: ...

    @abstractmethod
    def scale_for_half_width(self, half: int, confidence: float | Fraction) -> float: ...

    @abstractmethod
    def draw(self, scale: float, count: int) -> Integers:
        """``count`` independent draws of the noise.

        Raises InvalidParameterValue for a scale that cannot be drawn (`calibrate.check_scale`).
        """
        ...

    def release(self, answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
        for scale in filter(None, receipt.scales):
            calibrate.check_scale(scale)
        exact = open_answer(answer, receipt)
        return tuple(
            _add(column, self.draw(scale, len(column))) if scale else column
            for column, scale in zip(exact, receipt.scales, strict=True)
        )

    def _check(self, measure: Measure) -> None:
        if measure == "epsilon" and self.needs.delta:
            raise FeatureNotSupported(
                f"{self.name} noise has no cost in a budget of epsilon alone: it is not"
                " epsilon-differentially private for any epsilon",
                hint="SET dp.mechanism = laplace. With a budget { rho = …, delta = … } or"
                f" {{ epsilon = …, delta = … }} the custodian can allow {self.name}.",
            )


def _add(column: Sequence[int], noise: Integers) -> tuple[int, ...]:
    found: list[int] = []
    for exact, drawn in zip(
        deadline.portions(column), deadline.portions(noise.tolist()), strict=True
    ):
        found += map(operator.add, exact, drawn)
    return tuple(found)
