"""What would be known of a table's counts if something were bought: the laws of estimates' errors.

Looked at are the rows to be bought, recorded rows that bear on them, and the differences of two
nested groups of which one is to be bought: who knows a group, and the same group less a few
records, knows these few. Each row's estimate is the best linear unbiased combination of what was
recorded and what would be bought (BAYES §3). Its law does not depend on the answers, so nothing
has to be drawn to find it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.accountant import Answer, Charge
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import Fit, Law, Noises
from tallyveil.knowledge.candidates import rows_needed
from tallyveil.knowledge.estimated import Estimated, Weights
from tallyveil.knowledge.nearness import distances, may_nest
from tallyveil.knowledge.related import Prepared, Related, prepared, related
from tallyveil.mechanisms import CountMechanism, mechanism
from tallyveil.workload.workload import IntArray

__all__ = ["Precision", "Prospect", "prospects", "too_complex"]

_ROWS: Final = 20_000  # that are looked at, differences included
_ENTRIES: Final = 1_000_000  # of the differences
_HEIGHT: Final = 1_500  # rows to be bought, and recorded ones
_BESIDE: Final = 1_000  # of these, where recorded ones are neither of the same rows nor nested
_TERMS: Final = 400_000  # of all rows
_TOGETHER: Final = 1_000

_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prospect:
    """``rows`` (m×n) over classes of cells: recorded ones with their ``values`` and ``noises``, and
    the ``fresh`` ones, with the noise they would get. ``queries`` (k×n) is what is looked at.
    """

    rows: sparse.csr_matrix
    origin: IntArray
    """Of which column of the charge a row is to be bought; −1 for recorded ones."""
    values: _Floats
    noises: Noises
    queries: sparse.csr_matrix
    before: Callable[[], Precision]
    """What is known from what was recorded; worked out once."""

    @property
    def fresh(self) -> _Bools:
        found: _Bools = self.origin >= 0
        return found

    @cached_property
    def steps(self) -> IntArray:
        """Of each query by how much one record moves it at most."""
        found: IntArray = abs(self.queries).max(axis=1).toarray().ravel().astype(np.int64)
        return found

    @cached_property
    def counts(self) -> _Bools:
        """Which queries are counts, each record in the group moving them alike."""
        low, high = (
            self.queries.min(axis=1, explicit=True).toarray().ravel(),
            self.queries.max(axis=1, explicit=True).toarray().ravel(),
        )
        found: _Bools = (low == high) & (low > 0)
        return found

    def take(self, which: Sequence[int] | IntArray) -> Prospect:
        """Of some queries only."""
        return replace(self, queries=self.queries[np.asarray(which, dtype=np.int64)])

    def wider(self, factor: float) -> Prospect:
        """With so much wider noise on what is bought."""
        scales = np.where(self.fresh, self.noises.scales * factor, self.noises.scales)
        return replace(self, noises=Noises(self.noises.laws, scales))

    def least_variances(self) -> _Floats:
        """No more than the variances of the queries' estimates once it is bought, and quick.

        For A H = q and each cell j, by Cauchy and Schwarz (A H)_j² = (Σ_i A_i H_ij)²
        ≤ Σ_i A_i² v_i · Σ_i H_ij²/v_i. So the variance is at least max_j q_j² / Σ_i H_ij²/v_i.
        """
        with np.errstate(divide="ignore"):
            each = 1 / self.noises.variances
        precision = np.zeros(self.rows.shape[1])
        spread = np.repeat(each, np.diff(self.rows.indptr))
        np.add.at(precision, self.rows.indices, self.rows.data.astype(np.float64) ** 2 * spread)
        found = np.zeros(self.queries.shape[0])
        of = np.repeat(np.arange(len(found)), np.diff(self.queries.indptr))
        squares = self.queries.data.astype(np.float64) ** 2
        np.maximum.at(found, of, squares / precision[self.queries.indices])
        return found

    def after(self) -> Precision:
        """What would be known once it is bought: something of each query."""
        return Precision.of(self.rows, self.values, self.noises)

    def alone(self) -> list[Estimated | None]:
        """For each query that is a row to be bought that answer by itself, with the least noise."""
        bought: dict[bytes, int] = {}
        keys = _keys(self.rows)
        for row in np.flatnonzero(self.fresh).tolist():
            best = bought.setdefault(keys[row], row)
            if self.noises.scales[row] < self.noises.scales[best]:
                bought[keys[row]] = row
        rows = [bought.get(key) for key in _keys(self.queries)]
        one = np.ones(1)
        return [
            None if row is None else _estimated(self.values, self.noises, np.array([row]), one)
            for row in rows
        ]

    def asked(self) -> Prospect:
        """What is to be bought is what is looked at, row by row."""
        return replace(self, queries=self.rows[np.flatnonzero(self.fresh)])


@dataclass(frozen=True, eq=False)
class Precision:
    """Estimates of queries from some rows, with their values and noises."""

    values: _Floats
    noises: Noises
    fit: Fit

    @classmethod
    def of(cls, rows: sparse.csr_matrix, values: _Floats, noises: Noises) -> Precision:
        """Raises StatementTooComplex where there are too many."""
        if rows.shape[0] > _HEIGHT:
            raise too_complex()
        deadline.check()
        try:
            return cls(values, noises, Fit.of(rows, noises))
        except np.linalg.LinAlgError:
            raise too_complex() from None

    def variances(self, queries: sparse.csr_matrix) -> _Floats:
        """Infinite where the rows do not determine a query."""
        found = [np.zeros(0)]
        for start in range(0, queries.shape[0], _TOGETHER):
            deadline.check()
            found.append(self.fit.variances(queries[start : start + _TOGETHER]))
        return np.concatenate(found)

    def of_query(self, query: sparse.csr_matrix) -> Estimated:
        """Of one that the rows determine."""
        return self._with(self.fit.weights(query))

    def narrower(self, query: sparse.csr_matrix) -> Estimated:
        """With an interval that is no wider than that of the estimate, and quicker to find."""
        return self._with(self.fit.lesser_weights(query))

    def _with(self, weights: _Floats) -> Estimated:
        kept = np.flatnonzero(weights)
        return _estimated(self.values, self.noises, kept, weights[kept])


def _estimated(values: _Floats, noises: Noises, rows: IntArray, weights: _Floats) -> Estimated:
    """With these weights on these rows' answers."""
    return Estimated(float(weights @ values[rows]), rows, Weights(weights, noises.take(rows)))


