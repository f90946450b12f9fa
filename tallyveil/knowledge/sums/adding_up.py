"""What is reported of rows that are known: values that add up, and to what is exact."""

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
from tallyveil.knowledge.sums.rounding import jointly_rounded
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
    """Report values that add up, of rows that are estimated together, and to exact ones; whether
    they do."""
    system = outlook.system
    if system is None:
        # Of rows that are estimated all the same, each has its own answer: nothing ties them.
        return outlook.outside or any(map(any, outlook.rows))
    starts = np.cumsum([0, *(len(rows[n]) for n in outlook.columns)])
    of = np.repeat(outlook.columns, np.diff(starts))
    values, spread = np.concatenate([variances(rows[n]) for n in outlook.columns], axis=1)
    # What is exact is zero, or follows from the exact rows, which take part anyway.
    known = np.flatnonzero(spread > 0)
    if not len(known):
        return True
    matrix, exact = _with_exact_sums(state, system, of, values, spread)
    counts = None
    if nonnegative:
        counting = np.array([columns[n].counts_up for n in outlook.columns])
        own = np.repeat(counting, np.diff(starts))[known]
        counts = np.append(own, np.zeros(len(exact.values), bool))
    told = jointly_rounded(
        matrix,
        np.concatenate([values[known], exact.values]),
        np.concatenate([spread[known], np.zeros(len(exact.values))]),
        counts,
        np.append(of[known], np.full(len(exact.values), -1)),
    )
    if told is None:
        return exact.whole
    for n, start, end in zip(outlook.columns, starts, starts[1:], strict=False):
        first, last = np.searchsorted(known, (start, end))
        some = told.values[first:last]
        if some:
            rows[n] = reporting(rows[n], (known[first:last] - start).tolist(), some)
    return told.agree and exact.whole


def _with_exact_sums(
    state: State,
    system: System,
    columns: IntArray,
    values: FloatArray,
    spread: FloatArray,
) -> tuple[sparse.csr_matrix, Sums]:
    """The rows that are known, followed by their exact sums: the same for all noisy answers."""
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
    """Of rows of these values and variances."""
    rows = np.flatnonzero(system.numbers < 0)
    if not len(rows):
        return Sums(system.question[:0], system.values[:0])
    values = np.where(spread > 0, np.nan, np.where(spread == 0, values, np.inf))
    declared = state.exact_columns(system.numbers[rows])
    return exact_sums(
        SummedRows(system.question, columns, values),
        SummedRows(system.history[rows], declared, system.values[rows]),
    )
