"""`tallyveil mechanism show` for noise that is added to any answer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from tallyveil.cli.mechanisms.mechanism_arguments import MechanismOptions
from tallyveil.cli.text import Output, aligned, rounded, up
from tallyveil.mechanisms import Additive, Adjacency, StatementCalibration, statement_scales
from tallyveil.workload.workload import Column, Workload

__all__ = ["show_noise"]

_LEVEL: Final = Fraction(95, 100)
_ADD_REMOVE: Final = Adjacency("add_remove")


def show_noise(family: Additive, options: MechanismOptions) -> Output:
    """Return the noise of one count at ε. Noise that needs a δ, but has none, costs ρ = ε²/2.

    Raises InvalidParameterValue for options that do not apply to it.
    """
    options.only(
        f"{family.name}, noise for any count,",
        *(("delta", "calibration") if family.needs_delta else ()),
    )
    epsilon = options.cost()
    one = np.zeros(1, dtype=np.int64)
    count = Workload("t", (Column.joint(("a",), (1,), 1, one, one, one + 1),))
    row: dict[str, Any] = {"mechanism": family.name}
    if not family.needs_delta:
        (scale,) = family.scales_for(count, epsilon, _ADD_REMOVE, "epsilon")
        row |= {"unit": "epsilon", "cost": up(epsilon)}
    elif options.delta is None and options.calibration is None:
        (scale,) = family.scales_for(count, epsilon**2 / 2, _ADD_REMOVE, "rho")
        row |= {"unit": "rho", "cost": up(epsilon**2 / 2)}
    else:
        rule = cast(StatementCalibration, options.calibration or "zcdp")
        delta = options.delta or "1e-6"
        (scale,) = statement_scales(count, epsilon, delta, _ADD_REMOVE, rule)
        row |= {"unit": "rho", "cost": up(1 / (2 * Fraction(scale) ** 2))}
        row |= {"epsilon": up(epsilon), "delta": delta, "calibration": rule}
    law = family.law(scale)
    row["scale"] = rounded(scale)
    row["standard_deviation"] = rounded(math.sqrt(law.variance))
    row["half_width_95"] = law.half_width(_LEVEL)
    guarantee = family.guarantee
    if "delta" not in row and family.needs_delta:
        guarantee += "; with rho = epsilon^2 / 2, which is less private than epsilon by itself"
    lines = aligned(list(row), [list(row.values())])[:-1]
    return Output({**row, "guarantee": guarantee}, [*lines, f"guarantee: {guarantee}."])
