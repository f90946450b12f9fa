"""Choose the better of two answers to a row, by the laws of their errors alone."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from tallyveil import deadline
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Estimated, Known
from tallyveil.knowledge.answers.estimate import (
    Estimate,
    improves,
    reported_width,
    surpasses,
)
from tallyveil.knowledge.answers.many import Alike, answers_of, unknown
from tallyveil.knowledge.answers.released_answer import Released
from tallyveil.knowledge.found import Bought
from tallyveil.knowledge.own import own_answers
from tallyveil.knowledge.reported import TOGETHER, Reported
from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column

__all__ = ["all_improved", "as_reported", "narrower_own", "no_wider", "put_bought"]


def put_bought(
    state: State, aims: Sequence[Aim], found: Bought, rows: list[Sequence[Known | None]]
) -> None:
    """Replace rows by the bought answers where these are better."""
    for place, number in enumerate(found.columns):
        own, by = found.rows[place].tolist(), aims[number].criterion
        drawn = state.drawn_rows(state.of_charge(found.charge_id, place))
        fresh: Sequence[Known] = () if drawn is None else drawn.known
        if drawn is None:
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
            if before is None:
                answers[row] = answer
            elif before.additive and answer.additive:
                answers[row] = answer if surpasses(answer, before, by) else before
            elif not before.suffices(aims[number]):
                answers[row] = answer
        rows[number] = answers


def all_improved(
    own: Sequence[Known | None], others: Sequence[Estimate | None], aim: Aim
) -> Sequence[Known | None]:
    """Apply `_improved` to each row."""
    if not any(others):
        return own
    return [_improved(a, b, aim) for a, b in zip(own, others, strict=True)]


def as_reported(
    known: Sequence[Known | None],
    others: Sequence[Estimate | None],
    reported: Reported,
    column: Column,
    aim: Aim,
) -> Sequence[Known | None]:
    """Replace known answers by the other estimates that were reported at the aim's confidence with
    narrower intervals."""
    if aim.criterion is not None or isinstance(known, Alike) or not any(others):
        return known
    found = list(known)
    for row, (one, other) in enumerate(zip(known, others, strict=True)):
        if one is None or other is None or not one.additive or one.exact:
            continue
        if isinstance(one, Estimated) and one.estimate is other:
            continue
        if reported.narrowest(column.row_keys[row], other, aim.confidence):
            found[row] = _narrower(one, Estimated(other), aim)
    return found


def no_wider(
    now: Sequence[Known | None], before: Sequence[Known | None], aim: Aim
) -> Sequence[Known | None]:
    """What is known now, or what was known before where that has the narrower interval."""
    if aim.criterion is not None or now is before or unknown(before) == len(before):
        return now
    if isinstance(now, Alike) and isinstance(before, Alike) and not (now.exact or before.exact):
        fresh, former = (Released.of(0, one.law) for one in (now, before))
        return now if _narrower(fresh, former, aim) is fresh else before
    kept: dict[tuple[Hashable, Hashable], bool] = {}
    found = list[Known | None]()
    for number, (new, old) in enumerate(zip(now, before, strict=True)):
        if not number % TOGETHER:
            deadline.check()
        if new is None or old is None or new is old or not (new.additive and old.additive):
            found.append(new)
            continue
        key = new.law, old.law
        if key not in kept:
            kept[key] = _narrower(new, old, aim) is new
        found.append(new if kept[key] else old)
    return now if all(kept.values()) else found


def narrower_own(
    state: State, column: Column, known: Sequence[Known | None], aim: Aim, seen: int
) -> Sequence[Known | None]:
    """What is known of a column's rows, or a row's own answer with noise of another law in the
    first ``seen`` recorded columns where its interval at the aim's confidence is narrower, though
    its variance may be greater."""
    held = None if aim.in_range or aim.criterion is not None else state.held(column, seen)
    if held is None:
        return known
    every = map(state.answer, frozenset(itertools.chain.from_iterable(deadline.distinct(held))))
    laws = {type(answer.law) for answer in every if answer.law is not None}
    for law in sorted(laws, key=lambda law: law.__name__) if len(laws) > 1 else ():
        known = no_wider(known, own_answers(state, column, seen, law), aim)
    return known


def _narrower(first: Known, second: Known, aim: Aim) -> Known:
    """The answer with the narrower interval, the first if they are equal."""
    at = aim.confidence
    return second if second.half_width(at) < first.half_width(at) else first


def _improved(reported: Known | None, other: Estimate | None, aim: Aim) -> Known | None:
    """The other answer if it is better, else ``reported``, which may have been reported."""
    if other is None or (reported is not None and not reported.additive):
        return reported
    if reported is None or improves(other, reported, aim.criterion, aim.confidence):
        return Estimated(other)
    return Estimated(other) if _preferred_as_consistent(other, reported, aim) else reported


def _preferred_as_consistent(other: Estimate, reported: Known, aim: Aim) -> bool:
    """Whether it agrees with exact rows, has no greater variance, meets the aim, and is reported
    with no wider an interval."""
    exact = bool(len(other.numbers)) and int(other.numbers.min()) < 0
    if not exact or other.variance > reported.variance:
        return False
    if aim.half_width is not None and not aim.met_by(other):
        return False
    new, old = (reported_width(one.half_width(aim.confidence)) for one in (other, reported))
    return new <= old
