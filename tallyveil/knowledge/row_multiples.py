"""What is known of a row, for all multiples of it that a statement asks.

A row has one answer in all its multiples: its narrowest interval, and values in proportion. A
mechanism with a public range answers plain counts only, whose multiples are the same row: all of
them have the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.inference.canonical import first_least
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.errors import EXACT, Error, EstimateError, NoiseSum
from tallyveil.knowledge.answers.estimate import NoiseWeights, surpasses
from tallyveil.knowledge.answers.known import Known
from tallyveil.knowledge.direct_answers import direct_answer
from tallyveil.knowledge.found import Bought
from tallyveil.knowledge.state import State
from tallyveil.workload.row_multiples import Multiples, Place
from tallyveil.workload.workload import Column

__all__ = ["in_proportion", "narrowed", "put_multiples", "same_in_range"]

_Rows: TypeAlias = list[Answers]


def _identical(found: Multiples, rows: _Rows) -> bool:
    """Whether rows of columns that ask the same rows have the same answers anyway."""
    return found.alike is not None and all(
        _same(rows[own[0]], rows[other]) for own in found.alike for other in own[1:]
    )


def _same(first: Answers, second: Answers) -> bool:
    if first is second:
        return True
    if first.reported or second.reported or not (first.of_one_noise and second.of_one_noise):
        return False
    laws = {error.key for error in (*first.used_errors, *second.used_errors) if not error.exact}
    return len(laws) == 1 and [*first.released] == [*second.released]


class _Changes:
    """Columns of rows that are changed; those of ``rows`` at the `end`."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._changed = dict[int, list[Known | None]]()

    def of(self, column: int) -> list[Known | None]:
        if column not in self._changed:
            self._changed[column] = list(self._rows[column])
        return self._changed[column]

    def end(self) -> None:
        for column, found in self._changed.items():
            self._rows[column] = Answers.listed(found)


def put_multiples(
    state: State,
    columns: Sequence[Column],
    aims: Sequence[Aim],
    bought: Bought,
    rows: _Rows,
) -> None:
    """Replace rows by what answers bought to multiples of them give, where that is better."""
    multiples = Multiples.of(columns)
    if not multiples.groups:
        return
    if bought.mechanism.needs_range:
        _put_same(multiples, bought, rows)
        return
    for alike in multiples.alike or ():
        leaders = [number for number in alike if number in bought.columns]
        if len(leaders) == 1 and rows[leaders[0]].of_one_noise:
            for number in alike:
                if all(error.exact for error in rows[number].used_errors):
                    rows[number] = rows[leaders[0]]
    if _identical(multiples, rows):
        return
    groups = multiples.groups
    answered = {
        (number, row): (state.of_charge(bought.charge_id, place), guess)
        for place, number in enumerate(bought.columns)
        for guess, row in enumerate(bought.rows[place].tolist())
    }
    put = _Changes(rows)
    shared = dict[tuple[int, Fraction], NoiseWeights]()
    for group in deadline.stoppable(groups):
        own = [answered.get((place.column, place.row)) for place in group]
        first = next((one for one in own if one is not None), None)
        if first is None:
            continue
        number, guess = first
        for place, one in zip(group, own, strict=True):
            if one is not None:
                continue
            key = columns[place.column].row_keys[place.row]
            answer = direct_answer(state, number, key, guess, place.content, shared)
            before = put.of(place.column)[place.row]
            if (
                before is None
                or not before.error.additive
                or surpasses(answer.error, before.error, aims[place.column].criterion)
            ):
                put.of(place.column)[place.row] = answer
    put.end()


def _put_same(multiples: Multiples, bought: Bought, rows: _Rows) -> None:
    """Give each row of which a multiple was bought the answer of that multiple."""
    put = _Changes(rows)
    answered = {
        (number, row)
        for number, own in zip(bought.columns, bought.rows, strict=True)
        for row in own.tolist()
    }
    for group in deadline.stoppable(multiples.groups):
        leader = next((one for one in group if (one.column, one.row) in answered), None)
        if leader is not None:
            answer = rows[leader.column][leader.row]
            for place in group:
                put.of(place.column)[place.row] = answer
    put.end()


