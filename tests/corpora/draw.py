"""Choices, drawn from a seed and written down, so that a failure can be told by less of them.

A generator asks `Draw` for small numbers, the simplest alternative first. The list of numbers is
the statement: cut short or made smaller it gives a simpler one, since what is missing reads as 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["Draw", "shrink"]

T = TypeVar("T")


class Draw:
    """Numbers from ``seed``, or those of ``given`` and then zeros."""

    def __init__(self, seed: int = 0, given: Sequence[int] | None = None) -> None:
        self._random = random.Random(seed)
        self._given = given
        self.made: list[int] = []

    def below(self, count: int) -> int:
        if self._given is None:
            number = self._random.randrange(count)
        else:
            place = len(self.made)
            number = self._given[place] % count if place < len(self._given) else 0
        self.made.append(number)
        return number

    def one(self, alternatives: Sequence[T]) -> T:
        return alternatives[self.below(len(alternatives))]

    def often(self, of: int) -> bool:
        """True but for one time in ``of``; shrinks to False."""
        return self.below(of) > 0

    def rarely(self, of: int) -> bool:
        """True one time in ``of``; shrinks to False."""
        return self.below(of) == of - 1


def shrink(numbers: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Fewer and smaller numbers that fail still, by leaving out pieces and by setting them to 0."""
    best = list(numbers)
    length = max(1, len(best) // 2)
    while True:
        before = list(best)
        for start in range(len(best) - length, -1, -length):
            for less in (best[:start] + best[start + length :], _zeroed(best, start, length)):
                if less != best and fails(less):
                    best = less
                    break
        if length > 1:
            length //= 2
        elif best == before:
            return best


def _zeroed(numbers: list[int], start: int, length: int) -> list[int]:
    return [0 if start <= i < start + length else n for i, n in enumerate(numbers)]
