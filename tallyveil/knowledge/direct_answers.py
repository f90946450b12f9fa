"""A row's own answers: those released for the row itself or a multiple of it.

All multiples of a row have one key (`workload.row_keys`). So an answer to sum(x) where x is 3 also
answers the count of these records, in other units; divided by its content c, its variance is
divided by c².
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Basis
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge.all_looks import Look
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights, Shared
from tallyveil.knowledge.answers.known import Known
from tallyveil.knowledge.answers.recorded_answer import (
    answer_at,
    content_at,
    place_of,
    places_of,
    spread_of,
)
from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column

__all__ = ["direct_answer", "direct_answers", "looks", "released", "with_direct_answer"]

_Only: TypeAlias = str | type[NoiseLaw] | None
_Shared: TypeAlias = dict[tuple[int, Fraction], NoiseWeights]
"""By the identity of a noise's law, and the factor of the noise."""


def direct_answers(state: State, column: Column, seen: int, only: _Only = None) -> Answers:
    """The best own answer of each row in the first ``seen`` recorded columns, the first among
    equals: an answer with additive noise, of the law ``only`` if one is given, or an answer of the
    mechanism ``only`` with a public range."""
    held = state.held(column, seen)
    if held is None:
        return Answers.unknown(column.height)
    deadline.check()
    several = deadline.distinct(held)
    if _of_multiples(state, column, several):
        return _best_multiples(state, column, held, only)
    best = {numbers: _best(state, numbers, only) for numbers in several}
    rows: dict[int, list[int]] = {}
    for row, numbers in enumerate(held):
        number = best[numbers]
        if number is not None:
            rows.setdefault(number, []).append(row)
    parts = []
    for number, own in rows.items():
        deadline.check()
        places = places_of(state.answer(number).column, column, own)
        parts.append((np.array(own, dtype=np.int64), _recorded(state, number, places)))
    if len(parts) == 1:
        return parts[0][1].among(column.height, parts[0][0])
    return Answers.assembled(column.height, parts)


def _recorded(state: State, number: int, places: Sequence[int] | None) -> Answers:
    """The answers of a recorded column's rows at these places; None for all of them."""
    drawn, answer = state.drawn_rows(number), state.answer(number)
    if drawn is not None:
        return drawn.known if places is None else drawn.known.take(places)
    values = answer.values if places is None else [answer.values[place] for place in places]
    if answer.law is None:
        return Answers.listed(
            Known.in_range(answer.mechanism, answer.scale, int(value)) for value in values
        )
    return Answers.with_noise([*map(int, values)], answer.law)


def _best(state: State, numbers: Sequence[int], only: _Only) -> int | None:
    """The column of the least spread, the first among equals."""
    own = [number for number in numbers if _is_by(state, number, only)]
    return min(own, key=lambda number: spread_of(state.answer(number)), default=None)


def _is_by(state: State, number: int, only: _Only) -> bool:
    answer = state.answer(number)
    if isinstance(only, type):
        return type(answer.law) is only
    return only == (answer.mechanism if answer.law is None else None)


def _of_multiples(state: State, column: Column, held: Iterable[tuple[int, ...]]) -> bool:
    """Whether the columns ``held`` may have other multiples of the column's rows."""
    numbers = frozenset(itertools.chain.from_iterable(held))
    if column.row_contents is None and not state.has_multiples(numbers):
        return False
    names = column.row_names
    return column.repeats or any(state.answer(n).column.row_names != names for n in numbers)


def _best_multiples(
    state: State, column: Column, held: Sequence[tuple[int, ...]], only: _Only
) -> Answers:
    """As `direct_answers`, for multiples. An answer with a public range serves its own row only."""
    shared: _Shared = {}
    result: list[Known | None] = []
    every = zip(column.named_rows, held, strict=True)
    for guess, ((key, content), numbers) in enumerate(deadline.stoppable(every)):
        best, least = None, math.inf
        for number in numbers:
            if _is_by(state, number, only):
                answer = state.answer(number)
                own = content_at(answer.column, place_of(answer.column, key, guess))
                spread = spread_of(answer) / own**2
                if spread < least and (answer.law is not None or own == content):
                    best, least = number, spread
        one = None if best is None else direct_answer(state, best, key, guess, content, shared)
        result.append(one)
    return Answers.listed(result)


def direct_answer(
    state: State,
    number: int,
    key: bytes,
    guess: int,
    content: int,
    shared: _Shared | None = None,
) -> Known:
    """The answer that column ``number`` gives for the row of this key and content; rows with
    ``shared`` weights share a law. Raises TypeError for a multiple of a row with a public range."""
    answer, drawn = state.answer(number), state.drawn_rows(number)
    place, law = place_of(answer.column, key, guess), answer.law
    times = Fraction(content, content_at(answer.column, place))
    if times == 1:
        known = answer_at(answer, place) if drawn is None else drawn.known[place]
        if known is not None:
            return known
    if law is None:
        raise TypeError(f"an answer of {answer.mechanism} cannot be multiplied")
    if drawn is None and (times == -1 or not law.scale):
        value = int(answer.values[place]) * times.numerator // times.denominator
        return Known.with_noise(value, law)
    estimate = released(state, number, place, float(times))
    if shared is not None and drawn is None:
        weights = shared.setdefault((id(law), times), estimate.weights)
        estimate = replace(estimate, weights=weights)
    return Known.estimated(estimate)


def with_direct_answer(
    state: State, estimate: Estimate | None, number: int, key: bytes, content: int
) -> Estimate | None:
    """Combine the estimate of the row of this key and content with the row's own answer in column
    ``number``, if it has one."""
    answer = state.answer(number)
    if answer.law is None or key not in answer.column.row_keys:
        return estimate
    place = place_of(answer.column, key, 0)
    own = released(state, number, place, content / content_at(answer.column, place))
    return own if estimate is None else estimate.mixed(own)


def released(
    state: State, number: int, place: int, times: float = 1.0, shared: Shared | None = None
) -> Estimate:
    """The answer of the column's row at this place, times ``times``, as an estimate. Its weights
    are ``shared`` with the column's other rows, unless their noise was drawn together. Raises
    TypeError if its noise is not additive."""
    answer = state.answer(number)
    value = times * float(answer.values[place])
    noise = np.array([state.noise_number(number, place)])

    def weights() -> NoiseWeights:
        noises = state.noises(number, place)
        if noises is None:
            raise TypeError("an error that depends on the truth cannot be weighted")
        return NoiseWeights(np.full(1, times), noises)

    def basis() -> Basis:
        return Basis(own=(number,))

    if shared is None:
        return Estimate(value, noise, weights(), basis())
    own = weights() if answer.together else shared.of((answer, times), weights)
    return Estimate(value, noise, own, shared.of((answer,), basis))


def looks(state: State, column: Column, seen: int) -> list[list[Look]]:
    """Each row's own answers with independent noise among the first ``seen`` recorded columns, in
    the order they were charged."""
    held = state.held_by(column, seen)
    if held is None:
        return [[]] * column.height
    found = []
    for guess, (key, numbers) in enumerate(zip(column.row_keys, held, strict=True)):
        own = []
        for number in numbers:
            answer = state.answer(number)
            if answer.law is not None and answer.scale and answer.together is None:
                place = place_of(answer.column, key, guess)
                content = content_at(answer.column, place)
                look = Look(answer.law, int(answer.values[place]), content)
                own.append(((answer.charge_id, number), look))
        found.append([look for _, look in sorted(own, key=lambda one: one[0])])
    return found
