"""What becomes of a mechanism's law when its outcomes are constrained (TWO-VIEWS): by conditioning,
imaging and mixture, on laws of finitely many outcomes; and what that costs.

Conditioning is belief revision: the constraint always held, and what contradicts it is left out.
Imaging is belief update: the outcome is moved to the nearest that satisfies the constraint. Imaging
and mixture are post-processing of what was drawn, and cost nothing. Conditioning on linear
equalities costs nothing where noise is added to tables that agree on them, since then the chance of
the constraint is the same for all of them (Lemma 3.3). Else that chance depends on the data, and so
does the law that is left: the loss can be more by what the logarithms of these chances differ by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias, TypeVar

from tallyveil.errors import InvalidParameterValue

__all__ = ["Law", "conditioned", "imaged", "inequality_loss", "loss", "mixed", "union_loss"]

S = TypeVar("S", bound=Hashable)
Law: TypeAlias = Mapping[S, Fraction | float]
"""Outcomes and how likely they are."""


def conditioned(law: Law[S], possible: Collection[S]) -> dict[S, Fraction | float]:
    """P(s | C) = P(s) / P(C) for the outcomes s of C.

    Raises InvalidParameterValue where none of them is likely at all.
    """
    inside = {outcome: chance for outcome, chance in law.items() if outcome in possible}
    total = sum(inside.values())
    if not total > 0:
        raise InvalidParameterValue("nothing can be conditioned on what has probability 0")
    return {outcome: chance / total for outcome, chance in inside.items()}


def imaged(law: Law[S], nearest: Callable[[S], S]) -> dict[S, Fraction | float]:
    """Each outcome's probability goes to the one nearest to it."""
    found: dict[S, Fraction | float] = {}
    for outcome, chance in law.items():
        place = nearest(outcome)
        found[place] = found.get(place, 0) + chance
    return found


def mixed(laws: Sequence[Law[S]], weights: Sequence[Fraction | float]) -> dict[S, Fraction | float]:
    """Σ λ_i P_i, for public λ: no loss is more than the largest of the P_i (Theorem 3.9)."""
    found: dict[S, Fraction | float] = {}
    for law, weight in zip(laws, weights, strict=True):
        for outcome, chance in law.items():
            found[outcome] = found.get(outcome, 0) + weight * chance
    return found


def loss(one: Law[S], other: Law[S]) -> float:
    """max |ln P(s) / P′(s)|; infinite where only one of them is 0."""
    worst = 0.0
    for outcome in {*one, *other}:
        here, there = one.get(outcome, 0), other.get(outcome, 0)
        if here or there:
            worst = max(worst, abs(math.log(here / there)) if here and there else math.inf)
    return worst


def inequality_loss(epsilon: float) -> float:
    """What a count costs whose discrete Laplace noise of scale 1/ε is conditioned on the answer not
    being negative, rounded up: (1 + γ) ε = ε + ln(1 + a − a²), a = e^{−ε}, under add/remove.

    The chance of an answer ≥ 0 is 1 − a^{x+1} / (1 + a) of a count x; of 0 and 1 these differ by
    the factor 1 + a − a², and of larger counts by less. γ is near 1 where ε is small, so that 2ε is
    what conditioning on an inequality costs of which nothing else is known.
    """
    if not 0 < epsilon < math.inf:
        raise InvalidParameterValue(f"an epsilon is positive and finite, not {epsilon}")
    a = math.exp(-epsilon)
    return (epsilon + math.log1p(a - a * a)) * (1 + 1e-12)


def union_loss(first: float, second: float, chances: Sequence[tuple[float, float]]) -> float:
    """What conditioning on C ∪ C′ costs, where C and C′ are disjoint, and cost ``first`` and
    ``second`` alone: max(ε_C, ε_C′) and the loss of λ = P(C) / P(C ∪ C′).

    ``chances`` has P(C) and P(C′) of each of some neighbouring tables. The outcome shows in which
    of the two it lies; that it costs no more than they do alone (Theorem 3.5, part 2) is false.
    """
    laws = [{"C": a / (a + b), "C'": b / (a + b)} for a, b in chances]
    return max(first, second) + max(
        (loss(one, other) for one in laws for other in laws), default=0.0
    )
