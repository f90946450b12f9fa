"""Report values of known rows that add up, also to exact sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import Recent
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.estimates import Estimates
from tallyveil.knowledge.state import State
from tallyveil.knowledge.sums.common_units import common_units
from tallyveil.knowledge.sums.exact_sums import SummedRows, Sums, exact_sums
from tallyveil.knowledge.sums.independence import independent
from tallyveil.knowledge.sums.relations import OTHERS, PUBLIC, Relations, relations
from tallyveil.knowledge.sums.rounded_parts import nest
from tallyveil.knowledge.sums.rounding import ROWS, jointly_rounded
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column

__all__ = ["NOTHING", "add_up", "find_sums"]

NOTHING: Final = frozenset[str]()
EVERYTHING: Final = frozenset((OTHERS, PUBLIC))

_Exact: TypeAlias = tuple[sparse.csr_matrix, Sums, Relations | None]
_SUMS: Final[Recent[System, _Exact]] = Recent(4)


def add_up(
    state: State,
    joint: Estimates,
    columns: Sequence[Column],
    rows: list[Answers],
    nonnegative: bool,
) -> frozenset[str]:
    """Make the rows of joint estimates report values that add up, also to exact rows. Return to
    what they need not."""
    system = joint.system
    if system is None:
        apart = state.exact or not independent([columns[n] for n in joint.columns])
        return EVERYTHING if apart else NOTHING
    starts, of, values, spread = _known(joint, rows)
    # Rows of variance 0 are zero, or follow from the exact rows, which take part anyway.
    known = np.flatnonzero(spread > 0)
    if not len(known):
        return NOTHING
    matrix, exact, related = _with_exact_sums(state, system, of, values, spread)
    counts = None
    if nonnegative:
        counting = np.array([columns[n].counts_up for n in joint.columns])
        own = np.repeat(counting, np.diff(starts))[known]
        counts = np.append(own, np.zeros(len(exact.values), bool))
    values = np.concatenate([values[known], exact.values])
    spread = np.concatenate([spread[known], np.zeros(len(exact.values))])
    of = np.append(of[known], np.full(len(exact.values), -1))
    units, members, contents = common_units(matrix, len(known))
    if 0 < len(members) <= ROWS - matrix.shape[0]:
        matrix = sparse.vstack([matrix, units], format="csr")
        values = np.append(values, values[members] / contents)
        spread = np.append(spread, spread[members] / contents**2)
        of = np.append(of, np.full(len(members), -1))
        counts = None if counts is None else np.append(counts, np.zeros(len(members), bool))
    rounded = jointly_rounded(matrix, values, spread, counts, of, related)
    held = np.count_nonzero(system.numbers < 0) == sum(one.column.height for one in state.exact)
    sure = held and (related is not None or exact.whole)
    skipped = NOTHING if sure else frozenset((PUBLIC,))
    if rounded is None:
        return skipped
    for n, start, end in zip(joint.columns, starts, starts[1:], strict=False):
        first, last = np.searchsorted(known, (start, end))
        reported = rounded.values[first:last]
        if reported:
            rows[n] = rows[n].reporting((known[first:last] - start).tolist(), reported)
    return rounded.apart | skipped


def find_sums(state: State, joint: Estimates, rows: Sequence[Answers]) -> None:
    """Find to what the rows of joint estimates add up once those that are not known are bought.
    `add_up` finds it cached."""
    if joint.system is not None:
        _, of, values, spread = _known(joint, rows)
        _with_exact_sums(state, joint.system, of, values, np.where(np.isnan(spread), 1, spread))


def _known(
    joint: Estimates, rows: Sequence[Answers]
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Where each column's rows start, and the column, the value and the variance of each row."""
    starts = np.cumsum([0, *(len(rows[n]) for n in joint.columns)])
    of = np.repeat(joint.columns, np.diff(starts))
    values, spread = np.concatenate([rows[n].variances for n in joint.columns], axis=1)
    return starts, of, values, spread


def _with_exact_sums(
    state: State,
    system: System,
    columns: IntArray,
    values: FloatArray,
    spread: FloatArray,
) -> _Exact:
    """The known rows, followed by their exact sums, and all relations between them. Cached, because
    noisy values do not matter."""
    key = b"".join((columns.tobytes(), np.sign(spread).tobytes(), values[spread == 0].tobytes()))

    def made() -> _Exact:
        known = np.flatnonzero(spread > 0)
        asked = system.question if len(known) == len(spread) else system.question[known]
        rows = np.flatnonzero(system.numbers < 0)
        declared = system.history[rows]
        # Their sums are found faster alone (`_exact_sums`), and there are no other relations.
        nested = len(rows) > 0 and nest(asked, declared)
        related = None if nested else relations(asked, declared, system.values[rows])
        exact = _exact_sums(state, system, columns, values, spread)
        if not len(exact.values):
            return asked, exact, related
        return sparse.vstack([asked, exact.matrix], format="csr"), exact, related

    return _SUMS.get(system, key, made)


def _exact_sums(
    state: State,
    system: System,
    columns: IntArray,
    values: FloatArray,
    spread: FloatArray,
) -> Sums:
    """The exact sums of rows with these values and variances."""
    rows = np.flatnonzero(system.numbers < 0)
    if not len(rows):
        return Sums(system.question[:0], system.values[:0])
    values = np.where(spread > 0, np.nan, np.where(spread == 0, values, np.inf))
    declared = state.exact_columns(system.numbers[rows])
    return exact_sums(
        SummedRows(system.question, columns, values),
        SummedRows(system.history[rows], declared, system.values[rows]),
    )
