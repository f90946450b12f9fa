"""No noise: counts that the policy publishes exactly."""

from __future__ import annotations

from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import ReceiptError

__all__ = ["published"]


def published(answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
    """The counts, against a receipt for no noise.

    Raises ReceiptError for any other.
    """
    if any(receipt.scales):
        raise ReceiptError("the receipt is for noise")
    return open_answer(answer, receipt)
