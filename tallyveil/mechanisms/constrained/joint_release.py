"""Releases of counts that are published exactly, or whose noise is drawn jointly."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import ReceiptError
from tallyveil.inference.conditional.tree import Tree
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tallyveil.mechanisms.losses.privacy_loss import Loss, together_loss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.workload.workload import Workload

__all__ = ["AgentNoise", "published", "release_together"]


def published(answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
    """Open counts that the policy publishes exactly, against a receipt for scale 0.

    Raises ReceiptError if the receipt is for noise, and as `open_answer`.
    """
    if any(receipt.scales):
        raise ReceiptError("the receipt is for noise")
    return open_answer(answer, receipt)


def release_together(
    answer: TrueAnswer, receipt: Receipt, tree: Tree, noise: Conditioned
) -> tuple[tuple[int, ...], ...]:
    """Open the answer x and return x + u, with noise u.

    The first counts of the tree are the answer's rows, column by column. The result adds up as the
    tree's counts do, exact counts stay exact, and u is independent of x. Moving records among cells
    costs what the tree's own noises cost together (`Tree.epsilon`, `Tree.rho`), for tables that
    agree on what is exact. The noise is drawn before the answer is opened.

    Raises ReceiptError unless the receipt paid for this answer at the tree's scales.
    """
    drawn = tree.sums(noise.draw())
    exact = open_answer(answer, receipt)
    paid = (s for s, own in zip(receipt.scales, exact, strict=True) for _ in own)
    for law, scale in zip(tree.laws, paid, strict=False):
        if law is None or law.scale != scale:
            raise ReceiptError("the receipt was issued for noise of other scales")
    noises = iter(drawn)
    return tuple(tuple(value + next(noises) for value in column) for column in exact)


class AgentNoise:
    """The part that one agent releases of counts that add up over several agents (`shared`).

    A ledger charges for Laplace noise on each of the agent's counts, drawn jointly; the guarantee
    is for tables that agree on the totals over all agents. The part is released once, and the
    ledger does not store it.
    """

    name = "agents"

    def loss(
        self, workload: Workload, scales: Sequence[float], relation: Adjacency, measure: Measure
    ) -> Loss:
        rates = [rate(scale, measure) for scale in scales]
        return together_loss(workload.columns, rates, relation, measure)

    def release(
        self, answer: TrueAnswer, receipt: Receipt, noise: Sequence[int]
    ) -> tuple[int, ...]:
        """Open the counts of one column and add ``noise``. Raises ReceiptError as `open_answer`."""
        (counts,) = open_answer(answer, receipt)
        return tuple(count + drawn for count, drawn in zip(counts, noise, strict=True))
