"""The errors of several answers together, from the noises that each was made from.

The error of an answer is a weighted sum of noises. Two depend on each other where they share
noises, as those of a sum and a count do that were both estimated from two moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Answer
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import NoiseLaw, Noises
from tallyveil.inference.canonical import rounded
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.errors import EstimateError, NoiseSum
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.answers.recorded_answer import content_at, place_of
from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column, Summed

__all__ = ["JointErrors", "joint_errors", "sums_with_noises", "with_noises"]

_SAME: Final = 1e-9  # relative difference of variances that count as equal
_NO_NOISE: Final = NoiseWeights(np.zeros(0), Noises.concatenated([]))
_EXACT: Final = Estimate(0.0, np.zeros(0, dtype=np.int64), _NO_NOISE)


JointErrors: TypeAlias = tuple[IntArray, FloatArray, Noises, bool]
"""The numbers of some rows, and the errors of their answers: Σ_k weights[a, k] · noise k for answer
a. If the last is True, laws of such sums take too long to compute exactly."""


def with_noises(state: State, column: Column, known: Answers) -> list[Estimate | None]:
    """Each row's answer as an estimate that has its noises, whatever its value; None for a row that
    is not known, or whose noises are not: a sum of others' answers, or a count in a range; and for
    noises drawn together, whose laws take long."""
    found: list[Estimate | None] = [None] * len(known)
    for place in set(known.of.tolist()) - {-1}:
        error, rows = known.errors[place], np.flatnonzero(known.of == place).tolist()
        if error.exact:
            own: Sequence[Estimate | None] = [_EXACT] * len(rows)
        elif isinstance(error, EstimateError) and error.beside.exact:
            if error.weights.noises.together is not None:
                continue
            own = [known.row_estimates[row] for row in rows]
        elif isinstance(error, NoiseSum) and len(error.laws) == 1:
            own = _released(state, column, known, rows, error.laws[0])
        else:
            continue
        for row, one in zip(rows, own, strict=True):
            found[row] = one
    return found


def sums_with_noises(
    known: Answers,
    own: Sequence[Estimate | None],
    summed: Summed,
    parts: Sequence[Estimate | None],
) -> list[Estimate | None]:
    """Each row's answer as its ``own`` estimate, or where it has none as the sum of those of its
    ``parts``, if that has its variance."""
    found, ends = [*own], np.bincount(summed.places, minlength=len(known)).cumsum()
    of = np.split(summed.parts[np.argsort(summed.places, kind="stable")], ends[:-1])
    for row in deadline.stoppable([row for row, one in enumerate(own) if one is None]):
        each = [one for part in of[row].tolist() if (one := parts[part]) is not None]
        if known.of[row] >= 0 and 0 < len(each) == len(of[row]):
            whole, variance = Estimate.total(each), known.errors[known.of[row]].variance
            if abs(whole.variance - variance) <= _SAME * variance:
                found[row] = whole
    return found


def _released(
    state: State, column: Column, known: Answers, rows: list[int], law: NoiseLaw
) -> list[Estimate | None]:
    """What was released for the rows, or for their negatives, with noise of this law: of answers of
    the same value, the latest."""
    held = state.held(column, state.recorded) or [()] * len(known)
    recorded: dict[int, tuple[Answer, IntArray, dict[int, NoiseWeights]]] = {}
    found: list[Estimate | None] = []
    for row in deadline.stoppable(rows):
        estimate = None
        for number in reversed(held[row]):
            if number not in recorded:
                recorded[number] = state.answer(number), state.noise_numbers(number), {}
            answer, noise, weights = recorded[number]
            if answer.law != law:
                continue
            place = place_of(answer.column, column.row_keys[row], row)
            own, other = content_at(column, row), content_at(answer.column, place)
            times = own // other if abs(own) == abs(other) else 0
            if times and times * int(answer.values[place]) == known.released[row]:
                if times not in weights:
                    noises = Noises.of(type(law), law.scale)
                    weights[times] = NoiseWeights(np.array([float(times)]), noises)
                estimate = Estimate(0.0, noise[place : place + 1], weights[times])
                break
        found.append(estimate)
    return found


def joint_errors(
    answers: Sequence[Sequence[Estimate | None]], tables: Sequence[int], rows: Sequence[int]
) -> Iterator[JointErrors]:
    """The joint laws of the errors of several answers in these ``rows``, of which all have an
    estimate. ``tables`` numbers the tables that the answers are about: their noises differ."""
    alike: dict[object, tuple[list[int], list[Estimate], tuple[int, ...]]] = {}
    shift = max(tables) + 1
    for row in deadline.stoppable(rows):
        own = [one for each in answers if (one := each[row]) is not None]
        seen: dict[int, int] = {}
        places = tuple(
            seen.setdefault(number * shift + table, len(seen))
            for one, table in zip(own, tables, strict=True)
            for number in one.numbers.tolist()
        )
        key = (places, *(id(one.weights) for one in own))
        alike.setdefault(key, ([], own, places))[0].append(row)
    merged: dict[object, tuple[list[int], FloatArray, Noises, bool]] = {}
    for some, own, places in alike.values():
        each = np.repeat(np.arange(len(own)), [len(one.numbers) for one in own])
        which = np.unique(np.array(places, dtype=np.int64), return_index=True)[1]
        weights = np.zeros((len(own), len(which)))
        weights[each, list(places)] = np.concatenate([one.weights.values for one in own])
        noises = Noises.concatenated([one.noises for one in own]).take(which)
        rough = any(one.weights.rough for one in own)
        law = rounded(weights).tobytes(), noises.signature, rough
        merged.setdefault(law, ([], weights, noises, rough))[0].extend(some)
    for some, weights, noises, rough in merged.values():
        yield np.array(sorted(some), dtype=np.int64), weights, noises, rough
