"""The objectives that mechanisms minimise (COUNT Definition 3), and a given mechanism's score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.units import positive

__all__ = ["Aggregate", "Objective", "Penalty", "score"]

Penalty = Literal["L0", "L1", "L2"]
Aggregate = Literal["sum", "max"]


@dataclass(frozen=True)
class Objective:
    """Σ_j w_j E_j or max_j (n+1) w_j E_j, where E_j = Σ_i P[i|j] loss(i, j).

    loss is 1 where |i−j| > ``beyond`` for L0 (so ``beyond`` is d of L0,d and 0 means a wrong
    answer; the formula in COUNT §II-A has ≥, its text and L0 = L0,0 say >), |i−j| for L1 and
    (i−j)² for L2. L0 is multiplied by (n+1)/n, so that the uniform mechanism scores 1.

    ``weights`` are w_0..w_n up to a factor, a prior on the truth; None is uniform. For the
    maximum they are scaled to an average of 1, so that uniform weights give the worst truth's
    expected loss.

    Raises InvalidParameterValue for other values.
    """

    penalty: Penalty = "L0"
    beyond: int = 0
    aggregate: Aggregate = "sum"
    weights: tuple[Fraction, ...] | None = None

    def __init__(
        self,
        penalty: Penalty = "L0",
        *,
        beyond: int = 0,
        aggregate: Aggregate = "sum",
        weights: Sequence[Fraction | float | str] | None = None,
    ) -> None:
        if penalty not in ("L0", "L1", "L2"):
            raise InvalidParameterValue(f"a penalty is L0, L1 or L2, not {penalty}")
        if aggregate not in ("sum", "max"):
            raise InvalidParameterValue(f"losses are aggregated by sum or max, not {aggregate}")
        if isinstance(beyond, bool) or not isinstance(beyond, int) or not beyond >= 0:
            raise InvalidParameterValue(f"a distance is an integer of at least 0, not {beyond}")
        if beyond and penalty != "L0":
            raise InvalidParameterValue(f"beyond is for L0 only, not for {penalty}")
        object.__setattr__(self, "penalty", penalty)
        object.__setattr__(self, "beyond", beyond)
        object.__setattr__(self, "aggregate", aggregate)
        object.__setattr__(self, "weights", None if weights is None else _normalised(weights))

    def __str__(self) -> str:
        distance = f",{self.beyond}" if self.beyond else ""
        weighted = ", weighted" if self.weights else ""
        return f"{self.penalty}{distance} {self.aggregate}{weighted}"

    def loss(self, output: int, truth: int) -> int:
        distance = abs(output - truth)
        if self.penalty == "L0":
            return int(distance > self.beyond)
        return distance if self.penalty == "L1" else distance**2

    def prior(self, n: int) -> tuple[Fraction, ...]:
        """Return w_0..w_n, scaled to add up to 1.

        Raises InvalidParameterValue if the weights are for another n.
        """
        if self.weights is None:
            return (Fraction(1, n + 1),) * (n + 1)
        if len(self.weights) != n + 1:
            raise InvalidParameterValue(
                f"{n + 1} possible counts need as many weights, not {len(self.weights)}"
            )
        return self.weights

    def factors(self, n: int) -> tuple[Fraction, ...]:
        """Return the factor of each E_j in the objective."""
        scale = Fraction(n + 1, n) if self.penalty == "L0" else Fraction(1)
        scale *= n + 1 if self.aggregate == "max" else 1
        return tuple(scale * weight for weight in self.prior(n))


def score(matrix: CountMatrix, objective: Objective) -> Fraction:
    """Return the objective's exact value for ``matrix``."""
    terms = [
        factor * sum(weight * objective.loss(i, j) for i, weight in enumerate(column))
        for j, (factor, column) in enumerate(
            zip(objective.factors(matrix.n), matrix.weights, strict=True)
        )
    ]
    return (max(terms) if objective.aggregate == "max" else sum(terms, Fraction(0))) / matrix.total


def _normalised(weights: Sequence[Fraction | float | str]) -> tuple[Fraction, ...]:
    exact = [Fraction(0) if w in (0, "0") else positive(w, "a nonzero weight") for w in weights]
    if not sum(exact) > 0:
        raise InvalidParameterValue("at least one weight must be above zero")
    return tuple(weight / sum(exact) for weight in exact)
