"""Noise that adds up as the rows of a purchase do: `dp.mechanism = conditioned`, or knorm.

The bought rows and the invariants form a tree. The noise is independent noise, conditioned on
adding up in this tree and drawn exactly. It costs what the independent noise costs, and spreads
less. The answers are integers that satisfy the invariants as they are drawn.

On disjoint groups, Laplace noise conditioned on some of their sums being 0 has weights e^{−‖u‖₁/b}
there: the k-norm mechanism, whose body is the hull of the moves of a record between groups that
leave these sums unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Charge, Drawn, Joint
from tallyveil.cache import Cache
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.exact_counts import ExactCounts
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.gate.strategies.translated import translated
from tallyveil.inference import ErrorLaw
from tallyveil.inference.conditional.conditional import ConditionalLaw
from tallyveil.invariants import Hierarchy
from tallyveil.mechanisms import CONDITIONED, Adjacency, sensitivity
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tallyveil.mechanisms.flowchart import KNORM
from tallyveil.rewriter import Workload
from tallyveil.workload.workload import Column

__all__ = ["Spread", "check_apart", "conditioned", "noise_of", "spread"]

_ROW: Final = 500  # bytes that a drawn row takes in the cache
_WIDEST: Final = 64.0  # times the independent noise that has the half-width, at most
_NEAR: Final = 1.005  # the ratio of two factors at which the search for the best ends
_HINT: Final = "SET dp.mechanism = imaged, or auto: both agree with the invariants too."


def conditioned(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """The rows with joint noise; with independent noise if they do not add up.

    Raises FeatureNotSupported if the rows are no hierarchy, or if only independent noise has the
    (ε, δ) that the target asks for, and StatementTooComplex for too many rows, or too wide noise,
    to be drawn jointly and exactly.
    """
    exact, asked = limits.exact, request.by_invariants or CONDITIONED
    if exact is None:
        return
    tree = _checked(request, information.asked.charge.workload, exact, asked)
    offer = information.asked
    if tree.ties:
        offer = _widened(request, offer, tree, limits, asked)
    for one in (offer, *translated(request, information._replace(asked=offer), limits)):
        if not tree.ties:
            yield one
            continue
        joint, drawn = _law(one.charge, tree, asked)
        noise_of(drawn)
        yield one.charged_as(replace(one.charge, mechanism=CONDITIONED, joint=joint))


_NOISES: Final[Cache[Conditioned]] = Cache(
    1024, 1 << 28, lambda _, noise: 8 * noise.numbers + _ROW * noise.rows
)


def noise_of(drawn: Drawn) -> Conditioned:
    """What the noise is drawn from; slow for the first time."""
    return _NOISES.get(drawn, lambda: Conditioned(drawn.tree))


def check_apart(workload: Workload, exact: ExactCounts, asked: str) -> None:
    """Raises FeatureNotSupported unless no sum of the rows, which answers of mechanism ``asked``
    would miss, is exact."""
    if exact.tied(workload):
        raise FeatureNotSupported(
            f'{asked} cannot answer this about table "{workload.table}": its answers are biased'
            " and do not agree with exact counts, which tie the rows together",
            hint="SET dp.mechanism = auto, or ask for fewer rows at once.",
        )


class Spread(NamedTuple):
    """How joint noise spreads: by column its least and greatest deviation and that of independent
    noise, in the column's units. ``invariants``: the SQL of those that take part."""

    invariants: list[str]
    deviations: Mapping[int, tuple[float, float, float]]


def spread(offer: Offer, limits: Limits) -> Spread | None:
    """How far the noise spreads, and the invariants that it adds up to; None if it is
    independent."""
    charge, exact = offer.charge, limits.exact
    drawn = charge.drawn_together
    tree = None if exact is None or drawn is None else exact.hierarchy(charge.workload)
    if exact is None or drawn is None or not isinstance(tree, Hierarchy):
        return None
    numbers, laws = drawn.marginals
    each = [law.functional(np.array([place]), np.ones(1)).variance for law, place in laws]
    own = dict[int, tuple[float, float, float]]()
    for number, (column, rows) in zip(offer.columns, _rows(charge), strict=True):
        law = drawn.tree.laws[rows.start]
        plain = 0.0 if law is None or not law.scale else law.variance
        variances = [plain if n < 0 else each[n] for n in {*numbers[rows].tolist()}]
        unit = float(column.multiplier)
        low, high = min(variances), max(variances)
        least, most, alone = (unit * math.sqrt(v) for v in (low, high, plain))
        own[number] = least, most, alone
    return Spread(list(dict.fromkeys(exact.declared[n] for n in tree.declared)), own)