def prospects(charge: Charge, history: Sequence[Answer]) -> Iterator[Prospect]:
    """What ``charge`` would add to the recorded answers about its table; none if nothing is bought.

    It is looked at as a whole. Where not all recorded answers can be looked at with it, since they
    tell too many cells apart, each of its columns is looked at by itself too: so that a column over
    other attributes does not keep answers from sight that say something about this one.

    Raises StatementTooComplex where there is too much to look at, or the noise is not added.
    """
    parts = [
        number
        for number, (column, scale) in enumerate(
            zip(charge.workload.columns, charge.scales, strict=True)
        )
        if scale and column.height
    ]
    if not parts:
        return
    found, complete = _prospect(charge, parts, history)
    yield from found
    if not complete and len(parts) > 1:
        for number in parts:
            deadline.check()
            yield from _prospect(charge, [number], history)[0]


def _prospect(
    charge: Charge, numbers: Sequence[int], history: Sequence[Answer]
) -> tuple[list[Prospect], bool]:
    """Of some of the charge's columns, and whether all that was chosen of history is in it."""
    noise = mechanism(charge.mechanism)
    if isinstance(noise, CountMechanism):
        raise TypeError(f"{noise.name} is no noise that is added")
    parts = [(n, charge.workload.columns[n], charge.scales[n]) for n in numbers]
    fresh = [Prepared.of(column) for _, column, _ in parts]
    relevant = _relevant(fresh, history)
    others = relevant.columns
    every = [*fresh, *(prepared(answer.column) for answer, _ in others)]
    # Columns bought together are looked at one by one as well, where this is not all.
    found = _fitting(every, len(fresh) + (relevant.needed if len(fresh) == 1 else 0))
    laws = [_noises(noise.law(scale).family, scale, column.height) for _, column, scale in parts]
    laws += [_repeated(own, answer.column.height) for answer, own in others]
    values = [np.full(column.height, np.nan) for _, column, _ in parts]
    values += [np.array(answer.values, dtype=np.float64) for answer, _ in others]
    origin = [np.full(column.height, n) for n, column, _ in parts]
    origin += [np.full(answer.column.height, -1) for answer, _ in others]
    complete = len(found.used) == len(every)
    rows, origins = found.history, np.concatenate([origin[n] for n in found.used])
    rows.sort_indices()
    places = np.flatnonzero(_connected(rows, origins >= 0))
    if not len(places):
        return [], complete
    rows, origins = rows[places], origins[places]
    queries, used = _queries(rows, origins >= 0), np.unique(rows.indices)
    rows, answers = rows[:, used], np.concatenate([values[n] for n in found.used])[places]
    noises = Noises.concatenated([laws[n] for n in found.used]).take(places)
    # What is charged and not recorded yet says how precise it will be, but nothing so far.
    old = np.flatnonzero((origins < 0) & np.isfinite(answers))
    before = cache(lambda: Precision.of(rows[old], answers[old], noises.take(old)))
    return [Prospect(rows, origins, answers, noises, queries[:, used], before)], complete


def _fitting(every: Sequence[Prepared], needed: int) -> Related:
    """The first columns, which are needed, with those of the others for which there is room."""
    others = len(every) - needed
    while True:
        found = related(every[0], range(needed + others), every.__getitem__, _TERMS)
        if found is not None and found.used[:needed] == tuple(range(needed)):
            return found
        if not others:
            raise too_complex()
        others //= 2


def _connected(rows: sparse.csr_matrix, fresh: _Bools) -> _Bools:
    """Which rows have to do with a fresh one, through cells that rows have in common."""
    together = (rows != 0).astype(np.int8)
    _, labels = csgraph.connected_components(
        sparse.bmat([[None, together], [together.T, None]]), directed=False
    )
    labels = labels[: rows.shape[0]]
    found: _Bools = np.isin(labels, labels[fresh]) & (np.diff(rows.indptr) > 0)
    return found


