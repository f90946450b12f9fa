"""The best count mechanism with given properties: a closed form, or a linear program's solution.

The program is solved in floats. The solution becomes a matrix of integers, on which privacy and
every property asked for are checked exactly. If the check fails, the program is solved again with
wider margins; if all fail, it is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Literal, TypeAlias

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.errors import StatementTooComplex, UnprovenPrivacy
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.design_cache import DesignCache
from tallyveil.mechanisms.matrix.explicit import explicit_fair, geometric
from tallyveil.mechanisms.matrix.objective import Objective
from tallyveil.mechanisms.matrix.privacy_level import checked_alpha, checked_range
from tallyveil.mechanisms.matrix.program import integer_columns, layout, solve
from tallyveil.mechanisms.matrix.properties import Property, closure, holds
from tallyveil.solver_threads import in_solver_thread

__all__ = ["MAX_DESIGNED_RANGE", "Leaf", "choose", "design", "flowchart"]

Leaf: TypeAlias = Literal["GM", "EM", "WH", "WM"]
"""Where COUNT Fig. 5 leads: GM, EM, or the program for WH, without CM or with it."""

# At this n a program has 11,000 variables, and takes 15 to 30 seconds.
MAX_DESIGNED_RANGE = 150
_MARGINS = (1e-7, 1e-6, 1e-5)
_METHODS = ("highs-ipm", "highs-ds")
# The solver's share of the time limit; the rest is for the proof.
_SHARE = 0.9
_L0 = Objective("L0")
_MONOTONE = (Property.ROW_MONOTONE, Property.COLUMN_MONOTONE)


def choose(
    n: int,
    alpha: Fraction | float | str,
    properties: Iterable[str] = (),
    *,
    cache: DesignCache | None = None,
    time_limit: float = 60.0,
) -> CountMatrix:
    """Return the mechanism that COUNT Fig. 5 leads to (`flowchart`) for these properties.

    Both programs are solved with RM and S, which §V-A found to come at no additional cost.
    Guarantee and errors as in `design`, with its default objective L0.
    """
    leaf, geometrical = _leaf(n, alpha, properties)
    match leaf:
        case "GM":
            return geometrical
        case "EM":
            return explicit_fair(n, alpha)
        case "WH":
            wanted = {Property.WEAKLY_HONEST, Property.ROW_MONOTONE, Property.SYMMETRIC}
        case "WM":
            wanted = {*_MONOTONE, Property.WEAKLY_HONEST, Property.SYMMETRIC}
    return design(n, alpha, wanted, cache=cache, time_limit=time_limit)


def flowchart(n: int, alpha: Fraction | float | str, properties: Iterable[str] = ()) -> Leaf:
    """Follow COUNT Fig. 5, for the objective L0.

    F leads to EM. Otherwise the result is GM if it has the properties asked for: it always has RM,
    RH and S, everything but F if α ≤ 1/2, and WH if n ≥ 2α/(1−α). Otherwise it is the program for
    WH, or, if a column property is asked for, for WH and CM.

    Raises InvalidParameterValue for parameters out of range or unknown.
    """
    return _leaf(n, alpha, properties)[0]


def _leaf(
    n: int, alpha: Fraction | float | str, properties: Iterable[str]
) -> tuple[Leaf, CountMatrix]:
    """Return the result of `flowchart`, and GM, which it depends on."""
    asked = closure(properties)
    matrix = geometric(checked_range(n), checked_alpha(alpha))
    if Property.FAIR in asked:
        return "EM", matrix
    if _has(matrix, asked):
        return "GM", matrix
    return ("WM" if Property.COLUMN_HONEST in asked else "WH"), matrix


def design(
    n: int,
    alpha: Fraction | float | str,
    properties: Iterable[str] = (),
    objective: Objective = _L0,
    *,
    cache: DesignCache | None = None,
    time_limit: float = 60.0,
) -> CountMatrix:
    """Return the α-DP matrix on 0..n that has all ``properties`` and minimises ``objective``.

    It is α-DP for truths that differ by one: α ≤ P[i|j]/P[i|j+1] ≤ 1/α. Both this and the
    properties are proved on the integers that are drawn from. The objective is optimal up to about
    10⁻⁶. The result is GM where that is known to be optimal (L0, uniform; COUNT Thm 3) and EM where
    fairness is asked for (L0; Thm 4 and Lemma 1).

    A design found in ``cache`` is proved again. ``time_limit`` is in seconds; the statement's
    deadline applies as well.

    Raises InvalidParameterValue for parameters out of range, and StatementTooComplex if n is
    beyond `MAX_DESIGNED_RANGE` or no solution found in time passes the proof.
    """
    level = checked_alpha(alpha)
    asked = closure(properties)
    objective.prior(checked_range(n))
    matrix = _closed_form(n, level, asked, objective)
    if matrix is not None:
        return matrix
    if n > MAX_DESIGNED_RANGE:
        raise _unsolved(f"counts up to {n} are too many to design a mechanism for")
    key = _key(n, level, asked, objective)
    if cache is not None:
        known = cache.load(key, _name(asked, objective), level)
        if known is not None and known.n == n and _has(known, asked):
            return known
    matrix = _solved(n, level, asked, objective, time_limit)
    if cache is not None:
        cache.store(key, matrix)
    return matrix


def _closed_form(
    n: int, alpha: Fraction, asked: frozenset[Property], objective: Objective
) -> CountMatrix | None:
    if objective.penalty != "L0" or objective.beyond:
        return None
    if Property.FAIR in asked:
        return explicit_fair(n, alpha)
    if objective == _L0:
        matrix = geometric(n, alpha)
        if _has(matrix, asked):
            return matrix
    return None


def _solved(
    n: int, alpha: Fraction, asked: frozenset[Property], objective: Objective, time_limit: float
) -> CountMatrix:
    plan = layout(n, asked, objective)
    end = time.monotonic() + _SHARE * min(time_limit, deadline.remaining())

    def found(margin: float, method: str) -> FloatArray | None:
        left = end - time.monotonic()
        try:
            if not left > 0:
                raise TimeoutError
            return solve(
                plan, float(alpha), asked, objective, margin=margin, method=method, time_limit=left
            )
        except TimeoutError:
            raise _unsolved("no mechanism was found within the time limit") from None

    for margin, method in product(_MARGINS, _METHODS):
        solution = in_solver_thread(partial(found, margin, method))
        if solution is None:
            continue
        try:
            matrix = CountMatrix(_name(asked, objective), alpha, integer_columns(plan, solution))
        except UnprovenPrivacy:
            # The floats were too inaccurate for this margin, so the solution is discarded.
            continue
        if _has(matrix, asked):
            return matrix
    raise _unsolved(f"no mechanism was found for counts up to {n} at alpha {float(alpha):g}")


def _has(matrix: CountMatrix, asked: frozenset[Property]) -> bool:
    return all(holds(matrix, name) for name in asked)


def _name(asked: frozenset[Property], objective: Objective) -> str:
    return f"LP({'+'.join(sorted(asked)) or 'none'}; {objective})"


def _key(
    n: int, alpha: Fraction, asked: frozenset[Property], objective: Objective
) -> dict[str, Any]:
    """Return exactly what a design depends on; all of it is public."""
    return {
        "n": n,
        "alpha": str(alpha),
        "properties": sorted(asked),
        "penalty": objective.penalty,
        "beyond": objective.beyond,
        "aggregate": objective.aggregate,
        "weights": [str(weight) for weight in objective.prior(n)],
        "margins": [repr(margin) for margin in _MARGINS],
    }


def _unsolved(message: str) -> StatementTooComplex:
    return StatementTooComplex(
        message,
        hint="Ask for property F: the explicit fair mechanism has all properties and needs no"
        " solver.",
    )
