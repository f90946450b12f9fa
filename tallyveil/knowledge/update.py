"""Add bought answers to joint estimates, reusing what their first solution found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tallyveil.accountant import Basis
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import Noises
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.estimates import Estimates
from tallyveil.knowledge.recorded.undetermined_proof import separate
from tallyveil.knowledge.state import State
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column

__all__ = ["NewAnswers", "Update", "all_apart", "updated"]


@dataclass(frozen=True, eq=False)
class Update:
    """The system of ``joint`` estimates, with answers to its rows ``answered``."""

    joint: Estimates
    system: System
    answered: IntArray

    @classmethod
    def of(
        cls,
        state: State,
        joint: Estimates,
        asked: Sequence[Column],
        sums: Sequence[Column],
        answers: NewAnswers,
        mine: Sequence[int],
        rows: Sequence[IntArray],
        work: int,
    ) -> Update | None:
        """As `updated`, unsolved."""
        system = joint.system
        if system is None and joint.undetermined:
            height = sum(column.height for column in sums)
            system = System.of(state, [*asked, *sums], (), work, sums=height)
        if system is None:
            return None
        known = joint.determined
        if known is not None and not known.weights.shape[1]:
            system = system.without_history
        starts = np.cumsum([0, *(column.height for column in asked)])
        answered = np.concatenate([starts[of] + own for of, own in zip(mine, rows, strict=True)])
        used, values, noises, numbers = answers
        return cls(joint, system.with_answers(used, answered, values, noises, numbers), answered)

    def with_noises(self, noises: Noises) -> Update:
        """The same with other noises of the last answers."""
        others = len(self.system.noises) - len(noises)
        every = Noises.concatenated([self.system.noises.take(np.arange(others)), noises])
        return replace(self, system=replace(self.system, noises=every))

    def solved(self) -> Estimates:
        """The joint estimates, with the answers."""
        known, height = self.joint.determined, self.system.question.shape[0]
        noises = self.system.noises
        combined = None if known is None else known.combined(noises, self.answered, height)
        return self.joint.estimated(self.system, combined)


class NewAnswers(NamedTuple):
    """Answers to rows, and the recorded columns ``used`` that they are from."""

    used: Sequence[int]
    values: FloatArray
    noises: Noises
    numbers: IntArray


def updated(
    state: State,
    joint: Estimates,
    asked: Sequence[Column],
    sums: Sequence[Column],
    used: Sequence[int],
    mine: Sequence[int],
    rows: Sequence[IntArray],
    work: int,
) -> Estimates | None:
    """Return the estimates with answers bought to ``rows`` of their columns ``mine``, recorded as
    the columns ``used``; None without a system. Their columns are those ``asked`` and ``sums`` of
    these. ``work`` bounds a system made here."""
    if joint.system is None and joint.undetermined and all_apart(asked, rows):
        return _direct_answers(state, joint, used[0])
    numbers = np.concatenate([state.noise_numbers(number) for number in used])
    answers = NewAnswers(used, state.values(used), state.all_noises(used), numbers)
    update = Update.of(state, joint, asked, sums, answers, mine, rows, work)
    return None if update is None else update.solved()


def all_apart(asked: Sequence[Column], rows: Sequence[IntArray]) -> bool:
    """Whether all rows of one column are answered, none of which helps to estimate others."""
    return len(asked) == 1 and separate(asked[0]) and len(rows[0]) == asked[0].height


def _direct_answers(state: State, joint: Estimates, number: int) -> Estimates:
    """The estimates of one column whose rows all have their own answer in the recorded column
    ``number``. The sums of its rows keep their estimates."""
    drawn, sums = state.drawn_rows(number), joint.rows[1:]
    if drawn is not None:
        return Estimates(joint.columns, joint.seen, (drawn.known, *sums))
    noises = state.noises(number)
    own = NoiseWeights(np.ones(1), Noises.concatenated([] if noises is None else [noises]))
    basis = Basis(own=(number,))
    rows = [
        Estimate(value, noise, own, basis)
        for value, noise in zip(
            state.answer(number).values, state.noise_numbers(number)[:, None], strict=True
        )
    ]
    return Estimates(joint.columns, joint.seen, (Answers.estimated(rows), *sums))
