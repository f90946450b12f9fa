"""Draws of a mechanism on two neighbouring inputs, taken the way a release takes them.

Every cell of a made-up cube holds ``count`` records in the first input and one more in the second,
and the workload asks for each cell by itself. A record is in one cell, so the release costs its
price once and its rows are independent: one release is as many repetitions of the same experiment
as the cube has cells. The scales come from the mechanism's own calibration, the charge goes to an
accountant with a ledger in memory, and the outputs come out against its receipts; so what is
audited is the path, not a sampler beside it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accountant import Account, Accountant, Charge, Ledger
from tallyveil.audit.evidence import IntArray
from tallyveil.cube import Cube
from tallyveil.mechanisms import Mechanism
from tallyveil.mechanisms.measure import Measure
from tallyveil.policy import Attribute, Domain
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["Experiment", "experiment"]

_TABLE: Final = "audit"
_AXIS: Final = "cell"


@dataclass(frozen=True)
class Experiment:
    """``first`` are outputs where the truth is ``count``, ``second`` where it is one more.

    ``claim`` is what the accountant charged for one of them, in its measure.
    """

    count: int
    first: IntArray
    second: IntArray
    scale: float
    claim: Fraction

    @property
    def noise(self) -> IntArray:
        """All of it, from both inputs."""
        return np.concatenate([self.first - self.count, self.second - self.count - 1])


def experiment(
    family: Mechanism, cost: Fraction, measure: Measure = "epsilon", *, count: int, draws: int
) -> Experiment:
    """``draws`` outputs of ``family`` at ``cost`` on each of the two inputs.

    Raises what the family raises where it cannot serve, and InvalidParameterValue for a cost that
    is not positive and finite.
    """
    cells = tuple(range(draws))
    domain = Domain(_TABLE, (Attribute(_AXIS, "range", "BIGINT", cells),))
    workload = Workload(_TABLE, (_identity(draws),))
    delta = None if measure == "epsilon" else Fraction(1, 10**6)
    account = Account(domain, "add_remove", 1, 4 * cost, "", measure=measure, delta=delta)
    scales = family.scales_for(workload, cost, account.relation, measure)
    samples, claim = [], Fraction(0)
    with closing(Ledger(":memory:")) as ledger:
        accountant = Accountant(ledger, {_TABLE: account})
        for truth in (count, count + 1):
            charge = Charge(workload, family.name, scales, "")
            claim = accountant.quote([charge])[_TABLE].cost
            (receipt,) = accountant.charge([charge], "")
            cube = Cube(domain, (np.arange(draws),), np.full(draws, truth, dtype=np.int64))
            (outputs,) = family.release(cube.answer(workload), receipt)
            samples.append(np.array(outputs, dtype=np.int64))
    return Experiment(count, samples[0], samples[1], scales[0], claim)


def _identity(size: int) -> Column:
    each = np.arange(size, dtype=np.int64)
    return Column.joint((_AXIS,), (size,), size, each, each, np.ones(size, dtype=np.int64))
