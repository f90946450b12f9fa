"""Mechanisms for plain counts with a public range 0..n, by name (COUNT; `matrix` builds them).

At scale b, α is e^{−1/b} rounded to the private side, so a step of one in the truth costs at most
1/b in ε, and s steps s/b by chaining: a cell pays Σ_i |C_ij| / b under add/remove and a pair
Σ_i |C_ij − C_ik| / b under replace, as for discrete Laplace noise, and in ρ as `measure` states.
A truth outside 0..n counts as the nearer end. That moves no two truths further apart, so it costs
nothing; but it biases answers if n was chosen too small.

The cost of a release follows from scale and workload alone. So reading a ledger does not compute
the matrix; drawing or interpreting an answer does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, Final

from tallyveil import deadline
from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import ReceiptError
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix, draw
from tallyveil.mechanisms.matrix.credible import posterior
from tallyveil.mechanisms.matrix.design_cache import DesignCache
from tallyveil.mechanisms.matrix.designing import choose, design
from tallyveil.mechanisms.matrix.explicit import explicit_fair, geometric
from tallyveil.mechanisms.matrix.objective import Objective, score
from tallyveil.mechanisms.matrix.privacy_level import alpha_for
from tallyveil.mechanisms.matrix.properties import Property
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.protocol import Mechanism
from tallyveil.workload.workload import Workload

__all__ = ["FAMILIES", "CountMechanism"]

FAMILIES: Final = MappingProxyType(
    {
        "truncated_geometric": "discrete Laplace noise, cut off at the ends of 0..n",
        "fair": "the explicit fair mechanism on 0..n: all truths are equally likely to be reported",
        "weakly_honest": "the best mechanism on 0..n that reports the truth with a probability of"
        " at least 1/(n+1)",
        "designed": "the best mechanism on 0..n for an objective, with the properties asked for",
    }
)

_WRONG_ANSWERS: Final = Objective("L0")

# A program that takes longer is refused, before anything is charged.
_SECONDS: Final = 30.0


@dataclass(frozen=True)
class CountMechanism(Mechanism):
    """A mechanism of one family for one n.

    ``properties`` and ``objective`` are for the family ``designed``; ``properties`` include all
    that follow from them.
    """

    family: str
    n: int
    properties: frozenset[Property] = frozenset()
    objective: Objective = _WRONG_ANSWERS
    needs_range: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The canonical name: equal mechanisms have equal names."""
        return f"{self.family}({', '.join([f'n={self.n}', *self._design])})"

    @property
    def kind(self) -> str:
        """The name without n."""
        return f"{self.family}({', '.join(self._design)})" if self._design else self.family

    @property
    def _design(self) -> list[str]:
        parts = []
        if self.properties:
            parts.append("properties=" + "+".join(sorted(p.lower() for p in self.properties)))
        if self.objective.penalty != "L0":
            parts.append(f"objective={self.objective.penalty.lower()}")
        if self.objective.beyond:
            parts.append(f"beyond={self.objective.beyond}")
        if self.objective.aggregate != "sum":
            parts.append(f"over={self.objective.aggregate}")
        return parts

    @property
    def guarantee(self) -> str:
        return (
            f"{FAMILIES[self.family]}; a record that moves a count by d changes the probability"
            " of any answer by a factor of at most e^(d/scale)"
        )

    def unfit(self, workload: Workload) -> str | None:
        """As declared. It answers counts: all coefficients are 0 or 1, and a lattice step is one
        record."""
        plain = all(
            column.multiplier == 1 and all((f.coefficients == 1).all() for f in column.factors)
            for column in workload.columns
        )
        return None if plain else "answers counts only, in which each record counts 0 or 1"

    def matrix(self, scale: float) -> CountMatrix:
        """Return the law at ``scale``, proved to cost at most 1/scale for each step.

        Raises InvalidParameterValue for a scale or an n out of range, StatementTooComplex if the
        program is not solved in time, and ReceiptError if a step would cost more.
        """
        return _matrix(self, scale)

    def spread(self, scale: float) -> float:
        """Return 2b². Only this mechanism's own answers compare by it, since the errors of other
        mechanisms depend on the truth in other ways.
        """
        return 2 * scale**2

    def worst_error(self, scale: float) -> float:
        return _worst_error(self, scale) if scale else 0.0

    def interval(self, scale: float, value: int, confidence: Fraction) -> tuple[int, int]:
        """Return the narrowest interval of truths with probability ≥ ``confidence``, given the
        answer ``value`` and a flat prior on 0..n.
        """
        return _interval(self, scale, value, confidence)

    def probability(self, scale: float, value: int, low: int | None, high: int | None) -> Fraction:
        """Return P(low ≤ truth ≤ high), exactly, given the answer ``value`` and a flat prior on
        0..n; None means no bound.
        """
        least, most = (0 if low is None else low), (self.n if high is None else high)
        return posterior(self.matrix(scale), value).probability(least, most)

    def deviation(self, scale: float, value: int) -> float:
        """Return √E(truth − value)², given the answer ``value`` and a flat prior on 0..n."""
        return _deviation(self, scale, value)

    def widest(self, scale: float, confidence: Fraction) -> int:
        """Return the largest difference between the ends of `interval`, over all answers."""
        ends = (self.interval(scale, value, confidence) for value in range(self.n + 1))
        return max(high - low for low, high in ends)

    def release(self, answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
        # It is charged, so computing the matrices must not be cancelled.
        with deadline.unlimited():
            matrices = [self.matrix(scale) if scale != 0 else None for scale in receipt.scales]
        exact = open_answer(answer, receipt)
        return tuple(
            column if matrix is None else draw(matrix, column)
            for column, matrix in zip(exact, matrices, strict=True)
        )


@lru_cache(maxsize=64)
def _matrix(mechanism: CountMechanism, scale: float) -> CountMatrix:
    deadline.check()  # at n = 500 one takes a third of a second, and a statement may need many
    charged = calibrate.rate(scale, "epsilon")
    alpha, n = alpha_for(charged), mechanism.n
    match mechanism.family:
        case "truncated_geometric":
            matrix = geometric(n, alpha)
        case "fair":
            matrix = explicit_fair(n, alpha)
        case "weakly_honest":
            honest = [Property.WEAKLY_HONEST]
            matrix = choose(n, alpha, honest, cache=DesignCache(), time_limit=_SECONDS)
        case "designed":
            asked, objective = mechanism.properties, mechanism.objective
            matrix = design(n, alpha, asked, objective, cache=DesignCache(), time_limit=_SECONDS)
        case unknown:
            raise ValueError(f"no law is known for {unknown}")
    if not matrix.epsilon <= charged:
        raise ReceiptError("the mechanism is less private than what was charged")
    _ = matrix.bounds  # computed before anything is charged
    return matrix


@lru_cache(maxsize=64)
def _worst_error(mechanism: CountMechanism, scale: float) -> float:
    return float(score(mechanism.matrix(scale), Objective("L2", aggregate="max")))


@lru_cache(maxsize=8192)
def _interval(
    mechanism: CountMechanism, scale: float, value: int, confidence: Fraction
) -> tuple[int, int]:
    return posterior(mechanism.matrix(scale), value).interval(confidence)


@lru_cache(maxsize=8192)
def _deviation(mechanism: CountMechanism, scale: float, value: int) -> float:
    return math.sqrt(posterior(mechanism.matrix(scale), value).squared_error(value))
