"""The posterior of a count 0 … n from answers that are not the truth plus noise.

Mechanisms with a public range (COUNT) answer with a column of a matrix P[i|j]. An answer i says
of each truth j how likely it was, P[i|j]; independent answers multiply, and a flat prior on
0 … n adds nothing:  P(j | i_1, …, i_r) ∝ Π_s P_s[i_s|j].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.noise import FloatArray

__all__ = ["count_posterior"]


def count_posterior(likelihoods: Sequence[FloatArray]) -> FloatArray:
    """The probability of each count 0 … n, given vectors P_s[i_s|·] of length n + 1.

    Raises InvalidParameterValue unless they are of one length, finite and not negative, and some
    count is possible under all of them.
    """
    if not likelihoods:
        raise InvalidParameterValue("a posterior needs at least one likelihood")
    stacked = [np.asarray(vector, dtype=np.float64) for vector in likelihoods]
    if len({v.shape for v in stacked}) != 1 or stacked[0].ndim != 1 or not stacked[0].size:
        raise InvalidParameterValue("likelihoods are vectors of one length")
    table = np.array(stacked)
    if not ((table >= 0) & (table < np.inf)).all():
        raise InvalidParameterValue("likelihoods are finite and not negative")
    with np.errstate(divide="ignore"):
        logs = np.log(table).sum(axis=0)
    top = float(logs.max())
    if top == -np.inf:
        raise InvalidParameterValue("no count is possible under all of the answers")
    weights = np.exp(logs - top)
    result: FloatArray = weights / weights.sum()
    return result
