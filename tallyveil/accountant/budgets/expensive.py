"""Where most has been spent: the cells at which a meter is highest, by their attributes' values.

It depends only on the charges, and so on public queries. An attribute is named only where its
values make a difference: ``sex = F, age = 30 to 39`` means these cells in every state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tallyveil.accountant.budgets.meter import CellMeter, Meter, PairMeter, Tally
from tallyveil.arrays import IntArray
from tallyveil.mechanisms.losses.pair_loss import ClassLoss
from tallyveil.policy.domain import Attribute, Domain, shown

__all__ = ["most_expensive"]

_ALL = "every record"
_OUTSIDE = "a record without a cell"
_NAMED = 3  # more values than these are counted

_Mask = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
_Indices = np.ndarray[tuple[int], np.dtype[np.intp]]


def most_expensive(meter: Meter, domain: Domain) -> str | None:
    """The cells of the highest loss, or under replace the two kinds of cells whose exchange has
    the highest: ``sex = F against sex = M``. None where nothing is spent.

    Where many cells share the highest loss, all of them are described if their values combine
    freely, otherwise one of them. Where the meter is an upper bound, these are the cells where the
    bound is highest; where the bound is a sum over pairs of classes and two tallies, those where
    its larger part is highest.
    """
    if not meter.spent:
        return None
    match meter:
        case CellMeter(tally=tally):
            return _of_tally(tally, domain)
        case PairMeter(classes=classes, from_zero=zero, from_midrange=midrange):
            tally = min(zero, midrange, key=lambda t: t.two_highest)
            if classes is not None and classes.highest >= tally.two_highest:
                return _of_pair(classes, domain)
            return _of_tally(tally, domain)


def _of_tally(tally: Tally, domain: Domain) -> str:
    """The cells of the highest loss. Groups share no axis: their highest cells combine freely."""
    found: dict[str, _Indices] = {}
    for group in (one.whole for one in tally.groups):
        highest = int(group.values.max())
        if group.outside > highest:
            return _OUTSIDE
        for axis, indices in _corner(group.axes, group.values == highest).items():
            found.setdefault(axis, indices)
    return _describe(found, domain)


def _of_pair(loss: ClassLoss, domain: Domain) -> str:
    pair = np.unravel_index(int(loss.matrix.argmax()), loss.matrix.shape)
    sides, own = [], loss.classes
    # Kinds in the order of the first coordinate of each.
    firsts = [np.unique(kinds, return_index=True)[1] for kinds in own.kinds]
    labels = own.labels[np.ix_(*map(np.argsort, firsts))]
    for number in sorted(map(int, pair), key=lambda n: _first(labels, n)):
        cells = labels == number
        found = _corner(own.axes, cells) if cells.any() else None
        for axis, kinds, first in zip(own.axes, own.kinds, firsts, strict=True):
            if found is not None and axis in found:
                chosen = np.argsort(first)[found[axis]]
                found[axis] = np.flatnonzero(np.isin(kinds, chosen))
        sides.append(_OUTSIDE if found is None else _describe(found, domain))
    return " against ".join(sides)


def _first(labels: IntArray, number: int) -> int:
    """The first cell of a class; a class without cells comes last."""
    cells = (labels == number).ravel()
    return int(cells.argmax()) if cells.any() else cells.size


def _corner(axes: Sequence[str], cells: _Mask) -> dict[str, _Indices]:
    """For each axis the values whose combinations are ``cells``; if ``cells`` are no such product,
    those of the first cell. Axes that make no difference are left out.
    """
    every = range(cells.ndim)
    seen = [np.flatnonzero(cells.any(axis=tuple(a for a in every if a != axis))) for axis in every]
    if int(cells.sum()) != math.prod(map(len, seen)):
        first = np.unravel_index(int(cells.argmax()), cells.shape)
        varying = [bool((cells != cells.take([0], axis=axis)).any()) for axis in every]
        return {
            name: np.array([index])
            for name, index, varies in zip(axes, first, varying, strict=True)
            if varies
        }
    sizes = cells.shape
    return {n: own for n, own, k in zip(axes, seen, sizes, strict=True) if len(own) < k}


def _describe(found: Mapping[str, _Indices], domain: Domain) -> str:
    names = [name for name in domain.names if name in found]
    conditions = (f"{name} = {_values(domain[name], found[name])}" for name in names)
    return ", ".join(conditions) or _ALL


def _values(attribute: Attribute, indices: _Indices) -> str:
    parts = list(_parts(attribute, indices.tolist()))
    if len(parts) <= _NAMED:
        return " or ".join(text for text, _ in parts)
    text, named = parts[0]
    return f"{text} or {len(indices) - named} others"


def _parts(attribute: Attribute, indices: list[int]) -> Iterator[tuple[str, int]]:
    """Runs of a range or of bins, and single values, each with its number of values."""
    special = {attribute.null_cell, attribute.other_cell}
    ordered = [i for i in indices if i not in special]
    start = 0
    for end in range(1, len(ordered) + 1):
        joined = end < len(ordered) and ordered[end] == ordered[end - 1] + 1
        if not attribute.ordered or not joined:
            yield _run(attribute, ordered[start], ordered[end - 1]), end - start
            start = end
    for index in indices:
        if index in special:
            yield shown(attribute.cells[index]), 1


def _run(attribute: Attribute, first: int, last: int) -> str:
    if attribute.edges is not None:
        return f"[{attribute.edges[first]}, {attribute.edges[last + 1]})"
    low, high = shown(attribute.cells[first]), shown(attribute.cells[last])
    return low if first == last else f"{low} to {high}"
