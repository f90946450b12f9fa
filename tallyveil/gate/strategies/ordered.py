"""Buys other rows over the cells that a statement's rows tell apart: prefixes, ranges and the like.

Rows W that overlap over few cells, as running totals over the values of an ordered attribute do,
follow with far less error from rows A chosen for all of them: a root of WᵀW with Gaussian noise
(`inference/designs/root`), or the cells and a few sums of them with Laplace noise
(`inference/designs/p_identity`). Columns with the same disjoint groups F besides ask F ⊗ W, and
F ⊗ A is bought: it costs what A does, and row by row it has the error of A.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

import numpy as np

from tallyveil.alike import scrambled
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import Cache
from tallyveil.gate.strategies.other_rows import Asked, OtherRows, content
from tallyveil.inference.designs.p_identity import p_identity
from tallyveil.inference.designs.root import root, variances
from tallyveil.workload.classes import Classes, stacked
from tallyveil.workload.workload import Column, Factor

__all__ = ["ordered"]

_ROWS: Final = 4  # of which parts are as good where there are fewer
_CELLS: Final = {"epsilon": 256, "rho": 512}  # told apart
_ENTRIES: Final = 4_000_000
_SPREAD: Final = 1_000_000  # entries of what is bought, over the cells of the attributes
_LARGEST: Final = 2**20  # coefficient
_DESIGNS: Final[Cache[IntArray]] = Cache(64, 1 << 26, lambda _, one: one.nbytes)
_NO_MORE: Final = 2.0**-52  # of the largest singular value, for each row: it is 0


def ordered(asked: Asked) -> OtherRows | None:
    """None if the rows tell too many cells apart, or nothing gains."""
    if asked.margin > 1 or sum(column.height for column in asked.shown) < _ROWS:
        return None
    split = _split(asked.columns)
    if split is None:
        return None
    groups, rest = split
    heights = [column.height for column in rest]
    shown = np.repeat([n not in asked.hidden for n in range(len(rest))], heights)
    number = int(shown.sum())
    if number < _ROWS:
        return None
    stack = _stacked(rest)
    found = Classes.of(stack)
    axes = [axis for axis in asked.axes if axis in found.labels]  # in the table's order
    classes = Classes(*({a: of[a] for a in axes} for of in (found.labels, found.firsts)))
    most = min(_CELLS[asked.measure], 2 * number)
    if len(shown) > _ENTRIES // max(1, classes.size):
        return None
    if classes.size > most and all(map(_tells_all_apart, stack)):
        return None
    every = np.concatenate([_dense(classes.column(column), classes) for column in stack])
    told = every[shown]
    _, first, place = np.unique(scrambled(*told), return_index=True, return_inverse=True)
    if (every != every[:, first[place]]).any():
        return None  # what is hidden tells more cells apart, or different cells have one hash
    rank = np.argsort(np.argsort(first))  # cells in their own order, which blocks follow
    rows, place = every[:, np.sort(first)], rank[place.ravel()]
    touched = np.asarray(rows[shown].any(axis=0))
    size = int(touched.sum())
    if not 2 <= size <= most or np.abs(rows).max() > _LARGEST or rows[:, ~touched].any():
        return None
    weights = np.concatenate(
        [asked.weights(rest[n]) for n in range(len(rest)) if n not in asked.hidden]
    )
    whole = rows[:, touched]
    kept = whole[shown]
    common = np.maximum(1, np.gcd.reduce(kept, axis=1, keepdims=True))
    if ((np.unique(kept // common, axis=0) != 0).sum(axis=0) <= 1).all():
        return None  # disjoint but for multiples: nothing is better than the rows themselves
    weighed = kept.astype(np.float64)
    worst = asked.objective == "worst"
    design = p_identity if asked.measure == "epsilon" else root
    key = design, worst, kept.shape, *(sha256(one.tobytes()).digest() for one in (kept, weights))
    bought = _DESIGNS.get(key, lambda: design(weighed, weights, worst=worst))
    alone = variances(whole.astype(np.float64), bought)
    new = alone[shown] * _unit(bought, asked.measure)
    singular = np.linalg.svd(weighed * np.sqrt(weights)[:, None], compute_uv=False)
    direct = _directly(weighed, singular, asked.measure)
    if not asked.gains(new, direct, weights):
        return None
    number_of = np.cumsum(touched) - 1
    labels = np.where(touched[place], number_of[place], -1)
    factor = _spread(bought, labels, classes)
    if factor is None:
        return None
    least = float(singular.sum() ** 2) / (2 * size) * (4 if asked.measure == "epsilon" else 1)
    each = [*zip(asked.columns, np.split(alone, np.cumsum(heights)[:-1]), strict=True)]

    def errors(noise: Sequence[float]) -> list[FloatArray]:
        return [noise[0] * own[_places(column, groups)] for column, own in each]

    columns = (Column((*groups, factor)),)
    certain = None if not whole.any(axis=1).all() else errors
    return OtherRows(columns, (1.0,), least / float(weights @ new), certain)


def _split(columns: Sequence[Column]) -> tuple[tuple[Factor, ...], list[Column]] | None:
    """The disjoint groups that all columns have, and each column without them; None if these share
    attributes, or are not plain."""
    if any(column.selected is not None for column in columns):
        return None
    each = [{content(factor) for factor in column.factors} for column in columns]
    common = set(each[0]).intersection(*each)
    groups = [one for one in columns[0].factors if content(one) in common and one.disjoint]
    own = {content(one) for one in groups}
    if any((one.coefficients != 1).any() for one in groups):
        return None
    rest = [
        replace(column, factors=tuple(one for one in column.factors if content(one) not in own))
        for column in columns
    ]
    grouped = {axis for one in groups for axis in one.axes}
    if any(not grouped.isdisjoint(column.axes) for column in rest):
        return None
    return tuple(groups), rest


def _stacked(columns: Sequence[Column]) -> Sequence[Column]:
    """The columns, or one with the rows of all, if these are over the same axes."""
    kinds = {(one.axes, one.shape) for column in columns for one in column.factors}
    if len(kinds) != 1 or max(len(column.factors) for column in columns) > 1:
        return columns
    every = Factor.everything(*kinds.pop())
    return [Column((stacked([*itertools.chain(*(c.factors or (every,) for c in columns))]),))]


def _tells_all_apart(column: Column) -> bool:
    """Whether no two values of an axis that its rows distinguish are alike beside any others."""
    return all(
        len(one.axes) == 1 and one.disjoint and len(one.cells) == one.size for one in column.factors
    )


def _places(column: Column, groups: Sequence[Factor]) -> IntArray:
    """The row of each of the column's without the groups."""
    own, found = {content(one) for one in groups}, np.zeros(column.height, dtype=np.int64)
    for factor, rows in zip(column.factors, column.factor_rows(column.numbers), strict=True):
        if content(factor) not in own:
            found = found * factor.height + rows
    return found


