"""The best linear unbiased combination of many answers, most of which are exchangeable (BAYES §3).

History: y = H x + noise, independent noise of variance v_i on row i. For a query q, find the A with
A H = q of least Σ A_i² v_i. This is quick for many rows and cells of few sorts, such as the groups
of a GROUP BY. Several queries are one problem as long as their joint colours are not too many.

Colour refinement finds the sorts. Rows have one colour only if they have equal variance and, for
each colour of cells, equal sums of coefficients; cells only if q is equal and, for each colour of
rows, the sums of coefficients. Averaging A over the rows of a colour keeps A H = q and makes no
variance larger (Grohe, Kersting, Mladenov & Selman 2014, "Dimension Reduction via Colour
Refinement", for linear programs; here for a convex quadratic one). So the best A is constant on
colours, A = α[colour], and with S[r, c] = Σ_{i of r} H[i, j], any cell j of colour c, and n_r rows
of colour r,

    α S = q,   least Σ_r α_r² n_r v_r.

Colours are found by random sums, which could merge two colours by chance. So A H = q is checked on
every cell, and a query that does not pass counts as not determined by the history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil import deadline
from tallyveil.alike import ranks, unsigned
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import cached_property
from tallyveil.inference.estimates.least_norm import (
    LARGEST,
    Nearest,
    best_weights,
    least_norm_work,
    least_weighed,
)

__all__ = ["Exchangeable"]

_ROUNDS: Final = 50

_Colours = IntArray
_Colouring = tuple[_Colours, _Colours]
"""The colours of rows, and of cells."""


class Exchangeable:
    """A history ``rows`` (m×n) of integers below 2⁵³ with ``variances``, 0 for exact answers, and
    everything that does not depend on the query. ``given_up``: some query had too many colours, so
    that it is not known whether the history determines it."""

    def __init__(self, rows: sparse.csr_matrix, variances: FloatArray) -> None:
        self._rows = rows
        self._variances = variances
        self.given_up = False
        self._weights: dict[tuple[int, ...], FloatArray] = {}  # by system, variances and queries

    @cached_property
    def too_large(self) -> bool:
        """Whether no query can be solved, as it has at least as many colours as the history."""
        if least_norm_work(*self._rows.shape) <= LARGEST:
            return False
        return _work(self._own_colours) > LARGEST

    def combinations(self, queries: IntArray) -> Sequence[FloatArray | None]:
        """The A of each query (k×n, integers below 2⁵³); None if the history does not determine it,
        or it has too many colours. All queries are solved with their joint colours, unless one by
        one is less work."""
        if not len(self._variances) or self.too_large or not queries.any():
            zero = np.zeros(len(self._variances))
            return [None if query.any() else zero for query in queries]
        nearest = self.nearest(queries)
        return self.one_by_one(queries) if nearest is None else nearest.combinations

    def one_by_one(self, queries: IntArray) -> Sequence[FloatArray | None]:
        """As `combinations`, where `nearest` has none for all queries. Multiples of a query are one
        problem."""
        if len(queries) == 1:
            self.given_up = True
            return [None]
        units, solved = np.gcd.reduce(queries, axis=1), dict[bytes, FloatArray | None]()
        result: list[FloatArray | None] = []
        for query, unit in zip(queries, np.maximum(units, 1).tolist(), strict=True):
            row = query // unit
            if (key := row.tobytes()) not in solved:
                solved[key] = self.combinations(row[None, :])[0]
            found = solved[key]
            result.append(None if found is None else unit * found)
        return result

    def nearest(self, queries: IntArray) -> Nearest | None:
        """The nearest combinations for all queries, by their joint colours; None if these are too
        many, or one by one is less work."""
        deadline.check()
        most = LARGEST
        if len(queries) > 1:
            most = min(most, len(queries) * _work(self._own_colours))
        colours = self._colours(queries, most)
        return None if _work(colours) > most else self._solved(colours, queries)

    def _solved(self, colours: _Colouring, queries: IntArray) -> Nearest:
        """Solve queries that have these colours."""
        sorts, cells = colours
        sizes, rows = np.bincount(sorts), self._rows
        _, first = np.unique(cells, return_index=True)
        rank = ranks(first, len(cells))
        at, sort = rank[rows.indices], np.repeat(sorts, np.diff(rows.indptr))
        own = np.flatnonzero(at >= 0)
        shape = len(sizes), len(first)
        places = sort[own] * len(first) + at[own]
        sums = np.bincount(places, rows.data[own], math.prod(shape))
        system = sums.reshape(shape).astype(np.float64, copy=False)
        of_sort = np.zeros(len(sizes))
        of_sort[sorts] = self._variances
        asked = queries[:, first].astype(np.float64)
        # Groups that the history treats alike are one problem, numbered alike.
        key = tuple(hash(each.tobytes()) for each in (system, of_sort, sizes, asked))
        if key not in self._weights:
            weights = best_weights(least_weighed, system, of_sort, asked, sizes)
            if weights is not None:
                self._weights[key] = weights
        used = self._weights[key][:, sorts]
        off = queries - (rows.T @ used.T).T
        return Nearest.of(used, queries, off, self._most, shape)

    @cached_property
    def _most(self) -> IntArray:
        """Each row's largest coefficient."""
        most: IntArray = abs(self._rows).max(axis=1).toarray()[:, 0]
        return most

    @cached_property
    def _marked(self) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """The matrix and its transpose for sums of 64 random bits modulo 2⁶⁴, which identify
        multisets."""
        own = unsigned(self._rows)
        return own, own.T.tocsr()

    # Random numbers that distinguish public coefficients; they are not noise. They are equal in all
    # processes, so that estimates are too. The solution that they lead to is checked.

    @cached_property
    def _own_colours(self) -> _Colouring:
        """The colours of the history without a query."""
        cells = np.zeros(self._rows.shape[1], dtype=np.int64)
        sorts = _numbered(self._variances)
        return self._refined(np.random.default_rng(0), sorts, cells, LARGEST)

    def _colours(self, queries: IntArray, most: float) -> _Colouring:
        """The coarsest equitable colours of rows and cells, numbered from 0, unless they are more
        than ``most`` work: then coarser ones that are, too."""
        random, (sorts, own) = np.random.default_rng(1), self._own_colours
        if len(own) == int(own.max()) + 1:
            return sorts, own  # none is finer
        marks = random.integers(0, 2**64, len(queries), dtype=np.uint64)
        return self._refined(random, sorts, _split(own, marks @ queries.view(np.uint64)), most)

    def _refined(
        self, random: np.random.Generator, sorts: _Colours, cells: _Colours, most: float
    ) -> _Colouring:
        """The coarsest equitable colours that refine these, or the first of more than ``most``
        work: each is finer than the one before."""
        matrix, across = self._marked
        for _ in range(_ROUNDS):
            before = int(sorts.max()), int(cells.max())
            cells = _split(cells, across @ _marks(random, sorts))
            sorts = _split(sorts, matrix @ _marks(random, cells))
            if (int(sorts.max()), int(cells.max())) == before or _work((sorts, cells)) > most:
                break
        return sorts, cells


def _work(colours: _Colouring) -> float:
    """The work to solve the system of these colours."""
    sorts, cells = colours
    return least_norm_work(int(sorts.max()) + 1, int(cells.max()) + 1)


def _marks(random: np.random.Generator, colours: _Colours) -> npt.NDArray[np.uint64]:
    marks = random.integers(0, 2**64, int(colours.max()) + 1, dtype=np.uint64)
    result: npt.NDArray[np.uint64] = marks[colours]
    return result


def _split(colours: _Colours, sums: npt.NDArray[np.uint64]) -> _Colours:
    """Finer colours: equal where the colours and the sums are."""
    mixed = sums + np.uint64(0x9E3779B97F4A7C15) * colours.astype(np.uint64)
    return _numbered(mixed)


def _numbered(values: npt.NDArray[np.generic]) -> _Colours:
    numbers: _Colours = np.unique(values, return_inverse=True)[1].ravel().astype(np.int64)
    return numbers
