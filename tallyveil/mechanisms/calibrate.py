"""Noise scales for a statement that may cost ε, when a lattice step costs 1/b."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.loss import Loss, privacy_loss, sensitivity
from tallyveil.mechanisms.relation import Relation
from tallyveil.mechanisms.units import UNIT, from_units, positive
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["MAX_SCALE", "MIN_SCALE", "inverse_scale", "scale_loss", "scales_for"]

# Noise of a larger scale would not fit the 64-bit integers it is drawn as.
MAX_SCALE = 2.0**52
# One step at a smaller scale costs more than 10⁹ ε, beyond any budget.
MIN_SCALE = 2.0**-30


def inverse_scale(scale: float) -> Fraction:
    """1/b exactly: what one lattice step costs in ε under (discrete) Laplace noise.

    Raises InvalidParameterValue unless `MIN_SCALE` ≤ scale ≤ `MAX_SCALE`.
    """
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise InvalidParameterValue(
            f"a noise scale is a number from {MIN_SCALE:.0e} to {MAX_SCALE:.0e}, not {scale}"
        )
    return 1 / Fraction(scale)


def scale_loss(workload: Workload, scales: Sequence[float], relation: Relation) -> Loss:
    """The loss of adding noise of ``scales[c]`` to column c of the integer lattice.

    Scale 0 stands for no noise and is right only for a column no record can move.

    Raises InvalidParameterValue for any other column of scale 0, and for scales that are
    negative, infinite, NaN or too many.
    """
    if len(scales) != len(workload.columns):
        raise InvalidParameterValue(
            f"{len(workload.columns)} columns need as many noise scales, not {len(scales)}"
        )
    noisy: list[Column] = []
    for column, scale in zip(workload.columns, scales, strict=True):
        if scale != 0:
            noisy.append(column)
        elif sensitivity(column, relation) != 0:
            raise InvalidParameterValue("noise scale 0 for a column that depends on records")
    return privacy_loss(noisy, [inverse_scale(b) for b in scales if b != 0], relation)


def scales_for(
    workload: Workload, epsilon: Fraction | float | str, relation: Relation
) -> tuple[float, ...]:
    """b_c = T Δ_c / ε, rounded up until the statement's cost in whole units is at most ε.

    Δ_c is column c's own sensitivity and T the cost at b_c = Δ_c, so a column gets noise in
    proportion to its sensitivity, and columns about different records share: T = 1 for disjoint
    groups, T = the number of columns if one record is in all. Columns with Δ_c = 0 get 0.0.

    Raises InvalidParameterValue if ε is not positive and finite, or too small for 64-bit noise.
    """
    budget = math.floor(positive(epsilon, "epsilon") * UNIT)
    steps = [sensitivity(column, relation) for column in workload.columns]
    noisy = [(c, s) for c, s in zip(workload.columns, steps, strict=True) if s]
    if not noisy:
        return (0.0,) * len(steps)
    unit_rates = [Fraction(1, s) for _, s in noisy]
    shared = from_units(privacy_loss([c for c, _ in noisy], unit_rates, relation).bound)
    allowed = budget
    while allowed > 0:
        scales = tuple(_round_up(shared * step * UNIT / allowed) for step in steps)
        cost = scale_loss(workload, scales, relation).bound
        if cost <= budget:
            return scales
        # Several tensors are rounded one by one: make room for these units.
        allowed -= cost - budget
    raise InvalidParameterValue(
        f"epsilon {float(positive(epsilon, 'epsilon')):g} is too small to calibrate noise to"
    )


def _round_up(scale: Fraction) -> float:
    if scale > Fraction(MAX_SCALE):
        raise InvalidParameterValue(
            "epsilon is too small: the noise would not fit 64-bit integers",
            hint="Ask for a larger dp.epsilon.",
        )
    nearest = float(scale)
    return nearest if Fraction(nearest) >= scale else math.nextafter(nearest, math.inf)