@dataclass(frozen=True, eq=False)
class _Relevant:
    """Recorded columns that bear on the fresh ones, with a row's noise; ``needed`` are those
    before all others without which too little would be looked at."""

    columns: tuple[tuple[Answer, Noises], ...]
    needed: int


def _relevant(fresh: Sequence[Prepared], history: Sequence[Answer]) -> _Relevant:
    """Of the recorded columns whose noise is added, in order: those with rows of the fresh ones,
    those that have cells in common with them and may hold one of their rows or lie within one; then
    the nearest, and of these the most precise, while there are few enough rows. So what is about
    other people pushes nothing out.
    """
    axes = frozenset(axis for column in fresh for axis in column.axes)
    keys = frozenset(key for column in fresh for key in column.column.row_keys)
    added = [
        answer
        for answer in history
        if answer.column.height
        and not (answer.scale and isinstance(mechanism(answer.mechanism), CountMechanism))
    ]
    near = distances([one.column for one in fresh], [answer.column for answer in added])
    found = []
    for number, (answer, distance) in enumerate(zip(added, near, strict=True)):
        column, own = answer.column, _row_noise(answer.mechanism, answer.scale)
        same = not keys.isdisjoint(column.row_keys)
        needed = same or (not distance and any(may_nest(one.column, column) for one in fresh))
        spread = float(own.variances[0]) * rows_needed(column, axes)
        found.append((not needed, distance, spread, -number, answer, own))
    found.sort(key=lambda one: one[:4])
    height = sum(one.column.height for one in fresh)
    chosen: list[tuple[Answer, Noises]] = []
    for other, _, _, _, answer, own in found:
        if not other or height + answer.column.height <= _BESIDE:
            chosen.append((answer, own))
            height += answer.column.height
    return _Relevant(tuple(chosen), sum(not one[0] for one in found))


@lru_cache(maxsize=4096)
def _row_noise(name: str, scale: float) -> Noises:
    noise = mechanism(name)
    if isinstance(noise, CountMechanism):
        return Noises.of(Law.DISCRETE_LAPLACE, 0.0)
    return Noises.of(noise.law(scale).family, scale)


def _noises(family: Law, scale: float, height: int) -> Noises:
    return Noises.of(family, np.full(height, scale))


def _repeated(noise: Noises, height: int) -> Noises:
    return noise.take(np.zeros(height, dtype=np.intp))


def _queries(rows: sparse.csr_matrix, fresh: _Bools) -> sparse.csr_matrix:
    """The rows that are not empty, and the nested differences, each once."""
    filled = np.flatnonzero(np.diff(rows.indptr) > 0)
    every = sparse.vstack([rows[filled], *_differences(rows, fresh)], format="csr")
    if every.shape[0] > _ROWS:
        raise too_complex()
    first: dict[bytes, int] = {}
    for number, key in enumerate(_keys(every)):
        first.setdefault(key, number)
    return every[list(first.values())]


def _keys(rows: sparse.csr_matrix) -> list[bytes]:
    """Equal for equal rows, whose cells are in order."""
    cells, coefficients = rows.indices.astype("<i8"), rows.data.astype("<i8")
    return [cells[a:b].tobytes() + coefficients[a:b].tobytes() for a, b in _stretches(rows)]


def _differences(rows: sparse.csr_matrix, fresh: _Bools) -> list[sparse.csr_matrix]:
    """Of groups, one of which is fresh, of which one holds the other: the larger less the smaller.

    A group is a row whose coefficients are all the same.
    """
    sizes = np.diff(rows.indptr)
    least = np.array([rows.data[a:b].min(initial=2**62) for a, b in _stretches(rows)])
    most = np.array([rows.data[a:b].max(initial=0) for a, b in _stretches(rows)])
    groups = np.flatnonzero((least == most) & (least > 0))
    patterns = rows[groups].copy()
    patterns.data = np.ones_like(patterns.data)
    own = np.flatnonzero(fresh[groups])
    shared = (patterns[own] @ patterns.T).tocoo()
    mine, theirs = sizes[groups[own[shared.row]]], sizes[groups[shared.col]]
    nested = (mine != theirs) & (shared.data == np.minimum(mine, theirs))
    if nested.sum() > _ROWS or np.abs(mine - theirs)[nested].sum() > _ENTRIES:
        raise too_complex()
    if not nested.any():
        return []
    first, second = own[shared.row[nested]], shared.col[nested]
    swapped = (mine < theirs)[nested]
    larger, smaller = np.where(swapped, second, first), np.where(swapped, first, second)
    found = patterns[larger] - patterns[smaller]
    found.eliminate_zeros()
    found.sort_indices()
    return [found]


def _stretches(rows: sparse.csr_matrix) -> list[tuple[int, int]]:
    return list(zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True))


def too_complex() -> StatementTooComplex:
    return StatementTooComplex(
        "there is too much to look at to see what this would tell, as the table's inference"
        " control asks for",
        hint="Ask for fewer groups at once, or SET dp.source = history.",
    )
