"""Add bought answers to an outlook, reusing what its first solution found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil.accountant import Basis
from tallyveil.arrays import IntArray
from tallyveil.inference import Noises
from tallyveil.knowledge.answers.answer import Estimated
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.found import Outlook
from tallyveil.knowledge.recorded.outside import separate
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column

__all__ = ["joined"]


def joined(
    state: State,
    outlook: Outlook,
    asked: Sequence[Column],
    sums: Sequence[Column],
    used: Sequence[int],
    mine: Sequence[int],
    rows: Sequence[IntArray],
    work: int,
) -> Outlook | None:
    """Return the outlook with answers bought to ``rows`` of its columns ``mine``, recorded as the
    columns ``used``; None without a system. Its columns are those ``asked`` and ``sums`` of these.
    ``work`` bounds a system made here."""
    system = outlook.system
    if system is None and outlook.outside:
        if len(asked) == 1 and separate(asked[0]) and len(rows[0]) == asked[0].height:
            return _own_answers(state, outlook, used[0])
        height = sum(column.height for column in sums)
        system = System.of(state, [*asked, *sums], (), work, sums=height)
    if system is None:
        return None
    known = outlook.determined
    if known is not None and not known.weights.shape[1]:
        system = system.without_history
    starts = np.cumsum([0, *(column.height for column in asked)])
    answered = np.concatenate([starts[of] + own for of, own in zip(mine, rows, strict=True)])
    whole = system.joined(
        used,
        answered,
        state.values(used),
        state.all_noises(used),
        np.concatenate([state.noise_numbers(number) for number in used]),
    )
    height = system.question.shape[0]
    combined = None if known is None else known.combined(whole.noises, answered, height)
    return outlook.estimated(whole, combined)


def _own_answers(state: State, outlook: Outlook, number: int) -> Outlook:
    """The outlook of one column whose rows all have their own answer in the recorded column
    ``number``. Its sums keep their estimates."""
    drawn, sums = state.drawn_rows(number), outlook.rows[1:]
    if drawn is not None:
        estimates = tuple(one.estimate for one in drawn.known if isinstance(one, Estimated))
        return Outlook(outlook.columns, outlook.seen, (estimates, *sums))
    noises = state.noises(number)
    own = NoiseWeights(np.ones(1), Noises.concatenated([] if noises is None else [noises]))
    basis = Basis(own=(number,))
    rows = tuple(
        Estimate(value, noise, own, basis)
        for value, noise in zip(
            state.answer(number).values, state.noise_numbers(number)[:, None], strict=True
        )
    )
    return Outlook(outlook.columns, outlook.seen, (rows, *sums))
