"""Intervals over all looks: from every recorded answer of a row's own, by a confidence sequence.

The interval of one look says nothing about an analyst who goes on asking until it leaves a value
out. These do: the intervals that a row ever gets all hold its true value together, with the
confidence asked, however the questions, their costs and the end of asking are chosen.

A row's own answers are those to the very row. Their noises are independent of all that came before
them, which those of an estimate from other rows are not: its weights were chosen after some of its
noises were seen. The answers are taken in the order they were charged, since what a charge asks is
settled before its noise is drawn, and no answer to a later charge can be seen by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from tallyveil import deadline
from tallyveil.inference import NoiseLaw, confidence_sequence
from tallyveil.knowledge.answers.answer import Known

__all__ = ["Look", "Sequences", "_Ends", "sequences"]

_PORTION: Final = 512  # rows that are worked out between two looks at the deadline

_Ends: TypeAlias = tuple[int, int | None, int | None] | None
"""A row's answer and the ends of its interval, in steps of its lattice; no ends where no answer was
the row's own, and None where there is no answer either."""

Look: TypeAlias = tuple[NoiseLaw, int]
"""The law of a recorded answer's noise, and the answer."""


@dataclass(frozen=True)
class Sequences:
    """Of the rows of one column."""

    ends: Sequence[_Ends]

    @property
    def half_widths(self) -> set[int]:
        """How far the farther end is from the answer, of each row that has ends."""
        return {
            max(row[0] - row[1], row[2] - row[0])
            for row in self.ends
            if row is not None and row[1] is not None and row[2] is not None
        }

    @property
    def without_ends(self) -> int:
        """How many rows have an answer and no interval."""
        return sum(row is not None and row[1] is None for row in self.ends)


def sequences(
    own: Sequence[Sequence[Look]], rows: Sequence[Known | None], confidence: Fraction
) -> Sequences:
    """From each row's ``own`` answers with noise, in the order they were charged, and what is
    reported of it. Rows whose answers have the same laws are worked out together."""
    result: list[_Ends] = [None] * len(rows)
    alike: dict[tuple[NoiseLaw, ...], list[int]] = {}
    for number, (row, answers) in enumerate(zip(rows, own, strict=True)):
        if row is None:
            continue
        value = row.rounded
        result[number] = (value, value, value) if row.exact else (value, None, None)
        if answers and not row.exact:
            alike.setdefault(tuple(law for law, _ in answers), []).append(number)
    for laws, numbers in alike.items():
        for first in range(0, len(numbers), _PORTION):
            deadline.check()
            portion = numbers[first : first + _PORTION]
            values = [[value for _, value in own[number]] for number in portion]
            found = confidence_sequence(laws, values, confidence)
            for number, (low, high) in zip(portion, found, strict=True):
                answer = result[number]
                if answer is not None:
                    result[number] = answer[0], min(low, answer[0]), max(high, answer[0])
    return Sequences(result)
