"""Which of two answers to a row is what is known of it: by the laws of their errors alone."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil import deadline
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Estimated, Known
from tallyveil.knowledge.answers.estimate import Estimate, improves, surpasses
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.many import bought as answers_of
from tallyveil.knowledge.found import Bought
from tallyveil.knowledge.reported import TOGETHER
from tallyveil.knowledge.state import State

__all__ = ["all_improved", "in_range", "put_bought"]


def put_bought(
    state: State, aims: Sequence[Aim], found: Bought, rows: list[Sequence[Known | None]]
) -> None:
    """The answers that were bought, where they are better than what was known."""
    for place, number in enumerate(found.columns):
        own, by = found.rows[place].tolist(), aims[number].criterion
        fresh = state.known(state.of_charge(found.charge_id, place))
        if fresh is None:
            fresh = answers_of(found.mechanism, found.scales[place], found.values[place])
        left = {n: row for n, row in enumerate(rows[number]) if row is not None}
        if len(own) + len(left) == len(rows[number]):
            if not left:
                rows[number] = fresh
                continue
            if isinstance(fresh, Alike) and all(row.exact for row in left.values()):
                rows[number] = fresh.among(own, {n: row.rounded for n, row in left.items()})
                continue
        answers = list(rows[number])
        for n, (row, answer) in enumerate(zip(own, fresh, strict=True)):
            if not n % TOGETHER:
                deadline.check()
            before = answers[row]
            comparable = before is not None and before.additive and answer.additive
            if before is None or not comparable or surpasses(answer, before, by):
                answers[row] = answer
        rows[number] = answers


def all_improved(
    reported: Sequence[Known | None], others: Sequence[Estimate | None], aim: Aim
) -> Sequence[Known | None]:
    """As `_improved`, of each row."""
    if not any(others):
        return reported
    return [_improved(a, b, aim) for a, b in zip(reported, others, strict=True)]


def _improved(reported: Known | None, other: Estimate | None, aim: Aim) -> Known | None:
    """The other answer, if it improves on one that may have been reported."""
    if other is None or (reported is not None and not reported.additive):
        return reported
    if reported is None or improves(other, reported, aim.criterion, aim.confidence):
        return Estimated(other)
    return Estimated(other) if _agrees_better(other, reported, aim) else reported


def _agrees_better(other: Estimate, reported: Known, aim: Aim) -> bool:
    """Whether it agrees with exact rows, is no less precise, and serves as well."""
    exact = bool(len(other.numbers)) and int(other.numbers.min()) < 0
    if not exact or other.variance > reported.variance:
        return False
    return aim.half_width is None or aim.met_by(other)


def in_range(own: Known | None, unbiased: Known | None, aim: Aim) -> Known | None:
    """A recorded answer of the mechanism itself, or an unbiased one that serves better."""
    if own is None or unbiased is None:
        return own or unbiased
    return own if own.suffices(aim) or not unbiased.suffices(aim) else unbiased
