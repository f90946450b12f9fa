"""Roots and linear algebra, by libraries that are set up with care.

scipy.optimize is imported when a root is first looked for: it takes as long as a sixth of all else
that a server imports, and most statements need no root.
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
    """An x within xtol + rtol |x| of a root."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=xtol, rtol=rtol))


def one_thread() -> AbstractContextManager[object]:
    """While it lasts, linear algebra runs in the thread that asks for it."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1)
    return limited


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
