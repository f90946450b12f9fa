"""What a release costs each cell: the loss of one record more or less (BAYES Theorem 5.5).

Column c costs a record in cell j Σ_i |C_ij|^p · rate_c, p = 1 in ε and 2 in ρ (`measure`); the
costs of a workload's columns add up. The statement's cost is the largest cell's (MATH §2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded
from tallyveil.arrays import IntArray
from tallyveil.cache import Cache
from tallyveil.mechanisms.losses.cell_weights import (
    CellWeights,
    check_magnitude,
    from_midrange,
    from_zero,
)
from tallyveil.mechanisms.losses.loss_tensor import (
    CELL_LIMIT,
    Tensor,
    align,
    independent,
    join_axes,
    place,
)
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.units import loss_units
from tallyveil.workload.workload import Column

__all__ = ["CellLoss", "cell_losses", "midrange_losses"]

# This many weights of one rate are added up as matrices of doubles.
_MANY: Final = 8
# Doubles represent integers below this exactly.
_EXACT: Final = 2**53

_SMALL: Final = 1 << 14  # entries of totals that are cached


@dataclass(frozen=True)
class CellLoss:
    """The loss of each cell in units, as the sum of ``tensors``.

    ``bound``, the sum of their maxima, is at least the largest cell's loss, and equal to it when
    ``exact``. There are no tensors if the release depends on no record.
    """

    tensors: tuple[Tensor, ...]
    measure: Measure

    @property
    def cells(self) -> int:
        """The number of entries it holds, for caches."""
        return sum(t.values.size + sum(map(len, t.codes.values())) for t in self.tensors)

    @property
    def bound(self) -> int:
        return sum(t.highest for t in self.tensors)

    @property
    def average(self) -> float:
        """The mean loss in units, over all cells."""
        return float(sum(tensor.mean for tensor in self.tensors))

    @property
    def exact(self) -> bool:
        return all(t.exact for t in self.tensors) and independent([t.axes for t in self.tensors])


def cell_losses(
    columns: Sequence[Column], rates: Sequence[Fraction], measure: Measure, *, merge: bool
) -> tuple[Tensor, ...]:
    """Return the cells' losses. Columns are summed exactly and rounded up once per tensor.

    The result is one tensor over all axes that matter if that is small enough, else one per group
    of columns. ``merge`` as in `from_zero`.
    """
    key = tuple(columns), power(measure), merge
    if len(columns) == 1:  # whose scale is found by its sensitivity alone
        return _from_zero(*key).at(rates)
    return _weighed.get(key, lambda: _from_zero(*key)).at(rates)


def midrange_losses(
    columns: Sequence[Column], rates: Sequence[Fraction], measure: Measure, closed: bool
) -> tuple[Tensor, ...]:
    """Return Σ_i |C_ij − m_i| · rate in ε and Σ_i 2 (C_ij − m_i)² · rate in ρ for every cell j.

    m_i is half way between row i's least and greatest coefficient. Both are computed in integers,
    as half of |2 C_ij − 2 m_i| or of its square.
    """
    p = power(measure)
    halves = [rate / 2 for rate in rates]
    return _Weighed([from_midrange(column, p, closed) for column in columns]).at(halves)


class _Weighed:
    """Weights of columns, with what does not depend on the columns' rates.

    A statement asks for the losses of its columns twice: to find scales, and at these scales.
    """

    def __init__(self, weights: Sequence[CellWeights]) -> None:
        self._groups = [(group, _Group([weights[m] for m in group])) for group in _groups(weights)]

    @property
    def cells(self) -> int:
        """The number of entries it holds, for caches."""
        return sum(own.cells for _, own in self._groups)

    def at(self, rates: Sequence[Fraction]) -> tuple[Tensor, ...]:
        """Return the losses at these rates of the columns."""
        return tuple(own.at([rates[m] for m in group]) for group, own in self._groups)


_weighed: Final[Cache[_Weighed]] = Cache(64, 1 << 21, lambda _, weighed: weighed.cells)


def _from_zero(columns: Sequence[Column], p: int, merge: bool) -> _Weighed:
    for column in columns:
        check_magnitude(column, p)
    return _Weighed([from_zero(column, p, merge=merge) for column in columns])


def _groups(weights: Sequence[CellWeights]) -> list[list[int]]:
    """Return which weights to sum into one tensor: all, unless their axes have too many cells."""
    sizes = {name: size for w in weights for name, size in w.sizes.items()}
    if math.prod(sizes.values()) <= CELL_LIMIT:
        return [list(range(len(weights)))] if weights else []
    groups: list[list[int]] = []
    for n, own in enumerate(weights):
        axes = [join_axes(*(weights[m].axes for m in group)) for group in groups]
        chosen = place(axes, own.axes, sizes)
        members = [m for g in chosen for m in groups[g]]
        groups = [group for g, group in enumerate(groups) if g not in chosen]
        groups.append([*members, n])
    return groups


class _Group:
    """Weights that are summed into one tensor, once for coordinates that none of them
    distinguishes."""

    def __init__(self, weights: Sequence[CellWeights]) -> None:
        self._weights = weights
        self._axes = join_axes(*(w.axes for w in weights))
        self._codes, self._kinds = _kinds([part for w in weights for part in w.parts])
        sizes = {name: size for w in weights for name, size in w.sizes.items()}
        sizes |= {name: len(kind) for name, kind in self._kinds.items()}
        self._entries = math.prod(sizes.values())
        self._sums: dict[tuple[int, ...], Sequence[IntArray]] = {}  # by weights of one rate

    @property
    def cells(self) -> int:
        parts = sum(part.values.size for w in self._weights for part in w.parts)
        return parts + len(self._weights) * _SMALL

    def at(self, rates: Sequence[Fraction]) -> Tensor:
        """Return the sum of the weights at these rates."""
        alike: dict[Fraction, list[int]] = {}
        for n, rate in enumerate(rates):
            alike.setdefault(rate, []).append(n)
        moves = [(v, rate) for rate, own in alike.items() for v in self._added(tuple(own))]
        values = loss_units([v for v, _ in moves], [rate for _, rate in moves])
        outside = [np.array(w.outside, dtype=np.int64) for w in self._weights]
        return Tensor(
            self._axes,
            values,
            int(loss_units(outside, rates)) if any(outside) else 0,
            exact=all(w.exact for w in self._weights),
            alike=all(w.alike for w in self._weights),
            codes={name: own for name, own in self._codes.items() if name in self._axes},
        )

    def _added(self, own: tuple[int, ...]) -> Iterable[IntArray]:
        """As `_summands`, cached if it is small."""
        found = self._sums.get(own)
        if found is not None:
            return found
        summands = _summands([self._weights[n] for n in own], self._kinds, self._axes)
        if len(own) * self._entries > _SMALL:
            return summands
        return self._sums.setdefault(own, [*summands])


def _kinds(parts: Sequence[Tensor]) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
    """Return the kind of each coordinate, and one coordinate of each kind, by axis.

    Coordinates of one kind have the same weights in every part. Axes on which all coordinates
    differ are left out.
    """
    codes: dict[str, IntArray] = {}
    for part in parts:
        for name, own in zip(part.axes, part.kinds, strict=True):
            deadline.check()
            if name in codes:
                codes[name], _ = coded(codes[name] * (int(own.max()) + 1) + own)
            else:
                codes[name] = own
    codes = {name: kinds for name, kinds in codes.items() if int(kinds.max()) + 1 < len(kinds)}
    return codes, {name: _firsts(own) for name, own in codes.items()}


def _firsts(codes: IntArray) -> IntArray:
    """The first place of each code."""
    found = np.empty(int(codes.max()) + 1, dtype=np.int64)
    found[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return found


def _summands(
    weights: Sequence[CellWeights], kinds: Mapping[str, IntArray], axes: Sequence[str]
) -> Iterator[IntArray]:
    """Yield arrays that add up to the sum of ``weights``, over ``axes``, for one coordinate of each
    kind.

    Many weights are added up as one product of two matrices: their factors along the longest axis
    that no part shares with other axes, times their factors along all other axes. That is computed
    in doubles, which is exact for integers of less than 53 bits.
    """
    sizes = {name: size for w in weights for name, size in w.sizes.items()}
    sizes |= {name: len(kind) for name, kind in kinds.items() if name in sizes}
    tied = {name for w in weights for part in w.parts if len(part.axes) > 1 for name in part.axes}
    free = [name for name in axes if name in sizes and name not in tied]
    if len(weights) < _MANY or not free or sum(w.highest for w in weights) >= _EXACT:
        yield from (_multiply_out(w.parts, kinds, axes) for w in weights)
        return
    along = max(free, key=sizes.__getitem__)
    shape = [sizes.get(name, 1) if name != along else 1 for name in axes]
    total = np.zeros((sizes[along], math.prod(shape)))
    together = max(1, CELL_LIMIT // math.prod(shape))
    for start in range(0, len(weights), together):
        chunk = [w.parts for w in weights[start : start + together]]
        lines, others = np.ones((len(chunk), sizes[along])), np.empty((len(chunk), *shape))
        for n, parts in enumerate(chunk):
            others[n] = _multiply_out([p for p in parts if p.axes != (along,)], kinds, axes)
            for own in (part for part in parts if part.axes == (along,)):
                lines[n] = _multiply_out([own], kinds, [along])
        deadline.check()
        total += lines.T @ others.reshape(len(chunk), -1)
    place = axes.index(along)
    whole = total.reshape(-1, *shape[:place], *shape[place + 1 :])
    yield np.moveaxis(whole, 0, place).astype(np.int64)


def _multiply_out(
    parts: Sequence[Tensor], kinds: Mapping[str, IntArray], axes: Sequence[str]
) -> IntArray:
    """Multiply the parts out over ``axes``, for one coordinate of each kind."""
    product: IntArray = np.ones((1,) * len(axes), dtype=np.int64)
    for part in parts:
        deadline.check()
        values = part.values
        for n, name in enumerate(part.axes):
            if name in kinds:
                values = values.take(kinds[name], axis=n)
        product = product * align(values, part.axes, axes)
    return product
