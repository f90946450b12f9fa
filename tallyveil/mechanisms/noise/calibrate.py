"""Noise scales for a statement of given cost.

With noise of scale s, a step of d costs d/s in ε and d²/(2s²) in ρ (`measure`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tallyveil.cache import Cache
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.privacy_loss import Loss, privacy_loss, sensitivity
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.units import UNIT, from_units, positive, rounded_up
from tallyveil.workload.workload import Column, Workload

__all__ = [
    "MAX_SCALE", "MIN_SCALE", "check_scale", "least_scale", "rate", "scale_loss", "scales_for",
]  # fmt: skip

# Scales and half-widths are floats, which represent all integers up to here.
MAX_SCALE = 2.0**52
# One step at a smaller scale costs more than 10⁹ ε, beyond any budget.
MIN_SCALE = 2.0**-30


# Few, since a key keeps its workload, and with it what other caches hold for that.
_losses: Final[Cache[Loss]] = Cache(64, 1 << 24, lambda _, loss: loss.cells)


def check_scale(scale: float) -> Fraction:
    """Return the scale exactly.

    Raises InvalidParameterValue unless `MIN_SCALE` ≤ scale ≤ `MAX_SCALE`.
    """
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise InvalidParameterValue(
            f"a noise scale must be from {MIN_SCALE:.0e} to {MAX_SCALE:.0e}, not {scale}"
        )
    return Fraction(scale)


def rate(scale: float, measure: Measure) -> Fraction:
    """Return the cost of one lattice step, exactly: 1/s in ε, 1/(2s²) in ρ."""
    exact = check_scale(scale)
    return 1 / exact if measure == "epsilon" else 1 / (2 * exact**2)


def scale_loss(
    workload: Workload, scales: Sequence[float], relation: Adjacency, measure: Measure
) -> Loss:
    """Return the loss of adding noise of ``scales[c]`` to column c of the integer lattice.

    Scale 0 stands for no noise and is valid only for a column that no record can move. Results are
    cached, since a statement's scales are first found and then charged by this function.

    Raises InvalidParameterValue for any other column of scale 0, for scales that are negative,
    infinite, NaN or out of range, and unless there is one scale per column.
    """
    key = workload, tuple(scales), relation, measure
    return _losses.get(key, lambda: _scale_loss(*key))


def _scale_loss(
    workload: Workload, scales: Sequence[float], relation: Adjacency, measure: Measure
) -> Loss:
    if len(scales) != len(workload.columns):
        raise InvalidParameterValue(
            f"{len(workload.columns)} columns need as many noise scales, not {len(scales)}"
        )
    noisy: list[Column] = []
    for column, scale in zip(workload.columns, scales, strict=True):
        if scale != 0:
            noisy.append(column)
        elif sensitivity(column, relation, measure) != 0:
            raise InvalidParameterValue("noise scale 0 for a column that depends on records")
    rates = [rate(scale, measure) for scale in scales if scale != 0]
    return privacy_loss(noisy, rates, relation, measure)


def scales_for(
    workload: Workload,
    cost: Fraction | float | str,
    relation: Adjacency,
    measure: Measure,
    like: Sequence[float] | None = None,
) -> tuple[float, ...]:
    """Return one scale per column, rounded up, such that the statement costs at most ``cost`` in
    ``measure``, counted in whole units.

        in ε:  s_c = T Δ_c / ε          in ρ:  s_c = √(T Δ_c² / 2ρ)

    Δ_c is column c's own sensitivity (L1 in ε, L2 in ρ), and Δ_c² has the factor
    `Adjacency.spread`. T is the cost of all columns together if each costs 1 by itself. So a column
    gets noise in proportion to its sensitivity, and columns about different records share a cost:
    T = 1 for disjoint groups, T = the number of columns if one record is in all. Columns with
    Δ_c = 0 get 0.0.

    The scales are in proportion to ``like`` instead, if given. These must be positive for columns
    with Δ_c > 0.

    Raises InvalidParameterValue if the cost is not positive and finite, or too small for 64-bit
    noise.
    """
    budget = math.floor(positive(cost, measure) * UNIT)
    steps: list[Fraction | int] = [
        sensitivity(column, relation, measure) * relation.spread(column, measure)
        for column in workload.columns
    ]
    shared = Fraction(relation.shared(measure))
    noisy = [column for column, step in zip(workload.columns, steps, strict=True) if step]
    if not noisy:
        return (0.0,) * len(steps)
    if len(noisy) > 1:
        if like is not None:
            own_steps = [Fraction(one) ** power(measure) for one in like]
            # The costliest column costs 1 by itself. Losses of many times that are cut off.
            unit = max(step / own for step, own in zip(steps, own_steps, strict=True) if step)
            steps = [own * unit if step else 0 for step, own in zip(steps, own_steps, strict=True)]
        rates = [1 / Fraction(step) for step in steps if step]
        shared = from_units(privacy_loss(noisy, rates, relation, measure).bound)
    allowed = budget
    while allowed > 0:
        scales = tuple(least_scale(shared * step * UNIT / allowed, measure) for step in steps)
        used = scale_loss(workload, scales, relation, measure).bound
        if used <= budget:
            return scales
        # Each tensor is rounded up, which can exceed the budget by a few units: leave them out.
        allowed -= used - budget
    raise InvalidParameterValue(
        f"{measure} {float(positive(cost, measure)):g} is too small to calibrate noise to"
    )


def least_scale(ratio: Fraction, measure: Measure) -> float:
    """Return the least float s with s ≥ ratio, or in ρ with 2s² ≥ ratio."""
    limit = Fraction(MAX_SCALE)
    if ratio > (limit if measure == "epsilon" else 2 * limit**2):
        raise InvalidParameterValue(
            f"{measure} is too small: the noise would not fit 64-bit integers",
            hint=f"Ask for a larger dp.{measure}.",
        )
    if measure == "epsilon":
        return rounded_up(ratio)
    root = math.nextafter(math.sqrt(ratio / 2), 0.0)
    while 2 * Fraction(root) ** 2 < ratio:
        root = math.nextafter(root, math.inf)
    return root
