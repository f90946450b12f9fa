"""Report values of known rows that add up, also to exact sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.knowledge.answers.answer import Known
from tallyveil.knowledge.answers.many import reporting, variances
from tallyveil.knowledge.found import Outlook
from tallyveil.knowledge.state import State
from tallyveil.knowledge.sums.exact_sums import SummedRows, Sums, exact_sums
from tallyveil.knowledge.sums.multiples import common_units
from tallyveil.knowledge.sums.rounding import ROWS, jointly_rounded
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column

__all__ = ["add_up"]

_SUMS: Final[WeakKeyDictionary[System, tuple[bytes, sparse.csr_matrix, Sums]]] = WeakKeyDictionary()


def add_up(
    state: State,
    outlook: Outlook,
    columns: Sequence[Column],
    rows: list[Sequence[Known | None]],
    nonnegative: bool,
) -> bool:
    """Make an outlook's rows report values that add up and agree with exact sums. Return whether
    they do."""
    system = outlook.system
    if system is None:
        # Rows with estimates but no system have their own answers, and no relations.
        return outlook.outside or any(map(any, outlook.rows))
    starts = np.cumsum([0, *(len(rows[n]) for n in outlook.columns)])
    of = np.repeat(outlook.columns, np.diff(starts))
    values, spread = np.concatenate([variances(rows[n]) for n in outlook.columns], axis=1)
    # Rows of variance 0 are zero, or follow from the exact rows, which take part anyway.
    known = np.flatnonzero(spread > 0)
    if not len(known):
        return True
    matrix, exact = _with_exact_sums(state, system, of, values, spread)
    counts = None
    if nonnegative:
        counting = np.array([columns[n].counts_up for n in outlook.columns])
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
    rounded = jointly_rounded(matrix, values, spread, counts, of)
    if rounded is None:
        return exact.whole
    for n, start, end in zip(outlook.columns, starts, starts[1:], strict=False):
        first, last = np.searchsorted(known, (start, end))
        reported = rounded.values[first:last]
        if reported:
            rows[n] = reporting(rows[n], (known[first:last] - start).tolist(), reported)
    return rounded.agree and exact.whole


def _with_exact_sums(
    state: State,
    system: System,
    columns: IntArray,
    values: FloatArray,
    spread: FloatArray,
) -> tuple[sparse.csr_matrix, Sums]:
    """The known rows, followed by their exact sums. Cached, because noisy values do not matter."""
    key = b"".join((columns.tobytes(), np.sign(spread).tobytes(), values[spread == 0].tobytes()))
    kept = _SUMS.get(system)
    if kept is None or kept[0] != key:
        exact = _exact_sums(state, system, columns, values, spread)
        known = np.flatnonzero(spread > 0)
        matrix = system.question if len(known) == len(spread) else system.question[known]
        if len(exact.values):
            matrix = sparse.vstack([matrix, exact.matrix], format="csr")
        kept = _SUMS[system] = key, matrix, exact
    return kept[1:]


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
