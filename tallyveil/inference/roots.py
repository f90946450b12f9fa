"""Roots of functions, and linear algebra in one thread.

scipy.optimize is imported when the first root is searched for: importing it takes a sixth of the
time of all other imports of a server, and most statements need no root.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread", "root_between"]


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


def one_thread() -> AbstractContextManager[object]:
    """A context in which linear algebra runs in the calling thread only."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1)
    return limited


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
