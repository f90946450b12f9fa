"""`tallyveil mechanism show` for noise that is added to any answer."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from tallyveil.cli.mechanisms.mechanism_arguments import MechanismOptions
from tallyveil.cli.text import Output, aligned, rounded, up
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.mechanisms import Additive, Adjacency, StatementCalibration, statement_scales
from tallyveil.mechanisms.noise.staircase import Staircase
from tallyveil.workload.workload import Column, Workload

__all__ = ["STAIRCASE_GUARANTEE", "show_noise", "show_staircase"]

STAIRCASE_GUARANTEE: Final = (
    "staircase noise of sensitivity s: a record that moves an answer by up to s changes the"
    " probability of any outcome by a factor of at most e^epsilon"
)

_LEVEL: Final = Fraction(95, 100)
_SHOWN: Final = 15  # the largest number of probabilities listed
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
    return _output(row, guarantee)


def show_staircase(options: MechanismOptions) -> Output:
    """Return the law of staircase noise, and Laplace noise of the same sensitivity and cost.

    Raises InvalidParameterValue for options that do not apply to it.
    """
    options.only("staircase", "sensitivity")
    epsilon = options.cost()
    noise = Staircase(1 if options.sensitivity is None else options.sensitivity, epsilon)
    laplace = DiscreteLaplaceLaw(noise.sensitivity * noise.scale)
    row = {
        "mechanism": "staircase",
        "unit": "epsilon",
        "cost": up(noise.epsilon),
        "sensitivity": noise.sensitivity,
        "step": noise.step,
        "standard_deviation": rounded(math.sqrt(noise.variance)),
        "half_width_95": noise.half_width(_LEVEL),
        "of_laplace": rounded(math.sqrt(laplace.variance)),
        "of_laplace_95": laplace.half_width(_LEVEL),
    }
    listed = range(min(2 * noise.sensitivity + 1, _SHOWN))
    a = math.exp(-1 / laplace.scale)
    rest = {
        "probabilities": {k: noise.probability(k) for k in listed},
        "of_laplace": {k: (1 - a) / (1 + a) * a**k for k in listed},
    }
    cells = [[k, *(f"{rest[law][k]:.6f}" for law in rest)] for k in listed]
    columns = ("noise, either sign", "probability", "of Laplace noise")
    lines = _output(row, STAIRCASE_GUARANTEE).lines
    document = {**row, "law": rest, "guarantee": STAIRCASE_GUARANTEE}
    return Output(document, [*lines, *aligned(columns, cells)[:-1]])


def _output(row: dict[str, Any], guarantee: str) -> Output:
    lines = aligned(list(row), [list(row.values())])[:-1]
    return Output({**row, "guarantee": guarantee}, [*lines, f"guarantee: {guarantee}."])
