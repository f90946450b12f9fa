"""Takes the best of the offers that the strategies make.

`STRATEGIES` has them by what a request names; to add one, write its file and list it here. The rule
is deterministic. First come the offers by which rows get the least variance at equal cost. Of those
that buy the same rows at the same noise, the best is that after which the ledger's highest cell has
lost least, the first of equals. One that buys other rows must clearly cost less than all of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from tallyveil.accountant import Accountant
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies import instead as others
from tallyveil.gate.strategies import optimal as designs
from tallyveil.gate.strategies.centred import centred
from tallyveil.gate.strategies.conditioned import check_apart, conditioned
from tallyveil.gate.strategies.direct import direct
from tallyveil.gate.strategies.extended import extended
from tallyveil.gate.strategies.instead import instead
from tallyveil.gate.strategies.offer import Information, Limits, Offer, Strategy
from tallyveil.gate.strategies.translated import translated
from tallyveil.mechanisms import BY_DESIGN, CONDITIONED, EXTENDED, TOGETHER
from tallyveil.mechanisms.flowchart import IMAGED, KNORM, PROJECTED
from tallyveil.mechanisms.measure import power
from tallyveil.rewriter import Workload

__all__ = ["STRATEGIES", "decide", "wanted"]

STRATEGIES: Final[Mapping[str | None, tuple[Strategy, ...]]] = {
    None: (direct, translated, designs.no_worse, instead, centred),
    PROJECTED: (direct,),
    IMAGED: (direct,),
    EXTENDED: (extended,),
    CONDITIONED: (conditioned,),
    KNORM: (conditioned,),
    **dict.fromkeys(BY_DESIGN, (designs.optimal,)),
}
"""By `Request.by_invariants`."""

_NO_DEARER: Final = Fraction(102, 100)  # times the cost as asked, at scales raised for parts
_LESS: Final = 1 - 1e-3  # of a variance is less, however rounding goes
_CLEARLY: Final = Fraction(102, 100)  # times the cost of other rows is still less than all others


def wanted(request: Request, workload: Workload, limits: Limits) -> Noise:
    """The noise that meets the request's target without history. Independent of the ledger.

    Raises FeatureNotSupported if what the request names needs exact counts that the table lacks, or
    cannot serve.
    """
    named, exact, table = request.by_invariants, limits.exact, workload.table
    mechanism = request.mechanism
    if named in TOGETHER:
        if exact is None:
            raise _needs_exact(named, table)
        mechanism = "laplace" if exact.account.measure == "epsilon" else "gaussian"
    noise = limits.choice.noise(
        workload, request.target, mechanism, additive=table in request.additive, named=named
    )
    if noise.mechanism.needs_range and exact is not None:
        check_apart(workload, exact, noise.mechanism.name)
    if named in BY_DESIGN:
        if exact is None:
            raise _needs_exact(named, table)
        return designs.wanted(request, workload, noise, exact, limits)
    return others.wanted(request, workload, noise, limits)


def decide(
    request: Request, information: Information, limits: Limits, accountant: Accountant
) -> Offer:
    """The best offer for one table. Free; depends only on public rows and what was charged.

    Raises what the strategies raise that the request names.
    """
    named = request.by_invariants
    if named is not None and limits.exact is None:
        raise _needs_exact(named, information.asked.table)
    every = [
        offer for strategy in STRATEGIES[named] for offer in strategy(request, information, limits)
    ]
    if any(offer.gain < 1 for offer in every):
        every = _least_variance(every, information.asked, limits, accountant)
    if len(every) == 1:
        return every[0]
    bought = every[0].charge.workload
    same = [offer for offer in every if offer.charge.workload is bought]
    least = min(accountant.cost(offer.charge) for offer in same)
    others = [
        offer
        for offer in every
        if offer.charge.workload is not bought and accountant.cost(offer.charge) * _CLEARLY < least
    ]
    charges = [offer.charge for offer in (*same, *others)]
    best = accountant.best(charges, request.analyst) if len(charges) > 1 else charges[0]
    # Earlier translates may be given up with it.
    offer = next(one for one in (*same, *others) if one.charge.workload is best.workload)
    return offer.charged_as(best)


def _least_variance(
    every: Sequence[Offer], asked: Offer, limits: Limits, accountant: Accountant
) -> list[Offer]:
    """Either those by which rows get less variance than as asked, or the others: whichever has the
    least variance at equal cost, of which that is a power. None may cost the budget more than the
    rows as asked do, as parts of one ε can where the budget is of ρ."""
    whole, exponent = accountant.cost(asked.charge), 2 / power(limits.account.measure)

    def least(offers: Sequence[Offer]) -> float:
        each = (one.gain * float(accountant.cost(one.charge) / whole) ** exponent for one in offers)
        return min(each, default=math.inf)

    better = [
        offer
        for offer in every
        if offer.gain < 1 and accountant.cost(offer.charge) < whole * _NO_DEARER
    ]
    others = [offer for offer in every if offer.gain == 1]
    return better if least(better) < least(others) * _LESS else others


def _needs_exact(asked: str, table: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        f'{asked} needs exact counts, and table "{table}" has none',
        hint="SET dp.mechanism = auto.",
    )
