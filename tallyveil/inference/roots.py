"""The root of a function that changes its sign between two numbers, by Brent's method.

scipy.optimize is imported when a root is first looked for: it takes as long as a sixth of all else
that a server imports, and most statements need no root.
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
    """An x within xtol + rtol |x| of a root."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=xtol, rtol=rtol))
