"""Checks of the mechanisms for one record, by which sanitised copies are made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.audit.finding import Finding, number, subject
from tallyveil.audit.matrices import MatrixColumns, law_findings
from tallyveil.audit.noise import bounded, follows
from tallyveil.mechanisms.records.grid import OnGrid
from tallyveil.mechanisms.records.one_record import ByDraws, OneRecord
from tallyveil.mechanisms.units import exp_below

__all__ = ["audit_name", "counted", "grid_chances", "grid_finding", "record_findings"]


def audit_name(kind: type[OneRecord]) -> str:
    """The name of a mechanism's audit, such as randomised-response."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def record_findings(kind: type[OneRecord], epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Check a mechanism for one record: prove its law for values of all shapes ``audited``, and
    test draws for the last."""
    name = subject(audit_name(kind), epsilon)
    laws = {f"values of {shape} cells": kind.of(shape, epsilon) for shape in kind.audited}
    columns = {case: counted(law) for case, law in laws.items() if isinstance(law, ByDraws)}
    if columns:
        yield from law_findings(name, columns, epsilon, any_two=True)
    for case, law in laws.items():
        if isinstance(law, OnGrid):
            yield grid_finding(f"{name}, {case}", law, law.epsilon)
    *_, last = laws.values()
    yield from drawn(name, last, _chances(last), draws)


def _chances(law: OneRecord) -> FloatArray:
    """Return P(y|1). Raises TypeError for a law that is drawn in a way the audit cannot prove."""
    match law:
        case ByDraws():
            return np.array([float(p) for p in counted(law)[1]])
        case OnGrid():
            return grid_chances(law, 1)
    raise TypeError(f"the audit cannot prove {law.name}")


def counted(law: ByDraws) -> MatrixColumns:
    """Return P[output | code] from the outputs of `outcome` for all draws.

    It assumes that each output's draws are contiguous; tests on draws would find if they are not.
    """
    columns = []
    for code in range(law.cells):
        column = [Fraction(0)] * law.cells
        start = 0
        while start < law.draws:
            output = _outcome(law, code, start)
            low, high = start + 1, law.draws
            while low < high:
                middle = (low + high) // 2
                same = _outcome(law, code, middle) == output
                low, high = (middle + 1, high) if same else (low, middle)
            column[output] += Fraction(low - start, law.draws)
            start = low
        columns.append(column)
    return columns


def _outcome(law: ByDraws, code: int, draw: int) -> int:
    codes, draws = np.array([code], dtype=np.int64), np.array([draw], dtype=np.uint64)
    return int(law.outcome(codes, draws)[0])


def grid_finding(name: str, law: OnGrid, epsilon: Fraction) -> Finding:
    """Prove P(y|x) ≤ e^ε P(y|x') for all pairs of values and all outputs.

    For two values d steps apart, with NULL in the middle of the grid, the noise gives any output
    with probabilities within a factor of e^{d/b} of each other, plus the law's ``room`` for inexact
    drawing. The flag's ratio is a rational number, so the product is at most e^ε if d/b ≤ ε and
    that number is at most e^{ε − d/b}.
    """
    rate = 1 / Fraction(law.scale) if law.scale else Fraction(0)
    flag = counted(law.flag)
    worst, holds = 0.0, True
    for x, other in permutations(product(range(law.size), repeat=law.times), 2):
        missing = [int(law.size - 1 in value) for value in (x, other)]
        pairs = zip(_around(law, x), _around(law, other), strict=True)
        distance = max(abs(a - b) for a, b in pairs)
        for outcome in (0, 1):
            ratio = flag[missing[0]][outcome] / flag[missing[1]][outcome]
            steps = 0 if outcome else distance
            left = epsilon - steps * rate - (law.room if steps else 0)
            holds = holds and left >= 0 and (ratio <= 1 or ratio <= exp_below(left))
            worst = max(worst, math.log(ratio) + float(steps * rate))
    what = "series" if law.times > 1 else "values"
    claim = f"epsilon at most {number(epsilon)}, any two {what}"
    return Finding(name, claim, f"epsilon {number(worst)}", holds, exact=True)


def _around(law: OnGrid, value: tuple[int, ...]) -> tuple[int, ...]:
    return (law.middle,) * law.times if law.size - 1 in value else value


def grid_chances(law: OnGrid, code: int) -> FloatArray:
    """Return P(y|code) for a value that is not missing, summed over the radius R of the noise.

    P(R = r) ∝ a^r (2r+1)^k. Given R, the times are independent and uniform; what lies beyond an end
    of the grid is added to the end.
    """
    shape, last = (law.size,) * law.times, law.size - 2
    radii = np.arange(math.ceil((law.times + 50) * law.scale) + 50, dtype=np.float64)
    logs = law.times * np.log(2 * radii + 1) - radii / law.scale
    chances = np.exp(logs - logs.max())
    chances = chances[None] / chances.sum()
    for x in np.unravel_index(code, shape):
        y = np.arange(law.size)[:, None]
        own = (np.abs(y - x) <= radii).astype(np.float64)
        own[0], own[last] = np.maximum(0, radii - x + 1), np.maximum(0, radii - (last - x) + 1)
        own[last + 1] = 0
        own /= 2 * radii + 1
        chances = (chances[:, None] * own[None]).reshape(-1, len(radii))
    kept = law.flag.kept / 2.0**64
    found: FloatArray = kept * chances.sum(axis=1)
    found[-1] = 1 - kept
    return found


def drawn(name: str, law: OneRecord, chances: FloatArray, draws: int) -> Iterator[Finding]:
    """Check draws of code 1, whose law is ``chances``, and draws of the last code."""
    codes = (1, law.cells - 1)
    first, second = (law.perturb(np.full(draws, code, dtype=np.int64)) for code in codes)
    yield bounded(name, first, second, law.epsilon, Fraction(0))
    yield follows(name, first, (0, chances))
