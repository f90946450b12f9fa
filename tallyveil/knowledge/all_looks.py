"""Intervals over all looks: from every recorded answer of a row's own, by a confidence sequence.

The interval of one look says nothing about an analyst who goes on asking until it leaves a value
out. These do: the intervals that a row ever gets all hold its true value together, with the
confidence asked, however the questions, their costs and the end of asking are chosen.

A row's own answers are those to the very row, and to multiples of it. Their noises are independent
of all that came before them, which those of an estimate from other rows are not: its weights were
chosen after some of its noises were seen. The answers are taken in the order they were charged,
since what a charge asks is settled before its noise is drawn, and no answer to a later charge can
be seen by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from tallyveil import deadline
from tallyveil.inference import NoiseLaw, confidence_sequence
from tallyveil.knowledge.answers.answer import Known
from tallyveil.knowledge.answers.own_answer import content_at
from tallyveil.workload.workload import Column

__all__ = ["Look", "Sequences", "_Ends", "sequences"]

_PORTION: Final = 512  # rows that are worked out between two looks at the deadline

_Ends: TypeAlias = tuple[int, int | None, int | None] | None
"""A row's answer and the ends of its interval, in steps of its lattice; no ends where no answer was
the row's own, and None where there is no answer either."""


class Look(NamedTuple):
    """The law of a recorded answer's noise, the answer, and the content of the row that was asked:
    by which it is a multiple of the primitive row."""

    law: NoiseLaw
    value: int
    content: int


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
    own: Sequence[Sequence[Look]],
    column: Column,
    rows: Sequence[Known | None],
    confidence: Fraction,
) -> Sequences:
    """From the ``own`` answers with noise to each row of a column, in the order they were charged,
    and what is reported of it. Rows whose answers have the same laws are worked out together, in
    units of their primitive rows: all multiples of one row have one sequence."""
    result: list[_Ends] = [None] * len(rows)
    alike: dict[tuple[tuple[NoiseLaw, int], ...], list[int]] = {}
    for number, (row, answers) in enumerate(zip(rows, own, strict=True)):
        if row is None:
            continue
        value = row.rounded
        result[number] = (value, value, value) if row.exact else (value, None, None)
        if answers and not row.exact:
            kinds = tuple((look.law, abs(look.content)) for look in answers)
            alike.setdefault(kinds, []).append(number)
    for kinds, numbers in alike.items():
        laws, contents = zip(*kinds, strict=True)
        for first in range(0, len(numbers), _PORTION):
            deadline.check()
            portion = numbers[first : first + _PORTION]
            values = [
                [look.value if look.content > 0 else -look.value for look in own[number]]
                for number in portion
            ]
            found = confidence_sequence(laws, values, confidence, contents)
            for number, ends in zip(portion, found, strict=True):
                answer, content = result[number], content_at(column, number)
                low, high = sorted(content * end for end in ends)
                if answer is not None:
                    result[number] = answer[0], min(low, answer[0]), max(high, answer[0])
    return Sequences(result)
