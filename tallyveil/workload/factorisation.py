"""The finest Kronecker factorisation of the rows of a matrix.

A row is a tensor T over its axes, whose finest Kronecker factorisation is
T = s · T_1 ⊗ … ⊗ T_m, with s an integer and every T_g primitive (integers with greatest common
divisor 1, the first of them positive) over a group of axes. For T ≠ 0 that is unique: if T is an
outer product over S and the rest, and over S' and the rest, it is one over S ∩ S' too. A factor
of ones over a whole axis is left out.

T is an outer product over S and the rest exactly if its fibres over the rest, one for each
position in S it touches, are multiples of one another: divided by their greatest common divisors
they are equal. Everything is integer arithmetic, for all rows of a matrix at once.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.alike import changes, run_starts
from tallyveil.arrays import BoolArray, IntArray
from tallyveil.workload.runs import primitive_runs

__all__ = ["FactorParts", "row_parts"]


FactorParts: TypeAlias = tuple[int, tuple[tuple[str, bytes], ...]]
"""s, and for each T_g the name of its axes and its digest; no digest where s is 0."""

# Groups of axes are tried one by one, each with a pass over all entries. Where that is too much
# work, only single axes are tried, or none. Then a row written in two ways may get two keys, so
# that a repeated answer is charged again; nothing else is lost.
_SUBSET_AXES: Final = 8
_WORK: Final = 4_000_000
# Entries up to which a row of one axis is digested at once.
_SHORT: Final = 1 << 18
# Entries that are digested between two checks of the deadline.
_PORTION: Final = 1 << 18


def row_parts(
    axes: Sequence[str],
    shape: Sequence[int],
    height: int,
    rows: IntArray,
    cells: IntArray,
    coefficients: IntArray,
) -> tuple[FactorParts, ...]:
    """The parts of every row of a sparse matrix whose entries are sorted by (row, cell)."""
    if height == len(axes) == 1 and 0 < len(cells) <= _SHORT and (coefficients == 1).all():
        return (_set_of_values(axes, shape, cells),)
    scalars = [0] * height
    found: list[list[tuple[str, bytes]]] = [[] for _ in range(height)]
    starts = run_starts(rows)
    present = rows[starts]
    deadline.check()
    for row in present.tolist():
        scalars[row] = 1
    numbers = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    piece = _Piece(tuple(axes), tuple(shape), present, numbers, cells, coefficients)
    groups = tuple(_subsets(axes, len(cells)))
    for leaf in _split(piece, groups) if len(present) else ():
        leaf.digest(scalars, found)
    return tuple((s, tuple(pairs)) for s, pairs in zip(scalars, found, strict=True))


def _set_of_values(axes: Sequence[str], shape: Sequence[int], cells: IntArray) -> FactorParts:
    """The parts of a row of ones at some values of one axis, as most rows are."""
    if len(cells) == shape[0]:
        return 1, ()
    name = repr((tuple(axes), tuple(shape)))
    entries = np.ones((len(cells), 2), dtype=np.int64)
    entries[:, 0] = cells
    digest = hashlib.blake2b(_header(name) + entries.tobytes(), digest_size=16)
    return 1, ((name, digest.digest()),)


@lru_cache(maxsize=4096)
def _header(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


@dataclass(frozen=True, eq=False)
class _Piece:
    """The rows ``names[0], names[1], …`` over ``axes``; each has entries, sorted by (row, cell)."""

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    names: IntArray
    rows: IntArray
    cells: IntArray
    coefficients: IntArray

    def only(self, chosen: BoolArray) -> _Piece:
        number = np.cumsum(chosen) - 1
        keep = chosen[self.rows]
        return _Piece(
            self.axes,
            self.shape,
            self.names[chosen],
            number[self.rows[keep]],
            self.cells[keep],
            self.coefficients[keep],
        )

    def digest(self, scalars: list[int], found: list[list[tuple[str, bytes]]]) -> None:
        """Multiply each row's content into its scalar and add the digest of what remains."""
        deadline.check()
        starts = run_starts(self.rows)
        deadline.check()
        content, primitive = primitive_runs(self.coefficients, starts)
        deadline.check()
        ends = np.append(starts[1:], len(self.rows))
        size = math.prod(self.shape)
        plain = (ends - starts == size) & np.logical_and.reduceat(primitive == 1, starts)
        name = repr((self.axes, self.shape))
        header = _header(name)
        entries = np.empty((min(_PORTION, len(primitive)), 2), dtype=np.int64)
        body, new = entries.data.cast("B"), hashlib.blake2b(header, digest_size=16).copy
        width, first, at, until = entries.strides[0], 0, 0, 0  # of the portion in ``entries``
        every = (self.names, ends, content, plain)
        for row, end, factor, bare in zip(*(one.tolist() for one in every), strict=True):
            scalars[row] *= factor
            if not bare:
                digest = new()
                while at < end:
                    if at >= until:
                        deadline.check()
                        first, until = at, min(at + _PORTION, len(primitive))
                        entries[: until - first, 0] = self.cells[first:until]
                        entries[: until - first, 1] = primitive[first:until]
                    upto = min(end, until)
                    digest.update(body[(at - first) * width : (upto - first) * width])
                    at = upto
                found[row].append((name, digest.digest()))
            at = end


