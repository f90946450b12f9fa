"""The cube x, the number of records in each cell, and the sealed answers Wx."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import CodeArray, IntArray
from tallyveil.boundary import TrueAnswer, refusing
from tallyveil.cache import Cache
from tallyveil.cube.cube_product import Grids, exact_product, kronecker_product
from tallyveil.cube.marginals import DENSE_CELLS, Marginal, flat_index, marginal, marginal_cache
from tallyveil.cube.members import Members
from tallyveil.errors import StatementTooComplex
from tallyveil.policy import Domain
from tallyveil.workload.workload import Column, Workload

__all__ = ["MAX_CODES", "MAX_RECORDS", "Cube"]

MAX_RECORDS: Final = 2**31 - 1
MAX_CODES: Final = 20_000_000
_LOOKED_UP: Final = 100_000
_LARGEST: Final = 2**63 - 1  # largest number of a cell


class _Part(NamedTuple):
    codes: tuple[CodeArray, ...]
    counts: IntArray
    units: IntArray | None


class _Counts:
    """Codes per axis and counts of the cells in use, numbers of the units in them, if there are
    units, and which are in which, if they may have several records. They are kept in parts, so that
    a day more takes no longer after a year of days. Its repr is an address."""

    __slots__ = ("_parts", "marginals", "members", "number", "records")
    _parts: tuple[_Part, ...]
    marginals: Cache[Marginal]
    number: int
    records: int

    def __init__(self, part: _Part, members: Members | None, earlier: _Counts | None) -> None:
        self._parts = (*(earlier._parts if earlier else ()), part)
        self.members = members
        self.number = len(part.counts) + (earlier.number if earlier else 0)
        self.records = int(part.counts.sum()) + (earlier.records if earlier else 0)
        self.marginals = earlier.marginals if earlier else marginal_cache()

    def after(self, number: int) -> tuple[tuple[CodeArray, ...], IntArray]:
        """The codes and counts after the first ``number`` cells in use."""
        parts, end = list[_Part](), self.number
        for part in reversed(self._parts):
            if end > number or not parts:
                parts.append(part)
                end -= len(part.counts)
        codes, counts, _ = _joined(parts[::-1])
        first = max(number - end, 0)
        return tuple(code[first:] for code in codes), counts[first:]

    @property
    def whole(self) -> _Part:
        """All of them, which are one part from now on."""
        if len(self._parts) > 1:
            self._parts = (_joined(self._parts),)
        return self._parts[0]

    @property
    def codes(self) -> tuple[CodeArray, ...]:
        return self.whole.codes

    @property
    def counts(self) -> IntArray:
        return self.whole.counts

    @property
    def units(self) -> IntArray | None:
        return self.whole.units


def _joined(parts: Sequence[_Part]) -> _Part:
    units = [part.units for part in parts if part.units is not None]
    return _Part(
        tuple(np.concatenate(axis) for axis in zip(*(part.codes for part in parts), strict=True)),
        np.concatenate([part.counts for part in parts]),
        np.concatenate(units) if units else None,
    )


class Cube:
    """The counts of one protected table, accessible only by `answer` and `records`.

    They are stored sparsely, so only the number of cells in use matters, not the domain's size. A
    cube shows no count, and cannot be copied or pickled.
    """

    __slots__ = ("_counts", "domain")
    _counts: _Counts

    def __init__(
        self,
        domain: Domain,
        codes: tuple[CodeArray, ...],
        counts: IntArray,
        units: IntArray | None = None,
        members: Members | None = None,
        earlier: Cube | None = None,
    ) -> None:
        """The t-th cell in use is ``codes[a][t]`` on axis a and holds ``counts[t]`` records of
        privacy units from which the number ``units[t]`` follows, if there are any. They come after
        those of an ``earlier`` cube of other cells, if there is one. The units are the ``members``
        of all cells, if these are to be counted."""
        if len(codes) != len(domain.attributes):
            raise ValueError("every axis needs its codes")
        self.domain = domain
        before = None if earlier is None else earlier._counts
        self._counts = _Counts(_Part(codes, counts, units), members, before)

    def __repr__(self) -> str:
        axes = ", ".join(self.domain.names)
        return f"Cube({self.domain.table}: {axes}; {self.domain.size:,} cells)"

    __copy__ = __deepcopy__ = refusing(TypeError, "a Cube is confidential and cannot be copied")
    __reduce_ex__ = refusing(TypeError, "a Cube is confidential and cannot be pickled")

    @property
    def counts_units(self) -> bool:
        """Whether it knows which records are of one unit; this depends on the policy alone."""
        return self._counts.members is not None

    def answer(
        self, workload: Workload, key: bytes | None = None, *, units: bool = False
    ) -> TrueAnswer:
        """Wx exactly, as integers in units of each column's multiplier. It is sealed under ``key``,
        by default the workload's.

        values[c][i] = Σ_j C[i, j] · x_axes[j], where x_axes is the marginal of x over the column's
        axes; or if ``units``, the number of units with a record in a cell j with C[i, j] ≠ 0.

        Raises ValueError if the workload was made for another domain, and for units that are not
        known or of too many cells.
        """
        self._check(workload)
        if units:
            values = [self._units(c) for c in workload.columns]
        else:
            grids = Grids(workload.columns)
            values = [self._column(c, grids) for c in workload.columns]
        return TrueAnswer(workload.key if key is None else key, values)

    def has_ready(self, workload: Workload) -> bool:
        """Whether `answer` needs only marginals cached by earlier questions, and so takes little
        time. It depends only on the questions."""
        return all(
            column.entries <= _LOOKED_UP
            and column.size <= _LOOKED_UP
            and self._counts.marginals.find(column.axes) is not None
            for column in workload.columns
        )

    def records(self, workload: Workload) -> TrueAnswer:
        """The individual records, sealed under another key, for `mechanisms.records.sanitiser`.

        values[c][i] is the cell of record i on the axes of column c, as the column counts them.
        Equal records are adjacent; the order reveals nothing about the source's order.

        Raises ValueError if the workload was made for another domain, and StatementTooComplex if
        there are more than `MAX_CODES` values in all: the number of records is public where
        records are asked for.
        """
        self._check(workload)
        values = sum(len(column.axes) for column in workload.columns)
        if self._counts.records * values > MAX_CODES:
            raise StatementTooComplex(
                f"a sanitised copy has at most {MAX_CODES:,} values",
                hint="Sanitise fewer columns.",
            )
        counts = self._counts.counts
        codes = (flat_index(self._codes(c.axes), c.shape) for c in workload.columns)
        return TrueAnswer(workload.records_key, [np.repeat(c, counts).tolist() for c in codes])

    def digest(self, key: bytes) -> bytes:
        """A digest that identifies these counts: BLAKE2b under ``key`` of the cells in use, their
        counts and the numbers of their units, in the order of the cells. Confidential: with the
        key, guesses can be tested.
        """
        codes, counts, units = self._counts.codes, self._counts.counts, self._counts.units
        if self.domain.size <= _LARGEST:
            shape = tuple(axis.size for axis in self.domain.attributes)
            order = np.argsort(flat_index(codes, shape))
        else:
            order = np.lexsort(codes[::-1])
        order = order[counts[order] > 0]
        digest = hashlib.blake2b(key=key, digest_size=32)
        for array in (counts, *codes, *(() if units is None else (units,))):
            digest.update(array[order].astype("<i8").tobytes())
        return digest.digest()

    def _check(self, workload: Workload) -> None:
        if workload.table != self.domain.table:
            raise ValueError(f"the workload asks {workload.table}, not {self.domain.table}")
        for factor in (factor for column in workload.columns for factor in column.factors):
            shape = tuple(a.size for a in self.domain.project(factor.axes))
            in_order = tuple(n for n in self.domain.names if n in factor.axes) == factor.axes
            if shape != factor.shape or not in_order:
                raise ValueError("the workload was made for another domain")

    def _column(self, column: Column, grids: Grids) -> list[int]:
        if len(column.factors) == 1 and column.selected is None:
            (factor,) = column.factors
            return exact_product(factor, self._marginal(factor.axes, factor.shape).at(factor.cells))
        if column.size <= DENSE_CELLS:
            sizes = [factor.size for factor in column.factors]
            counts = self._marginal(column.axes, column.shape).all(column.size)
            return grids.product(column, counts.reshape(sizes))
        codes = tuple(flat_index(self._codes(f.axes), f.shape) for f in column.factors)
        return kronecker_product(column, codes, self._counts.counts)

    def _units(self, column: Column) -> list[int]:
        whole, members = column.multiplied_out(DENSE_CELLS), self._counts.members
        if whole is None or members is None:
            raise ValueError("the units of these rows cannot be counted")
        places = flat_index(self._codes(whole.axes), whole.shape)
        return members.count(whole, np.broadcast_to(places, self._counts.counts.shape))

    def _codes(self, axes: tuple[str, ...]) -> tuple[CodeArray, ...]:
        names = self.domain.names
        return tuple(self._counts.codes[names.index(axis)] for axis in axes)

    def _marginal(self, axes: tuple[str, ...], shape: tuple[int, ...]) -> Marginal:
        """Of a table that grows, what was found before is kept, and further cells are added."""
        found = self._counts.marginals.find(axes)
        if found is None or found.until < self._counts.number:
            codes, counts = self._counts.after(0 if found is None else found.until)
            own = tuple(codes[self.domain.names.index(axis)] for axis in axes)
            flat = np.broadcast_to(flat_index(own, shape), counts.shape)
            size = math.prod(shape)
            found = marginal(flat, size, counts) if found is None else found.grown(flat, counts)
            self._counts.marginals.put(axes, found)
        return found
