"""The part that one agent releases of counts that add up over several (`shared`)."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.mechanisms.losses.privacy_loss import Loss, together_loss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.mechanisms.relation import Relation
from tallyveil.workload.workload import Workload

__all__ = ["AgentNoise"]


class AgentNoise:
    """What an agent's part costs in a ledger: that of Laplace noise on each of its counts, drawn
    together, for tables that agree on the totals over all agents. It is answered once, outside the
    ledger."""

    name = "agents"

    def loss(
        self, workload: Workload, scales: Sequence[float], relation: Relation, measure: Measure
    ) -> Loss:
        rates = [rate(scale, measure) for scale in scales]
        return together_loss(workload.columns, rates, relation, measure)

    def release(
        self, answer: TrueAnswer, receipt: Receipt, noise: Sequence[int]
    ) -> tuple[int, ...]:
        """The counts of one column and noise for each. Raises ReceiptError as `open_answer`."""
        (counts,) = open_answer(answer, receipt)
        return tuple(count + drawn for count, drawn in zip(counts, noise, strict=True))
