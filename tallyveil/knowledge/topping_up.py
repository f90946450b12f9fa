"""The most noise with which a column's rows, together with what is known of them, meet a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tallyveil.inference import combined, top_up
from tallyveil.knowledge.estimated import Estimated
from tallyveil.mechanisms import Additive

__all__ = ["topped_up"]

# Bought for a little less, so that what rounding adds later does not exceed the target.
_MARGIN: Final = 1 - 1e-6


def topped_up(
    noise: Additive,
    alone: float,
    rows: Sequence[Estimated | None],
    half_width: Fraction,
    confidence: Fraction,
) -> float:
    """A scale at least ``alone``, at which the purchase would meet the target without history.

    ``half_width`` is in lattice units. One scale serves all rows; rows whose errors have one law
    are looked at once, those that know least first.
    """
    if alone == 0 or any(row is None for row in rows):
        return alone
    target = float(half_width) * _MARGIN
    laws = {row.signature: row for row in rows if row is not None}
    widest = sorted(laws.values(), key=lambda row: -row.half_width(confidence))
    family = noise.law(alone).family
    scale = math.inf
    for row in widest:
        if scale < math.inf:
            together = combined(row.error, family, scale).error
            if together.half_width(confidence) <= target:
                continue
        found = top_up(row.error, target, confidence, family)
        scale = min(scale, alone if found is None else max(found.scale, alone))
        if scale <= alone:
            return alone
    return scale
