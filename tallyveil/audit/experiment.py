"""Draws of a mechanism on two neighbouring inputs, taken the way a release takes them.

Every cell of a made-up cube holds ``count`` records in the first input and one more in the second,
and the workload asks for each cell by itself. A record is in one cell, so the release costs its
price once and its rows are independent: one release is as many repetitions of the same experiment
as the cube has cells. For `replacement` cells come in pairs, of which one holds a record more, and
in the second input the other one: a record has moved. The scales come from the mechanism's own
calibration, the charge goes to an accountant with a ledger in memory, and the outputs come out
against its receipts; so what is audited is the path, not a sampler beside it.
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
# Differences beyond it are as good as this one.
_FAR: Final = 1_000_000


@dataclass(frozen=True)
class Outcomes:
    """``first`` and ``second`` are what came out on the two inputs, at ``scale``.

    ``claim`` is what the accountant charged for one of them, in its measure.
    """

    first: IntArray
    second: IntArray
    scale: float
    claim: Fraction


@dataclass(frozen=True)
class Experiment(Outcomes):
    """Outputs of single counts, which are ``truths`` on the two inputs."""

    truths: tuple[int, int]

    @property
    def noise(self) -> IntArray:
        """All of it, from both inputs."""
        return np.concatenate([self.first - self.truths[0], self.second - self.truths[1]])


def experiment(
    family: Mechanism, cost: Fraction, measure: Measure = "epsilon", *, count: int, draws: int
) -> Experiment:
    """``draws`` outputs of ``family`` at ``cost`` on each of the two inputs, under add/remove.

    Raises what the family raises where it cannot serve, and InvalidParameterValue for a cost that
    is not positive and finite.
    """
    each = np.full(draws, count, dtype=np.int64)
    first, second, scale, claim = _released(family, cost, measure, "add_remove", each, each + 1)
    return Experiment(first, second, scale, claim, (count, count + 1))


def replacement(
    family: Mechanism, cost: Fraction, measure: Measure = "epsilon", *, count: int, draws: int
) -> Outcomes:
    """The same under replace, for ``draws`` pairs: (count + 1, count) first, then the other way.

    A pair's outputs become one number, which orders pairs by what they say for the first input:
    by which of the two outputs are above ``count``, as discrete Laplace noise does, and among
    equals by their difference, as Gaussian noise does.

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
    """The outputs on each of two inputs, and the scale and the charge of either."""
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
