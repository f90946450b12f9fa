"""Noise that is drawn together, and its release on the rows of a charge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import ReceiptError
from tallyveil.inference.tree import Tree

__all__ = ["JointNoise", "release_together"]


class JointNoise(Protocol):
    """Is built from a tree, which may take time, and drawn from by many threads.

    x + u adds up as the tree's counts do, exact counts stay exact, and u is independent of x. What
    it costs to move records among cells is what the tree's own noises cost together
    (`Tree.epsilon`, `Tree.rho`), for tables that agree on what is exact.
    """

    def __init__(self, tree: Tree) -> None: ...

    def draw(self) -> list[int]:
        """u: one whole number for each leaf, in the tree's order."""
        ...


def release_together(
    answer: TrueAnswer, receipt: Receipt, tree: Tree, noise: JointNoise
) -> tuple[tuple[int, ...], ...]:
    """x + u: the first counts of the tree are the answer's rows, column by column.

    Raises ReceiptError unless the receipt paid for this answer, at the tree's scales; the noise is
    drawn before the answer is opened.
    """
    drawn = tree.sums(noise.draw())
    exact = open_answer(answer, receipt)
    _check(tree, receipt, list(map(len, exact)))
    noises = iter(drawn)
    return tuple(tuple(value + next(noises) for value in column) for column in exact)


def _check(tree: Tree, receipt: Receipt, heights: Sequence[int]) -> None:
    paid = (scale for scale, n in zip(receipt.scales, heights, strict=True) for _ in range(n))
    for law, scale in zip(tree.laws, paid, strict=False):
        if law is None or law.scale != scale:
            raise ReceiptError("the receipt was issued for noise of other scales")
