"""The answers of a recorded column whose noise was drawn together, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Answer, Basis
from tallyveil.arrays import IntArray
from tallyveil.inference import Noises
from tallyveil.inference.conditional.conditional import ConditionalLaw
from tallyveil.inference.laws.noises import JointNoise
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights

__all__ = ["DRAWS", "DrawnRows", "noises_of"]

DRAWS = 1 << 22  # the most draws of one charge


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """The noise and the own answer of each row."""

    noises: Noises
    known: Answers

    @classmethod
    def of(cls, number: int, answer: Answer, noise_numbers: IntArray) -> DrawnRows:
        """The rows of the recorded column ``number``. Rows with noise of one law share their
        weights, and what is cached there."""
        noises, basis, one = noises_of(answer), Basis(own=(number,)), np.ones(1)
        shared: dict[int, NoiseWeights] = {}
        estimates = []
        for place, kind in enumerate(deadline.stoppable(noises.numbers.tolist())):
            weights = shared.get(kind)
            if weights is None:
                weights = shared[kind] = NoiseWeights(one, noises.take(np.array([place])))
            value, noise = float(answer.values[place]), noise_numbers[place : place + 1]
            draws = None if noises.together is None else noises.together.owners[place : place + 1]
            estimates.append(Estimate(value, noise, weights, basis, draws))
        return cls(noises, Answers.estimated(estimates))


def noises_of(answer: Answer) -> Noises:
    """The noise of each row of the answer's column. Raises TypeError if it is not additive."""
    law, drawn, height = answer.law, answer.together, answer.column.height
    if law is None:
        raise TypeError(f"the noise of {answer.mechanism} is not additive")
    own = Noises.of(type(law), np.full(height, law.scale))
    if drawn is None:
        return own
    rows = slice(answer.first, answer.first + height)
    owners = drawn.owners[rows]
    laws: dict[int, ConditionalLaw] = {
        answer.charge_id * DRAWS + n: drawn.laws[n] for n in np.unique(owners[owners >= 0]).tolist()
    }
    numbers = np.where(owners < 0, -1, answer.charge_id * DRAWS + owners)
    return Noises(own.laws, own.scales, JointNoise(numbers, drawn.places[rows], laws))
