"""Checks of the families of noise that answer queries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tallyveil.arrays import IntArray
from tallyveil.audit.experiment import Outcomes, experiment, replacement
from tallyveil.audit.finding import FALSE_ALARM, Finding, charged_for_its_law, number, subject
from tallyveil.audit.law import Chances, chances_of, drift, lower_bound, surprise
from tallyveil.mechanisms import Additive
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.zcdp import epsilon_of

__all__ = ["bounded", "follows", "noise_findings"]

_DELTAS: Final = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))
_COUNT: Final = 100


def noise_findings(family: Additive, epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Check a family in every measure it has a cost in: ``epsilon``, and ρ = ε²/2, which a pure ε
    implies.

    The charge is compared with the law's own loss, exactly. The loss that draws show is compared
    with the charge, at δ = 0 or at several δ, both under add/remove and under replace, which moves
    two counts. The draws are compared with the law, and their mean with 0.
    """
    if not family.needs_delta:
        yield from _in_measure(family, "epsilon", epsilon, subject(family.name, epsilon), draws)
    rho = epsilon**2 / 2
    yield from _in_measure(family, "rho", rho, f"{family.name} at rho {number(rho)}", draws)


def _in_measure(
    family: Additive, measure: Measure, cost: Fraction, name: str, draws: int
) -> Iterator[Finding]:
    made = experiment(family, cost, measure, count=_COUNT, draws=draws)
    moved = replacement(family, cost, measure, count=_COUNT, draws=draws)
    for label, one, counts in ((name, made, 1), (f"{name}, replace", moved, 2)):
        yield _charged(label, family, one, counts, measure, cost)
        for delta in (Fraction(0),) if measure == "epsilon" else _DELTAS:
            claim = one.claim if measure == "epsilon" else Fraction(epsilon_of(one.claim, delta))
            yield bounded(label, one.first, one.second, claim, delta)
    law = family.law(made.scale)
    yield follows(name, made.noise, chances_of(law, 2 * draws))
    chance = drift(made.noise, law)
    found = f"mean {number(float(made.noise.mean()))}, chance {number(chance)}"
    yield Finding(name, "unbiased", found, chance >= FALSE_ALARM, exact=False)


def _charged(
    name: str, family: Additive, made: Outcomes, counts: int, measure: Measure, cost: Fraction
) -> Finding:
    """Compare the charge with the law's loss for the ``counts`` that a record moves by one."""
    law = family.law(made.scale)
    step = law.epsilon_of_step if measure == "epsilon" else law.rho_of_step
    loss = math.inf if step is None else counts * step
    return charged_for_its_law(name, cost, loss, made.claim)


def bounded(
    name: str, first: IntArray, second: IntArray, epsilon: Fraction, delta: Fraction
) -> Finding:
    """Check that draws on two neighbours do not refute (ε, δ)-DP."""
    found = lower_bound(first, second, delta=float(delta), false_alarm=FALSE_ALARM)
    return Finding(
        name,
        f"epsilon at most {number(epsilon)} at delta {number(delta)}",
        f"at least {number(found.epsilon)}, by {found.event}",
        found.epsilon <= epsilon,
        exact=False,
    )


def follows(name: str, drawn: IntArray, law: Chances) -> Finding:
    """Check that draws follow their law."""
    chance = surprise(drawn, law)
    return Finding(
        name, "drawn from its law", f"chance {number(chance)}", chance >= FALSE_ALARM, exact=False
    )
