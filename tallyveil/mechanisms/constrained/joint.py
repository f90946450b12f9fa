"""The release of the rows of a charge with noise that is drawn together."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import ReceiptError
from tallyveil.inference.tree import Tree
from tallyveil.mechanisms.constrained.conditioned import Conditioned

__all__ = ["release_together"]


def release_together(
    answer: TrueAnswer, receipt: Receipt, tree: Tree, noise: Conditioned
) -> tuple[tuple[int, ...], ...]:
    """x + u: the first counts of the tree are the answer's rows, column by column. It adds up as
    the tree's counts do, exact counts stay exact, and u is independent of x. What it costs to move
    records among cells is what the tree's own noises cost together (`Tree.epsilon`, `Tree.rho`),
    for tables that agree on what is exact.

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
