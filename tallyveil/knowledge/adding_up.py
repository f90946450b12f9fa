"""What is reported of rows that are known: values that add up, and to what is exact."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import numpy as np
from scipy import sparse

from tallyveil.inference.noise import FloatArray
from tallyveil.knowledge.exact_sums import Rows, Sums, exact_sums
from tallyveil.knowledge.found import Outlook
from tallyveil.knowledge.known import Known
from tallyveil.knowledge.rounding import jointly_rounded
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column, IntArray

__all__ = ["add_up"]


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
        return outlook.outside
    every = [answer for n in outlook.columns for answer in rows[n]]
    # What is exact is zero, or follows from the exact rows, which take part anyway.
    known = [
        (number, answer)
        for number, answer in enumerate(every)
        if answer is not None and answer.additive and not answer.exact
    ]
    if not known:
        return True
    answers = [answer for _, answer in known]
    numbers = [number for number, _ in known]
    matrix = system.question if len(known) == len(every) else system.question[numbers]
    of = np.repeat(outlook.columns, [len(rows[n]) for n in outlook.columns])
    exact = _exact_sums(state, system, of, every, numbers)
    values = np.array([answer.value for answer in answers], dtype=np.float64)
    counts = None
    if nonnegative:
        counting = [columns[n].counts_up for n in outlook.columns for _ in rows[n]]
        counts = np.array([*(counting[n] for n in numbers), *(False for _ in exact.values)])
    told = jointly_rounded(
        sparse.vstack([matrix, exact.matrix], format="csr"),
        np.concatenate([values, exact.values]),
        np.concatenate([_variances(answers), np.zeros(len(exact.values))]),
        counts,
    )
    if told is None:
        return exact.whole
    for number, value in zip(numbers, told.values, strict=False):
        answer = every[number]
        every[number] = answer and answer.reporting(value)
    reported = iter(every)
    for n in outlook.columns:
        rows[n] = list(itertools.islice(reported, len(rows[n])))
    return told.agree and exact.whole


def _exact_sums(
    state: State,
    system: System,
    columns: IntArray,
    every: Sequence[Known | None],
    known: Sequence[int],
) -> Sums:
    """Of the rows with the numbers ``known``."""
    rows = np.flatnonzero(system.numbers < 0)
    if not len(rows):
        return Sums(system.history[rows], system.values[rows])
    values = np.array([answer.value if answer and answer.exact else np.inf for answer in every])
    values[known] = np.nan
    declared = state.exact_columns(system.numbers[rows])
    return exact_sums(
        Rows(system.question, columns, values),
        Rows(system.history[rows], declared, system.values[rows]),
    )


def _variances(answers: Sequence[Known]) -> FloatArray:
    """Worked out once for each law."""
    found: dict[Hashable, float] = {}
    laws = [answer.law for answer in answers]
    for law, answer in zip(laws, answers, strict=True):
        if law not in found:
            found[law] = answer.variance
    return np.array([found[law] for law in laws])
