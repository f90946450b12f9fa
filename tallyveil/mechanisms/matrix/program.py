"""The linear program of COUNT §III–IV: a matrix with given properties that minimises an objective.

Entries that must be equal share a variable (symmetry, by Theorem 1, halves their number;
fairness makes the diagonal one variable), and every inequality has the form x_big ≥ c · x_small.
Row monotonicity needs neighbours only and implies one direction of privacy. Variables are
Q = P · (n+1)/(1−α), which keeps the program well scaled however close α is to 1.

Each inequality has a margin, so that a solution in floats can be rounded to integers that satisfy
all of them exactly. The margin worsens the objective by about as much: 10⁻⁷ for a margin of 10⁻⁷.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, vstack

from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.mechanisms.matrix.objective import Objective
from tallyveil.mechanisms.matrix.properties import Property

__all__ = ["SharedVariables", "integer_columns", "layout", "solve"]


_TOLERANCE = 1e-9
_LIMIT_REACHED = 1  # linprog's status


@dataclass(frozen=True)
class SharedVariables:
    """``variable[i, j]`` is the entry's variable, from 0 to size − 1; entries may share one."""

    variable: IntArray
    size: int
    symmetric: bool

    @property
    def n(self) -> int:
        return len(self.variable) - 1

    @property
    def columns(self) -> range:
        """The columns that are not mirror images of earlier ones."""
        return range(self.n // 2 + 1 if self.symmetric else self.n + 1)


def layout(n: int, properties: frozenset[Property], objective: Objective) -> SharedVariables:
    """Assign entries to variables.

    The matrix is symmetric if that is asked for, or if the objective's weights are symmetric: then
    symmetry costs nothing (Theorem 1).
    """
    prior = objective.prior(n)
    symmetric = Property.SYMMETRIC in properties or prior == prior[::-1]
    entries = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    if symmetric:
        entries = np.minimum(entries, entries[::-1, ::-1])
    if Property.FAIR in properties:
        np.fill_diagonal(entries, 0)
    distinct, variable = np.unique(entries, return_inverse=True)
    return SharedVariables(variable.reshape(n + 1, n + 1), len(distinct), symmetric)


@dataclass(frozen=True)
class _Inequalities:
    """x[big] ≥ factor · x[small], row by row."""

    big: IntArray
    small: IntArray
    factor: FloatArray

    def rows(self, width: int) -> Any:
        """Return factor · x[small] − x[big], as a sparse matrix of ``width`` columns."""
        count = len(self.big)
        entries = np.concatenate([-np.ones(count), self.factor])
        row = np.tile(np.arange(count), 2)
        column = np.concatenate([self.big, self.small])
        return coo_array((entries, (row, column)), shape=(count, width)).tocsr()


def solve(
    plan: SharedVariables,
    alpha: float,
    properties: frozenset[Property],
    objective: Objective,
    *,
    margin: float,
    method: str,
    time_limit: float,
) -> FloatArray | None:
    """Return P by variable, or None if the solver gave up.

    ``method`` names an algorithm of scipy.optimize.linprog: here HiGHS's interior point method is
    by far the fastest, and its dual simplex the most robust.

    Raises TimeoutError at ``time_limit`` seconds: the solver might have succeeded on a faster
    machine, and another one's solution must not depend on that.
    """
    from scipy.optimize import linprog

    n, worst = plan.n, objective.aggregate == "max"
    width = plan.size + worst
    inequalities = _inequalities(plan, alpha, properties)
    upper, bound = inequalities.rows(width), np.full(len(inequalities.big), -margin)
    costs, losses = np.zeros(width), _losses(plan, objective)
    if worst:
        costs[-1] = 1
        upper, bound = _below_last(upper, losses), np.append(bound, np.zeros(len(losses)))
    else:
        costs[:] = losses.sum(axis=0)
    lower = np.zeros(width)
    if Property.WEAKLY_HONEST in properties:
        lower[np.diag(plan.variable)] = 1 / (1 - alpha) + margin
    columns = [np.bincount(plan.variable[:, j], minlength=width) for j in plan.columns]
    solution = linprog(
        costs,
        A_ub=upper,
        b_ub=bound,
        A_eq=coo_array(np.array(columns, dtype=float)).tocsr(),
        b_eq=np.full(len(columns), (n + 1) / (1 - alpha)),
        bounds=np.column_stack([lower, np.full(width, np.inf)]),
        method=method,
        options={
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
            "time_limit": time_limit,
        },
    )
    if solution.status == _LIMIT_REACHED:
        raise TimeoutError
    if solution.status != 0:
        return None
    scaled: FloatArray = solution.x[: plan.size] * ((1 - alpha) / (n + 1))
    return scaled


def _losses(plan: SharedVariables, objective: Objective) -> FloatArray:
    """Return a row per truth: the coefficient of each variable in its weighted expected loss.

    All are divided by the largest entry. For the maximum, a symmetric plan needs only one of two
    truths that are mirror images: they have the same variables, and the larger factor counts.
    """
    n, worst = plan.n, objective.aggregate == "max"
    factors = [float(factor) for factor in objective.factors(n)]
    if worst and plan.symmetric:
        factors = [max(factors[j], factors[n - j]) for j in plan.columns]
    losses = np.zeros((len(factors), plan.size + worst))
    for j, factor in enumerate(factors):
        loss = np.array([objective.loss(i, j) for i in range(n + 1)], dtype=float)
        np.add.at(losses[j], plan.variable[:, j], factor * loss)
    largest: float = losses.max()
    return losses / largest if largest > 0 else losses


def _below_last(upper: Any, losses: FloatArray) -> Any:
    """Append to ``upper`` a row for each truth: its loss is at most the last variable."""
    losses[:, -1] = -1
    return vstack([upper, coo_array(losses)], format="csr")


def _inequalities(
    plan: SharedVariables, alpha: float, properties: frozenset[Property]
) -> _Inequalities:
    parts: list[tuple[IntArray, IntArray, float]] = []
    v = plan.variable
    output, truth = np.arange(plan.n + 1)[:, None], np.arange(plan.n + 1)[None, :]
    left, right = v[:, :-1], v[:, 1:]
    parts += [(left, right, alpha), (right, left, alpha)]
    if Property.ROW_MONOTONE in properties:
        parts += _falling(left, right, rising=truth[:, :-1] < output)
    elif Property.ROW_HONEST in properties:
        parts.append((np.broadcast_to(v.diagonal()[:, None], v.shape), v, 1.0))
    if Property.COLUMN_MONOTONE in properties:
        parts += _falling(v[:-1], v[1:], rising=output[:-1] < truth)
    elif Property.COLUMN_HONEST in properties:
        parts.append((np.broadcast_to(v.diagonal()[None, :], v.shape), v, 1.0))
    return _distinct(
        np.concatenate([big.ravel() for big, _, _ in parts]),
        np.concatenate([small.ravel() for _, small, _ in parts]),
        np.concatenate([np.full(big.size, factor) for big, _, factor in parts]),
    )


def _falling(
    first: IntArray, second: IntArray, *, rising: BoolArray
) -> list[tuple[IntArray, IntArray, float]]:
    """Require monotony towards the diagonal: first ≤ second where ``rising``, else first ≥
    second."""
    return [(second[rising], first[rising], 1.0), (first[~rising], second[~rising], 1.0)]


def _distinct(big: IntArray, small: IntArray, factor: FloatArray) -> _Inequalities:
    """Return each pair of different variables once, with its largest factor, which implies the
    others."""
    different = big != small
    big, small, factor = big[different], small[different], factor[different]
    order = np.lexsort((-factor, small, big))
    big, small, factor = big[order], small[order], factor[order]
    first = np.ones(len(big), dtype=bool)
    first[1:] = (np.diff(big) != 0) | (np.diff(small) != 0)
    return _Inequalities(big[first], small[first], factor[first])


# More than the 53 bits of floats, since the least entries are far below 1.
_TOTAL_BITS = 96


def integer_columns(plan: SharedVariables, probabilities: FloatArray) -> list[list[int]]:
    """Return weights[j][i] by truth j, each column adding up to 2⁹⁶; shared variables stay shared.

    Every entry is rounded down to a multiple of 2⁻⁹⁶. What a column then lacks of 1 is spread
    evenly over its entries off the diagonal: these variables occur in no other column, except in
    its mirror image. Diagonal entries are even, so that the lack can be halved where all other
    entries come in pairs.
    """
    total = 1 << _TOTAL_BITS
    weights = [int(math.ldexp(float(p), _TOTAL_BITS)) for p in probabilities]
    for variable in np.unique(np.diag(plan.variable)).tolist():
        weights[variable] -= weights[variable] % 2
    for j in plan.columns:
        column = plan.variable[:, j]
        lack = total - sum(weights[variable] for variable in column.tolist())
        free, times = np.unique(np.delete(column, j), return_counts=True)
        share, rest = divmod(lack // int(times[0]), len(free))
        for place, variable in enumerate(free.tolist()):
            weights[variable] += share + (place < rest)
    return [[weights[variable] for variable in column] for column in plan.variable.T.tolist()]
