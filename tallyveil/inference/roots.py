"""Roots of functions.

scipy.optimize is imported when the first root is searched for: importing it takes a sixth of the
time of all other imports of a server, and most statements need no root.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["root_between"]


def root_between(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float = 2e-12,
    rtol: float = 1e-14,
) -> float:
    """Return an x within xtol + rtol |x| of a root."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=xtol, rtol=rtol))
