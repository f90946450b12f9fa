"""Choose the better of two answers to a row, by the laws of their errors alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tallyveil import deadline
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.errors import Error, EstimateError
from tallyveil.knowledge.answers.estimate import (
    improves,
    reported_width,
    surpasses,
)
from tallyveil.knowledge.direct_answers import direct_answers
from tallyveil.knowledge.found import Bought
from tallyveil.knowledge.reported import Reported
from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column

__all__ = ["as_reported", "better", "improved", "narrower_direct", "no_wider", "put_bought"]


def put_bought(state: State, aims: Sequence[Aim], found: Bought, rows: list[Answers]) -> None:
    """Replace rows by the bought answers where these are better."""
    for place, number in enumerate(found.columns):
        deadline.check()
        drawn = state.drawn_rows(state.of_charge(found.charge_id, place))
        fresh = (
            Answers.released_by(found.mechanism, found.scales[place], found.values[place])
            if drawn is None
            else drawn.known
        )
        before, aim = rows[number], aims[number]
        bought = fresh.among(len(before), found.rows[place])

        def better(old: Error | None, new: Error | None, aim: Aim = aim) -> bool:
            if old is None or new is None:
                return new is not None
            if old.additive and new.additive:
                return surpasses(new, old, aim.criterion)
            return not old.suffices(aim)

        rows[number] = before.where(before.preferred(bought, better), bought)


def improved(own: Answers, others: Answers, aim: Aim) -> Answers:
    """Return the rows, replaced by other estimates where these are better, or agree with exact rows
    and are as good. What is replaced may have been reported."""
    if not others.used_errors:
        return own

    def better(reported: Error | None, other: Error | None) -> bool:
        if reported is None or not isinstance(other, EstimateError):
            return other is not None
        return reported.additive and improves(other, reported, aim.criterion, aim.confidence)

    def as_good(reported: Error | None, other: Error | None) -> bool:
        if reported is None or not (reported.additive and isinstance(other, EstimateError)):
            return False
        if better(reported, other):
            return False
        return bool((other.weights.noises.scales == 0).any()) and _as_good(other, reported, aim)

    put = own.preferred(others, better)
    for row in np.flatnonzero(own.preferred(others, as_good) & ~put).tolist():
        one = others.estimates[row]
        put[row] = one is not None and int(one.numbers.min()) < 0
    return own.where(put, others)


def better(estimates: Answers, others: Answers, aim: Aim) -> Answers:
    """Return the estimates, replaced by the others where these are better."""

    def surpassing(old: Error | None, new: Error | None) -> bool:
        return new is not None and (old is None or surpasses(new, old, aim.criterion))

    return estimates.where(estimates.preferred(others, surpassing), others)


def as_reported(
    known: Answers,
    others: Answers,
    reported: Reported,
    column: Column,
    aim: Aim,
) -> Answers:
    """Replace known answers by the other estimates that were reported at the aim's confidence with
    narrower intervals."""
    if aim.criterion is not None or not others.used_errors:
        return known
    narrowest = reported.narrowest(column, others, aim.confidence)
    if not narrowest.any():
        return known
    narrower = known.preferred(others, lambda one, other: _is_narrower(other, one, aim))
    return known.where(narrowest & narrower, others)


def no_wider(now: Answers, before: Answers, aim: Aim) -> Answers:
    """What is known now, or what was known before where that has the narrower interval."""
    if aim.criterion is not None or now is before or not before.used_errors:
        return now
    wider = now.preferred(before, lambda new, old: _is_narrower(old, new, aim))
    return now.where(wider, before)


def narrower_direct(state: State, column: Column, known: Answers, aim: Aim, seen: int) -> Answers:
    """What is known of a column's rows, or a row's own answer with noise of another law in the
    first ``seen`` recorded columns where its interval at the aim's confidence is narrower, though
    its variance may be greater."""
    held = None if aim.in_range or aim.criterion is not None else state.held(column, seen)
    if held is None:
        return known
    every = map(state.answer, frozenset(itertools.chain.from_iterable(deadline.distinct(held))))
    laws = {type(answer.law) for answer in every if answer.law is not None}
    for law in sorted(laws, key=lambda law: law.__name__) if len(laws) > 1 else ():
        known = no_wider(known, direct_answers(state, column, seen, law), aim)
    return known


def _is_narrower(one: Error | None, other: Error | None, aim: Aim) -> bool:
    """Whether the first of two additive answers has the narrower interval."""
    if one is None or other is None or not (one.additive and other.additive):
        return False
    at = aim.confidence
    return one.key != other.key and one.half_width(at) < other.half_width(at)


def _as_good(other: EstimateError, reported: Error, aim: Aim) -> bool:
    """Whether it has no greater variance, meets the aim, and is reported with no wider an
    interval."""
    if other.variance > reported.variance:
        return False
    if aim.half_width is not None and not aim.met_by(other):
        return False
    new, old = (reported_width(one.half_width(aim.confidence)) for one in (other, reported))
    return new <= old
