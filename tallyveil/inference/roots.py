"""Roots of functions, on a grid: a root itself differs in its last digits between processors.

scipy.optimize is imported when the first root is searched for: importing it takes a sixth of the
time of all other imports of a server, and most statements need no root.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["root_between"]


def root_between(
    function: Callable[[float], float], low: float, high: float, bits: int
) -> tuple[float, float]:
    """Return the neighbours a < b among the numbers of so many ``bits`` with f(a) ≤ 0 < f(b), for a
    ``function`` f that increases, 0 < f⁻¹(0), f(low) ≤ 0 < f(high).

    They depend on the last digits of f only if it is 0 but for these at one of them.
    """
    from scipy.optimize import brentq

    near = 2.0 ** (-bits - 1)
    root = float(brentq(function, low, high, xtol=low * near, rtol=near))
    unit = math.ldexp(1.0, math.frexp(root)[1] - bits)
    n = math.floor(root / unit)
    while function(n * unit) > 0:
        n -= 1
    while function((n + 1) * unit) <= 0:
        n += 1
    return n * unit, (n + 1) * unit
