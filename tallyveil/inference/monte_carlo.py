"""BAYES Algorithm 1: the law of an error by sampling, rounded to integers.

It stands beside `ErrorLaw` to be compared with it: nothing is released by it, and no interval
relies on it. The noise is Laplace.
"""

from __future__ import annotations

import numpy as np

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.noise import FloatArray

__all__ = ["expected_error", "monte_carlo"]

_CHUNK = 2_000_000


def monte_carlo(
    coefficients: FloatArray, scales: FloatArray, samples: int, generator: np.random.Generator
) -> FloatArray:
    """u, of odd length: u[c + i] is the share of ``samples`` of Σ A_k N_k that round to i, c the
    middle (BAYES Algorithm 1). Time O(m · samples).

    Raises InvalidParameterValue unless there is at least one sample.
    """
    if samples < 1:
        raise InvalidParameterValue(f"at least one sample is needed, not {samples}")
    sizes = np.abs(coefficients) * scales
    values = np.zeros(samples)
    step = max(1, _CHUNK // max(1, samples))
    for start in range(0, len(sizes), step):
        part = sizes[start : start + step]
        values += part @ generator.laplace(size=(len(part), samples))
    rounded = np.rint(values).astype(np.int64)
    reach = int(np.abs(rounded).max())
    counts = np.bincount(rounded + reach, minlength=2 * reach + 1)
    result: FloatArray = counts / samples
    return result


def expected_error(mass: FloatArray, samples: int) -> float:
    """A bound of E Σ_i (u_i − E u_i)², |u|/(m_s − 1) · max u (1 − max u) (BAYES Corollary 4.9)."""
    top = float(mass.max())
    return len(mass) / (samples - 1) * top * (1 - top)