def _checked(request: Request, workload: Workload, exact: ExactCounts, asked: str) -> Hierarchy:
    """How the rows add up that mechanism ``asked`` buys. Raises as `conditioned`."""
    reason = exact.no_joint_noise or (_no_norm(workload, exact) if asked == KNORM else None)
    tree = reason or exact.hierarchy(workload)
    if isinstance(tree, str):
        raise FeatureNotSupported(
            f'{asked} cannot answer this about table "{workload.table}": {tree}', hint=_HINT
        )
    in_delta = request.target.epsilon is not None and exact.account.measure == "rho"
    if tree.ties and in_delta and request.target.calibration != "zcdp":
        # Its τ² is for noise on all integers: those that add up lie further apart.
        raise FeatureNotSupported(
            f"{asked} noise has an epsilon and a delta by way of rho only, but"
            f" dp.calibration = {request.target.calibration} is for independent noise",
            hint="SET dp.calibration = zcdp.",
        )
    return tree


def _widened(request: Request, offer: Offer, tree: Hierarchy, limits: Limits, asked: str) -> Offer:
    """The offer with the widest joint noise that meets a half-width, since joint noise spreads less
    than the independent noise that its scales were chosen for."""
    charge, half = offer.charge, request.target.half_width
    if half is None:
        return offer
    scales = _widest(charge, tree, half, request.target.confidence, asked)
    if scales == charge.scales or offer.raised_to_least_cost:
        return offer
    noise = Noise(offer.mechanism, scales)
    paid = limits.choice.at_least_cost(noise, charge.workload, scales)
    charge = replace(charge, scales=paid)
    return replace(offer, charge=charge, raised_to_least_cost=paid != scales)


def _widest(
    charge: Charge, tree: Hierarchy, half: Fraction, confidence: Fraction, asked: str
) -> tuple[float, ...]:
    """The scales of a charge, as wide as the half-width allows."""
    _, drawn = _law(charge, tree, asked)
    numbers, laws = drawn.marginals
    most = np.full(len(laws), math.inf)
    tied = list[bool]()
    for column, rows in _rows(charge):
        own = numbers[rows]
        tied.append(bool((own >= 0).any()))
        if tied[-1] and (own < 0).any():
            return charge.scales
        if tied[-1]:
            most[own] = np.minimum(most[own], math.floor(half / column.multiplier))
    limits = [_Limit(*law, own) for law, own in zip(laws, most.tolist(), strict=True)]
    factor = _factor(limits, confidence)
    return tuple(
        scale * factor if own else scale for scale, own in zip(charge.scales, tied, strict=True)
    )


def _no_norm(workload: Workload, exact: ExactCounts) -> str | None:
    """Why the noise is not that of a k-norm, as the end of a sentence; None if it is."""
    if exact.account.measure != "epsilon":
        return "it needs a budget of epsilon"
    disjoint = len(workload.columns) == 1 and (
        sensitivity(workload.columns[0], Adjacency("add_remove"), "epsilon") <= 1
    )
    return None if disjoint else "it needs counts of one set of disjoint groups"


def _law(charge: Charge, tree: Hierarchy, asked: str) -> tuple[Joint, Drawn]:
    joint = Joint(CONDITIONED, sum(charge.heights), tree.parents)
    try:
        drawn = replace(charge, joint=joint).drawn_together
    except ValueError:
        drawn = None
    if drawn is None:
        raise FeatureNotSupported(
            f"{asked} cannot answer this: rows that add up would have noise of several scales",
            hint=_HINT,
        )
    return joint, drawn


class _Limit(NamedTuple):
    """The greatest half-width that joint noise may have."""

    law: ConditionalLaw
    place: int
    most: float

    def half_width(self, factor: float, confidence: Fraction) -> float:
        """The half-width of noise that is ``factor`` times as wide."""
        deadline.check()
        noises = self.law.scaled(factor).single(self.place)
        return ErrorLaw(np.ones(1), noises).half_width(confidence)


def _rows(charge: Charge) -> Iterator[tuple[Column, slice]]:
    """The columns of a charge, and which of the charge's rows belong to each."""
    first = 0
    for column in charge.workload.columns:
        yield column, slice(first, first + column.height)
        first += column.height


def _factor(limits: Sequence[_Limit], confidence: Fraction) -> float:
    """How many times as wide all noises may be; 1 if they may not be wider."""

    def fit(factor: float) -> bool:
        return all(one.half_width(factor, confidence) <= one.most for one in limits)

    # The tightest limit comes first: it is nearly always the first to be exceeded.
    limits = sorted(limits, key=lambda one: one.most - one.half_width(1.0, confidence))
    low, high = 1.0, 1.25
    while high < _WIDEST and fit(high):
        low, high = high, high * 1.25
    while high > low * _NEAR:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low
