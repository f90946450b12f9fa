"""Product sanitisation: each record is perturbed independently, once (METRIC Thm 5).

A record is split into parts, each an attribute or several taken together, and each part is
perturbed independently by a one-record mechanism that is ε_c-DP under replacement. If two records
differ in the parts c ∈ S, the probabilities of any output differ by a factor of at most
e^{Σ_{c∈S} ε_c}, and replacing a record of the table changes one factor of the product.

A ledger records it as a workload with one column per part, the identity over the part's cells, at
scales b_c = 2/ε_c: a pair of cells that differs in part c pays two steps of 1/b_c, which is ε_c; a
pair that agrees in it pays nothing. Releasing the parts' counts with Laplace noise would cost the
same. Under add/remove it is not private at any ε, since it reveals the number of records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import InvalidParameterValue, ReceiptError
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.privacy_loss import Loss, privacy_loss
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.records.grid import scale_above
from tallyveil.mechanisms.records.one_record import OneRecord
from tallyveil.mechanisms.units import UNIT
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = ["Sanitiser", "spent"]


def spent(scale: float) -> Fraction:
    """Return ε = 2/b, exactly. Raises InvalidParameterValue unless b is positive and finite."""
    if not 0 < scale < math.inf:
        raise InvalidParameterValue(f"a scale of a sanitised copy must be positive, not {scale}")
    return 2 / Fraction(scale)


class Sanitiser:
    """The family of sanitised copies; scales are b_c = 2/ε_c."""

    name = "sanitise"

    def scales_for(
        self, workload: Workload, epsilons: Sequence[Fraction], relation: Adjacency
    ) -> tuple[float, ...]:
        """Return scales at which each part costs at most its ε, and all together at most the sum.

        Raises InvalidParameterValue if an ε is too small for 64-bit noise, and as `loss`.
        """
        allowed = math.floor(sum(epsilons) * UNIT)
        shrink = Fraction(1)
        while shrink > 0:
            scales = tuple(scale_above(2 / (epsilon * shrink)) for epsilon in epsilons)
            # Both halves of a pair's loss are rounded up, which can exceed the sum by a few units.
            excess = self.loss(workload, scales, relation, "epsilon").bound - allowed
            if excess <= 0:
                return scales
            shrink -= Fraction(excess, allowed)
        raise InvalidParameterValue("epsilon is too small for a sanitised copy")

    def loss(
        self, workload: Workload, scales: Sequence[float], relation: Adjacency, measure: Measure
    ) -> Loss:
        """Return the loss of each pair of cells: Σ ε_c in ε, Σ ε_c²/2 in ρ, over the parts in which
        it differs.

        A pair that differs in part c moves two rows of it by one each, so each row costs
        ε_c/2 = 1/b_c or ε_c²/4 = 1/b_c². The parts are perturbed independently, so their Rényi
        divergences add up (`measure`).

        Raises InvalidParameterValue unless the number of records is public, and each column is
        the identity over its cells with a scale of its own.
        """
        if not relation.closed:
            raise InvalidParameterValue(
                "a sanitised copy reveals the number of records, which is confidential here"
            )
        if len(scales) != len(workload.columns) or not all(map(_identity, workload.columns)):
            raise InvalidParameterValue("a sanitised copy is charged for whole parts of records")
        rates = [(spent(b) / 2) ** power(measure) for b in scales]
        return privacy_loss(workload.columns, rates, relation, measure)

    def release(
        self,
        records: TrueAnswer,
        receipt: Receipt,
        workload: Workload,
        laws: Sequence[OneRecord],
    ) -> tuple[IntArray, ...]:
        """Open the records, perturb them, and return the codes of each part, record by record.

        Records are sorted by their perturbed codes, so that their order reveals nothing.

        Raises ReceiptError unless the receipt is unused and was issued for these records and laws.
        """
        if receipt.workload_key != workload.records_key or len(laws) != len(receipt.scales):
            raise ReceiptError("the receipt was issued for another release")
        for law, column, scale in zip(laws, workload.columns, receipt.scales, strict=True):
            if law.cells != column.height or not law.epsilon <= spent(scale):
                raise ReceiptError("a part of the records was not paid for at this epsilon")
        exact = open_answer(records, receipt)
        noisy = [
            law.perturb(np.array(codes, dtype=np.int64))
            for law, codes in zip(laws, exact, strict=True)
        ]
        order = np.lexsort(noisy[::-1])
        return tuple(codes[order] for codes in noisy)


def _identity(column: Column) -> bool:
    """Whether each row counts exactly one cell of the column's axes, in their order.

    A Kronecker product of identities is an identity, with rows and cells both in C-order.
    """
    return (
        bool(column.factors)
        and column.selected is None
        and column.multiplier == 1
        and all(map(_identity_factor, column.factors))
    )


def _identity_factor(factor: Factor) -> bool:
    return factor.height == factor.size == len(factor.rows) and bool(
        (factor.rows == factor.cells).all() and (factor.coefficients == 1).all()
    )
