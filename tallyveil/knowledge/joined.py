"""Add bought answers to an outlook, reusing what its first solution found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tallyveil.accountant import Basis
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import Noises
from tallyveil.knowledge.answers.answer import Estimated
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.found import Outlook
from tallyveil.knowledge.recorded.outside import separate
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column

__all__ = ["Answers", "Joint", "all_apart", "joined"]


@dataclass(frozen=True, eq=False)
class Joint:
    """The system of an ``outlook``, with answers to its rows ``answered``."""

    outlook: Outlook
    system: System
    answered: IntArray

    @classmethod
    def of(
        cls,
        state: State,
        outlook: Outlook,
        asked: Sequence[Column],
        sums: Sequence[Column],
        answers: Answers,
        mine: Sequence[int],
        rows: Sequence[IntArray],
        work: int,
    ) -> Joint | None:
        """As `joined`, unsolved."""
        system = outlook.system
        if system is None and outlook.outside:
            height = sum(column.height for column in sums)
            system = System.of(state, [*asked, *sums], (), work, sums=height)
        if system is None:
            return None
        known = outlook.determined
        if known is not None and not known.weights.shape[1]:
            system = system.without_history
        starts = np.cumsum([0, *(column.height for column in asked)])
        answered = np.concatenate([starts[of] + own for of, own in zip(mine, rows, strict=True)])
        used, values, noises, numbers = answers
        return cls(outlook, system.joined(used, answered, values, noises, numbers), answered)

    def with_noises(self, noises: Noises) -> Joint:
        """The same with other noises of the last answers."""
        others = len(self.system.noises) - len(noises)
        every = Noises.concatenated([self.system.noises.take(np.arange(others)), noises])
        return replace(self, system=replace(self.system, noises=every))

    def solved(self) -> Outlook:
        """The outlook with the answers."""
        known, height = self.outlook.determined, self.system.question.shape[0]
        noises = self.system.noises
        combined = None if known is None else known.combined(noises, self.answered, height)
        return self.outlook.estimated(self.system, combined)


class Answers(NamedTuple):
    """Answers to rows, and the recorded columns ``used`` that they are from."""

    used: Sequence[int]
    values: FloatArray
    noises: Noises
    numbers: IntArray


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
    if outlook.system is None and outlook.outside and all_apart(asked, rows):
        return _own_answers(state, outlook, used[0])
    numbers = np.concatenate([state.noise_numbers(number) for number in used])
    answers = Answers(used, state.values(used), state.all_noises(used), numbers)
    joint = Joint.of(state, outlook, asked, sums, answers, mine, rows, work)
    return None if joint is None else joint.solved()


def all_apart(asked: Sequence[Column], rows: Sequence[IntArray]) -> bool:
    """Whether all rows of one column are answered, none of which helps to estimate others."""
    return len(asked) == 1 and separate(asked[0]) and len(rows[0]) == asked[0].height


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