def _subsets(axes: Sequence[str], entries: int) -> Iterator[frozenset[str]]:
    """Groups of axes that may split off, smallest first; fewer where there are many entries."""
    largest = len(axes) // 2 if len(axes) <= _SUBSET_AXES else 1
    while largest and entries * sum(math.comb(len(axes), n + 1) for n in range(largest)) > _WORK:
        largest -= 1
    for size in range(1, largest + 1):
        yield from map(frozenset, itertools.combinations(axes, size))


def _split(piece: _Piece, untried: tuple[frozenset[str], ...]) -> Iterator[_Piece]:
    """The finest factors. A group that splits from a factor also splits from the whole, so groups
    that failed on the whole are not tried again. The smallest group comes first, so it is a factor
    that does not split further.
    """
    for n, group in enumerate(untried):
        if 2 * len(group) > len(piece.axes) or len(piece.axes) == 1:
            continue
        if not _may_split(piece, group):
            continue
        splits, own, rest = _apart(piece, group)
        if splits.any():
            yield own
            remaining = frozenset(rest.axes)
            yield from _split(rest, tuple(g for g in untried[n + 1 :] if g <= remaining))
        if splits.all():
            return
        piece = piece.only(~splits)
    yield piece


def _may_split(piece: _Piece, group: frozenset[str]) -> bool:
    """Whether in some row all positions in ``group`` with entries have equally many: an outer
    product requires it, and it is quick to check.
    """
    size = math.prod(n for axis, n in zip(piece.axes, piece.shape, strict=True) if axis in group)
    if len(piece.names) * size > len(piece.cells):
        return True
    deadline.check()
    places = piece.rows * size + _project(piece, [axis in group for axis in piece.axes])
    counts = np.bincount(places, minlength=len(piece.names) * size).reshape(-1, size)
    deadline.check()
    most = counts.max(axis=1, keepdims=True)
    return bool(((counts == 0) | (counts == most)).all(axis=1).any())


def _apart(piece: _Piece, group: frozenset[str]) -> tuple[BoolArray, _Piece, _Piece]:
    """Which rows are outer products over ``group`` and the rest, and their two sides."""
    inside = [axis in group for axis in piece.axes]
    first = _project(piece, inside)
    second = _project(piece, [not i for i in inside])
    rows, coefficients = piece.rows, piece.coefficients
    order = _order(rows, first)
    if order is not None:
        rows, first, second = rows[order], first[order], second[order]
        coefficients = coefficients[order]
    deadline.check()
    new = changes(rows, first)
    fibres = np.flatnonzero(new)
    fibre = np.cumsum(new) - 1
    content, primitive = primitive_runs(coefficients, fibres)
    row_starts = run_starts(rows)
    lengths = np.diff(fibres, append=len(rows))
    model = lengths[fibre[row_starts]]  # each row's first fibre, which the others must equal
    within = np.arange(len(rows)) - fibres[fibre]
    twin = row_starts[rows] + np.minimum(within, model[rows] - 1)
    alike = (
        (lengths[fibre] == model[rows]) & (second == second[twin]) & (primitive == primitive[twin])
    )
    splits = np.logical_and.reduceat(alike, row_starts)
    names, number = piece.names[splits], np.cumsum(splits) - 1
    heads = fibres[splits[rows[fibres]]]
    own = _Piece(
        *_axes(piece, inside), names, number[rows[heads]], first[heads], content[fibre[heads]]
    )
    body = np.flatnonzero(splits[rows] & (fibre == fibre[row_starts][rows]))
    rest = _Piece(
        *_axes(piece, [not i for i in inside]),
        names, number[rows[body]], second[body], primitive[body],
    )  # fmt: skip
    return splits, own, rest


def _order(rows: IntArray, first: IntArray) -> IntArray | None:
    """The stable order of entries by row and first index; None if they are sorted already. Entries
    of one row and first index must be sorted by the second index. numpy sorts 16 bits in linear
    time."""
    deadline.check()
    several = int(first.max()) + 1
    if (int(rows[-1]) + 1) * several > 1 << 16:
        return np.lexsort((first, rows))
    places = (rows * several + first).astype(np.uint16)
    return None if (places[1:] >= places[:-1]).all() else np.argsort(places, kind="stable")


def _axes(piece: _Piece, kept: Sequence[bool]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    pairs = zip(piece.axes, piece.shape, kept, strict=True)
    chosen = [(axis, size) for axis, size, keep in pairs if keep]
    return tuple(axis for axis, _ in chosen), tuple(size for _, size in chosen)


def _project(piece: _Piece, kept: Sequence[bool]) -> IntArray:
    """The cells' C-order index over the kept axes; adjacent axes are treated as one."""
    code: IntArray | None = None
    below, stride = 1, 1  # the number of cells of the later axes: of all, and of those kept
    every = zip(reversed(piece.shape), reversed(kept), strict=True)
    for keep, side_by_side in itertools.groupby(every, key=lambda one: one[1]):
        size = math.prod(size for size, _ in side_by_side)
        if keep:
            place = piece.cells // below if below > 1 else piece.cells
            if below * size < math.prod(piece.shape):
                place = place - place // size * size  # quicker than a remainder
            code = place if code is None else code + place * stride
            stride *= size
        below *= size
    return np.zeros_like(piece.cells) if code is None else code
