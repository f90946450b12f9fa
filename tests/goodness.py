"""Whether what was drawn has a law."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["surprise"]


def surprise(drawn: Iterable[Hashable], law: Mapping[Any, float]) -> float:
    """The p-value of Pearson's χ²: how likely draws from the law are to lie so far off or further.

    Outcomes that are expected less than ten times are one; where that one is so rare, too, of a
    sound sampler's draws no hundred are of them.
    """
    found = Counter(drawn)
    number = found.total()
    common = [outcome for outcome, chance in law.items() if chance * number >= 10]
    seen = [found[outcome] for outcome in common]
    expected = [law[outcome] * number for outcome in common]
    rest, seen_rest = number - math.fsum(expected), number - sum(seen)
    if rest >= 10:
        seen, expected = [*seen, seen_rest], [*expected, rest]
    if len(seen) < 2 or (rest < 10 and seen_rest >= 100):
        return float(seen_rest < 100)
    return float(stats.chisquare(seen, np.array(expected) * sum(seen) / sum(expected)).pvalue)