def _dense(column: Column, classes: Classes) -> IntArray:
    """The rows of a column over all joint classes, in the order of the classes' axes."""
    rows = np.ones((1, 1), dtype=np.int64)
    for factor in column.factors:
        rows = np.kron(rows, factor.dense())
    sizes = dict(zip(classes.axes, classes.shape, strict=True))
    others = [axis for axis in classes.axes if axis not in column.axes]
    shape = [len(rows), *column.shape, *(1 for _ in others)]
    order = [*column.axes, *others]
    found = rows.reshape(shape).transpose(0, *(1 + order.index(axis) for axis in classes.axes))
    whole = np.broadcast_to(found, (len(rows), *(sizes[axis] for axis in classes.axes)))
    return whole.reshape(len(rows), -1)


def _unit(rows: IntArray, measure: str) -> float:
    """The variance of noise on these rows at ε = 1 or ρ = 1."""
    if measure == "epsilon":
        return 2 * float(np.abs(rows).sum(axis=0).max()) ** 2
    return float((rows.astype(np.float64) ** 2).sum(axis=0).max()) / 2


def _directly(rows: FloatArray, singular: FloatArray, measure: str) -> FloatArray:
    """The variances of the rows bought as asked, from all their answers together."""
    whole = rows.astype(np.int64)
    unit = _unit(whole, measure)
    alone = np.full(len(rows), unit)
    if (singular > singular[0] * _NO_MORE * max(rows.shape)).sum() < rows.shape[1]:
        return alone
    found: FloatArray = np.minimum(alone, variances(rows, whole) * unit)
    return found


def _spread(rows: IntArray, labels: IntArray, classes: Classes) -> Factor | None:
    """The rows over all cells of the classes' axes, by the label of each joint class."""
    joint = labels.reshape(classes.shape)
    cells = joint[np.ix_(*classes.labels.values())].ravel()
    inside = np.flatnonzero(cells >= 0)
    if len(rows) * len(inside) > _SPREAD:
        return None
    spread = rows[:, cells[inside]]
    at, place = np.nonzero(spread)
    shape = tuple(map(len, classes.labels.values()))
    entries = at.astype(np.int64), inside[place].astype(np.int64), spread[at, place]
    return Factor(classes.axes, shape, len(rows), *entries)
