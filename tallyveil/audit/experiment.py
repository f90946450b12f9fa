"""Draws of a mechanism on two neighbouring inputs, through the same code as a release.

Every cell of a synthetic cube holds ``count`` records in the first input and one more in the
second, and the workload asks for each cell by itself. A record is in one cell, so the release costs
no more than one cell and its rows are independent: one release repeats the same experiment once per
cell. For `replacement`, cells form pairs. One cell of a pair holds a record more in the first
input, and the other one in the second input: a record has moved. The scales come from the
mechanism's own calibration, an accountant with a ledger in memory charges them, and the outputs are
released against its receipts. So the audit covers the whole path of a release, not only a sampler.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accountant import Account, Accountant, Charge, Ledger
from tallyveil.arrays import IntArray
from tallyveil.cube import Cube
from tallyveil.mechanisms import Mechanism, Neighbours
from tallyveil.mechanisms.measure import Measure
from tallyveil.policy import Attribute, Domain
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = ["Outcomes", "experiment", "replacement"]

_TABLE: Final = "audit"
_AXIS: Final = "cell"
# Larger differences are cut off here.
_FAR: Final = 1_000_000


@dataclass(frozen=True)
class Outcomes:
    """The outputs on the two inputs, ``first`` and ``second``, at ``scale``.

    ``claim`` is the accountant's charge for one of them, in its measure.
    """

    first: IntArray
    second: IntArray
    scale: float
    claim: Fraction


@dataclass(frozen=True)
class Experiment(Outcomes):
    """Outputs of single counts; ``truths`` are their true values on the two inputs."""

    truths: tuple[int, int]

    @property
    def noise(self) -> IntArray:
        """The noise of all outputs, on both inputs."""
        return np.concatenate([self.first - self.truths[0], self.second - self.truths[1]])


def experiment(
    family: Mechanism, cost: Fraction, measure: Measure = "epsilon", *, count: int, draws: int
) -> Experiment:
    """Draw ``draws`` outputs of ``family`` at ``cost`` on each of the two inputs, under add/remove.

    Raises as `Mechanism.scales_for` and `Mechanism.release`.
    """
    each = np.full(draws, count, dtype=np.int64)
    first, second, scale, claim = _released(family, cost, measure, "add_remove", each, each + 1)
    return Experiment(first, second, scale, claim, (count, count + 1))


def replacement(
    family: Mechanism, cost: Fraction, measure: Measure = "epsilon", *, count: int, draws: int
) -> Outcomes:
    """Draw ``draws`` pairs under replace: (count + 1, count) in the first input, and the other way
    round in the second.

    A pair's outputs become one number, which orders pairs by the evidence for the first input:
    first by which of the two outputs are above ``count``, which is the order for discrete Laplace
    noise, then by their difference, which is the order for Gaussian noise.

    Raises as `experiment`.
    """
    more = np.arange(2 * draws, dtype=np.int64) % 2
    first, second, scale, claim = _released(
        family, cost, measure, "replace", count + 1 - more, count + more
    )

    def ordered(outputs: IntArray) -> IntArray:
        one, other = outputs[::2], outputs[1::2]
        sides = (one > count).astype(np.int64) - (other > count)
        order: IntArray = 2 * _FAR * sides + np.clip(one - other, 1 - _FAR, _FAR - 1)
        return order

    return Outcomes(ordered(first), ordered(second), scale, claim)


def _released(
    family: Mechanism,
    cost: Fraction,
    measure: Measure,
    neighbours: Neighbours,
    *inputs: IntArray,
) -> tuple[IntArray, IntArray, float, Fraction]:
    """Release each of two inputs; return the outputs, and the scale and the charge of one."""
    size = len(inputs[0])
    domain = Domain(_TABLE, (Attribute(_AXIS, "range", "BIGINT", tuple(range(size))),))
    workload = Workload(_TABLE, (Column((Factor.identity((_AXIS,), (size,)),)),))
    delta = None if measure == "epsilon" else Fraction(1, 10**6)
    account = Account(domain, neighbours, 1, 4 * cost, "", measure=measure, delta=delta)
    scales = family.scales_for(workload, cost, account.relation, measure)
    samples, claim = [], Fraction(0)
    with closing(Ledger(":memory:")) as ledger:
        accountant = Accountant(ledger, {_TABLE: account})
        for counts in inputs:
            charge = Charge(workload, family.name, scales, "")
            claim = accountant.quote([charge])[_TABLE].cost
            (receipt,) = accountant.charge([charge], "")
            cube = Cube(domain, (np.arange(size),), counts)
            (outputs,) = family.release(cube.answer(workload), receipt)
            samples.append(np.array(outputs, dtype=np.int64))
    first, second = samples
    return first, second, scales[0], claim
