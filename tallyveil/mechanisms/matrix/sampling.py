"""Drawing from integer weights, exactly and without floats."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import accumulate
from typing import Final, Protocol

from tallyveil.mechanisms.matrix.count_matrix import CountMatrix

__all__ = ["SYSTEM", "Source", "draw"]


class Source(Protocol):
    """Where uniform integers come from."""

    def randrange(self, stop: int, /) -> int:
        """Uniform on 0, …, stop − 1."""
        ...


SYSTEM: Final[Source] = random.SystemRandom()


def draw(matrix: CountMatrix, truth: int, source: Source = SYSTEM) -> int:
    """An output for ``truth``, with probability P[output | truth] to the last bit.

    A truth outside 0..n is first moved to the nearer end, which brings no two truths further
    apart, so that the guarantee stays: a step of one costs at most ``matrix.epsilon``.

    ``source`` is the operating system's generator; another is for tests. Sums are worked out
    afresh each time: kept ones would make the first draw for each truth slower than later ones.
    """
    column = matrix.weights[min(max(truth, 0), matrix.n)]
    return bisect_right(list(accumulate(column)), source.randrange(matrix.total))