def same_in_range(columns: Sequence[Column], aims: Sequence[Aim], rows: _Rows) -> None:
    """Give all multiples of a row one answer, if its mechanism has a public range: the one that
    meets the most demanding aim, or the first one if none meets its aim."""
    if not any(aim.in_range for aim in aims):
        return
    put = _Changes(rows)
    for group in deadline.stoppable(Multiples.of(columns).groups):
        best: Known | None = None
        least = math.inf
        for place in group:
            one, aim = rows[place.column][place.row], aims[place.column]
            if one is None or one is best:
                continue
            scale = aim.scale if one.error.suffices(aim) else math.inf
            if best is None or scale < least:
                best, least = one, scale
        for place in group:
            if rows[place.column][place.row] is not best:
                put.of(place.column)[place.row] = best
    put.end()


def narrowed(columns: Sequence[Column], aims: Sequence[Aim], rows: _Rows) -> None:
    """Give all multiples of a row the answer with its narrowest interval. Widths that differ by
    less than a step of a row's lattice are the same."""
    put, multiples = _Changes(rows), Multiples.of(columns)
    widths: dict[tuple[int, Hashable], float] = {}
    if _identical(multiples, rows):
        return
    for group in deadline.stoppable(multiples.groups):
        each = [rows[place.column][place.row] for place in group]
        if any(one is not None and (one.error.exact or not one.error.additive) for one in each):
            continue
        units = [
            math.inf if one is None else _width(one.error, place, aims, widths) / abs(place.content)
            for one, place in zip(each, group, strict=True)
        ]
        best = first_least(np.array(units))
        known, leader = each[best], group[best]
        if known is None:
            continue
        for place, own in zip(group, units, strict=True):
            if own <= units[best] + 1 / abs(place.content):
                continue
            one = _times(known, Fraction(place.content, leader.content))
            if one is not None:
                put.of(place.column)[place.row] = one
    put.end()


def _width(
    error: Error, place: Place, aims: Sequence[Aim], widths: dict[tuple[int, Hashable], float]
) -> float:
    key = place.column, error.key
    if key not in widths:
        widths[key] = error.half_width(aims[place.column].confidence)
    return widths[key]


def _times(known: Known, factor: Fraction) -> Known | None:
    """The answer times a factor; None for a released answer, which all multiples have anyway, and
    for the sum of an answer and an estimate."""
    error, estimate = known.error, known.estimate
    if estimate is not None:
        alone = isinstance(error, EstimateError) and error.beside == EXACT and not known.released
        return Known.estimated(estimate.times(float(factor))) if alone else None
    if isinstance(error, NoiseSum) and abs(factor) == 1:
        return Known(error, known.released * int(factor))
    return None


def in_proportion(
    columns: Sequence[Column], aims: Sequence[Aim], rows: _Rows, counts: Collection[int] = ()
) -> None:
    """Make all multiples of a row report values in proportion. Those of a row that is below 0 in a
    column of ``counts`` report 0."""
    put, multiples = _Changes(rows), Multiples.of(columns)
    if _identical(multiples, rows):
        return
    for group in deadline.stoppable(multiples.groups):
        each = [rows[place.column][place.row] for place in group]
        known = [one for one in each if one is not None and one.error.additive]
        if len(known) < len(each):
            continue
        first, content = known[0].rounded, group[0].content
        if all(
            one.rounded * content == first * place.content
            for one, place in zip(known, group, strict=True)
        ):
            continue
        unit = math.gcd(*(place.content for place in group))
        width = [
            one.error.half_width(aims[place.column].confidence) / abs(place.content)
            for one, place in zip(known, group, strict=True)
        ]
        best = first_least(np.array(width))
        steps = round(known[best].value / group[best].content * unit)
        if any(place.column in counts and steps * place.content < 0 for place in group):
            steps = 0
        for place, one in zip(group, known, strict=True):
            reported = one.reporting(steps * place.content // unit)
            put.of(place.column)[place.row] = reported
    put.end()
