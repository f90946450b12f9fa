"""Buys other rows that determine those asked, by a design from exact counts (`invariants.optimal`).

With dp.mechanism = optimal those asked follow with the least variance. The Gaussian noise is such
that the charge, for the rows of the design as a translate, is what the statement may cost. Unasked,
the noise is such that no row gets less precise than as asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.arrays import FloatArray
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.exact_counts import ExactCounts
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.inference.canonical import settled
from tallyveil.invariants import Design, translated
from tallyveil.mechanisms import AUTO, BY_DESIGN
from tallyveil.mechanisms.flowchart import CORRELATED
from tallyveil.rewriter import Workload
from tallyveil.workload.workload import Column

__all__ = ["ErrorComparison", "comparison", "no_worse", "optimal", "wanted"]

# A margin, so that rounding does not make a repeated statement fall short of its own answer.
_UP: Final = 1 + 1e-9
_LEAST: Final = 1.0
_ROWS: Final = 64  # the most rows for which a design is considered unasked
_WIDE: Final = 1e6  # the scale at which errors are compared


def wanted(
    request: Request, workload: Workload, noise: Noise, exact: ExactCounts, limits: Limits
) -> Noise:
    """The noise of a statement for which `optimal` or correlated is asked: the charge for a design,
    and by column the scale than which no row has a greater deviation once it is paid.

    Raises FeatureNotSupported for too many rows, if the target is not a cost, and if the table has
    an inference control, which examines rows as they are asked.
    """
    asked = request.by_invariants or request.mechanism
    if request.target.half_width is not None or limits.controlled:
        raise FeatureNotSupported(
            f"{asked} needs a target that is a cost, and a table without inference control",
            hint="SET dp.rho, or SET dp.mechanism = extended.",
        )
    own = exact.design(workload, correlated=asked == CORRELATED)
    rows = None if own is None else translated(own.column, own.translate, exact.published)
    if own is None or rows is None:
        raise FeatureNotSupported(
            f"{asked} computes the noise for all rows of a statement together, and there are too"
            " many of them, or they distinguish too many cells",
            hint="Ask for fewer rows at once, or SET dp.mechanism = extended.",
        )
    charged = Workload(workload.table, (rows,))
    (scale,) = limits.choice.scales(noise.mechanism, charged, request.target)
    scale *= _UP / own.translate.denominator
    worst = [one * scale for one in _worst(own, workload)]
    scales = tuple(max(one, _LEAST) * _UP if one else 0.0 for one in worst)
    return replace(noise, scales=scales, instead=_charge(own, workload.table, scale, request.sql))


def optimal(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """Where a design is asked for: that of the whole statement."""
    instead = information.noise.instead
    yield information.asked if instead is None else information.asked.charged_as(instead)


def no_worse(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """A design that answers no row less precisely than the rows as asked, once its answers agree
    with what is exact."""
    exact, offer = limits.exact, information.asked
    # Other rows serve if neither a half-width nor inference control is about the rows asked.
    apart = request.target.half_width is not None or limits.controlled
    if exact is None or apart or request.mechanism != AUTO:
        return
    like, workload = offer.charge, offer.charge.workload
    squared = like.mechanism == "gaussian" and exact.account.measure == "rho"
    own = exact.design(workload) if squared and 1 < sum(like.heights) <= _ROWS else None
    if own is None:
        return
    deviations = own.deviations * _units(workload.columns)
    noisy = deviations > 0
    # Of little noise on the integers the variance is less than its scale's square.
    law = information.noise.mechanism.worst_error
    errors = [law(scale) if scale else 0.0 for scale in like.scales]
    each = np.repeat(errors, like.heights) * _units(workload.columns) ** 2
    others = np.sqrt(own.projected(each))
    scale = settled(float((others[noisy] / deviations[noisy]).min()) / _UP)
    yield offer.charged_as(_charge(own, workload.table, scale, like.sql))


def _charge(design: Design, table: str, scale: float, sql: str) -> Charge:
    asked = Workload(table, (design.column,))
    return Charge(asked, "gaussian", (scale,), sql, translates=(design.translate,))


def _worst(design: Design, workload: Workload) -> list[float]:
    """The greatest deviation of each column's rows if the noise on the design has σ = 1."""
    ends = np.cumsum([column.height for column in workload.columns])[:-1]
    return [float(own.max(initial=0)) for own in np.split(design.deviations, ends)]


@dataclass(frozen=True)
class ErrorComparison:
    """Squared errors of all rows together, times 2ρ: of noise on the rows as asked and as charged,
    of noise on the design, and a ``bound`` that no Gaussian noise gets below."""

    plain: float
    charged: float
    optimal: float
    bound: float


def comparison(request: Request, offer: Offer, limits: Limits) -> ErrorComparison | None:
    """Compare Gaussian noise, as asked and as charged, with the best; None for other noise, if that
    or what another strategy makes of the statement is bought, or if it cannot be computed."""
    plain, exact = offer.asked, limits.exact
    by_strategy = offer.gain < 1 or offer.cheaper
    if exact is None or by_strategy or request.by_invariants in BY_DESIGN:
        return None
    relation = exact.account.relation
    if plain.mechanism != "gaussian" or exact.account.measure != "rho":
        return None
    columns, table = plain.workload.columns, plain.table
    own = exact.design(plain.workload)
    if own is None or translated(own.column, own.translate, exact.published) is None:
        return None
    cost = exact.accountant.cost
    wide = _WIDE * _UP / own.translate.denominator
    least = 2 * float(cost(_charge(own, table, wide, ""))) * wide**2
    each = _variances(columns, plain.scales)
    least *= float(((_units(columns) * own.deviations) ** 2).sum())
    charged = 2 * float(cost(offer.charge)) * float(own.projected(each).sum())
    rank = own.basis.shape[1]
    # Pairs of records: a ball around their columns has a radius² of d/(2(d+1)) diameters² at most.
    pairs = 2 * (rank + 1) / rank if relation.closed else 1.0
    return ErrorComparison(
        2 * float(cost(plain)) * float(each.sum()),
        least if offer.by_other_rows else charged,
        least,
        own.bound * pairs * relation.max_rows**2,
    )


def _units(columns: Sequence[Column]) -> FloatArray:
    """The size of a lattice step of each row."""
    return np.repeat([float(one.multiplier) for one in columns], [one.height for one in columns])


def _variances(columns: Sequence[Column], scales: Sequence[float]) -> FloatArray:
    """The variance that noise of these scales has on each row."""
    each = np.repeat(scales, [column.height for column in columns])
    found: FloatArray = (each * _units(columns)) ** 2
    return found
