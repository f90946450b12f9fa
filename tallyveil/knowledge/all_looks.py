"""Intervals over all looks: a confidence sequence from every recorded own answer of a row.

The interval of one look gives no guarantee against an analyst who keeps asking until it excludes a
value. These do: all intervals that a row ever gets hold its true value together, with the
confidence asked, however the queries, their costs and the end of asking are chosen.

A row's own answers are those to the row itself and to multiples of it. Each of their noises is
independent of everything before it. The noises of an estimate from other rows are not, because its
weights were chosen after some of them were seen. The answers are used in the order they were
charged: a charge fixes its query before its noise is drawn, when no answer to a later charge can be
known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from tallyveil import deadline
from tallyveil.inference import NoiseLaw, confidence_sequence
from tallyveil.knowledge.answers.known import Known
from tallyveil.knowledge.answers.recorded_answer import content_at
from tallyveil.workload.workload import Column

__all__ = ["EndsCache", "Look", "Sequences", "sequences"]

_PORTION: Final = 512  # rows between two checks of the deadline
_LIMIT: Final = 1 << 15  # rows whose ends are kept

_Ends: TypeAlias = tuple[int, int | None, int | None] | None
"""A row's answer and the ends of its interval, in steps of its lattice. The ends are None without
an own answer, and the whole is None without any answer."""


class Look(NamedTuple):
    """The law of a recorded answer's noise, the answer, and the content of the row it answers: the
    factor by which that is a multiple of its primitive row."""

    law: NoiseLaw
    value: int
    content: int


@dataclass(frozen=True)
class Sequences:
    """The intervals of one column's rows."""

    ends: Sequence[_Ends]

    @property
    def half_widths(self) -> set[int]:
        """The distances from the answers to the farther ends of their intervals."""
        return {
            max(row[0] - row[1], row[2] - row[0])
            for row in self.ends
            if row is not None and row[1] is not None and row[2] is not None
        }

    def without_ends(self, rows: Iterable[int]) -> int:
        """The number of ``rows`` with an answer and no interval."""
        own = (self.ends[row] for row in rows)
        return sum(row is not None and row[1] is None for row in own)


class EndsCache:
    """The ends of rows' intervals, by row and confidence, and the answers they were computed from.

    With them, an interval takes only the answers since, not all of them. Where there are too
    many, all are forgotten and computed again, with the same result.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._ends: dict[tuple[bytes, Fraction], tuple[Sequence[Look], tuple[int, int]]] = {}

    def before(
        self, row: bytes, confidence: Fraction, own: Sequence[Look]
    ) -> tuple[int, tuple[int, int]]:
        """How many of the answers ``own`` were used, and the ends they gave; 0 if unknown."""
        used, ends = self._ends.get((row, confidence), ((), (0, 0)))
        same = used == own[: len(used)]
        return (len(used), ends) if used and same else (0, (0, 0))

    def keep(
        self, row: bytes, confidence: Fraction, own: Sequence[Look], ends: tuple[int, int]
    ) -> None:
        """Keep the ends that all of ``own`` gave."""
        if len(self._ends) >= self._limit:
            self._ends = {}
        self._ends[row, confidence] = own, ends


def sequences(
    own: Sequence[Sequence[Look]],
    column: Column,
    rows: Sequence[Known | None],
    confidence: Fraction,
    cache: EndsCache,
) -> Sequences:
    """The intervals of a column's ``rows`` from each row's ``own`` answers with noise, in the order
    they were charged. Rows whose answers have the same laws are handled together, in units of their
    primitive rows: all multiples of one row share one sequence."""
    result: list[_Ends] = [None] * len(rows)
    alike: dict[tuple[int, tuple[tuple[NoiseLaw, int], ...]], list[int]] = {}
    before: dict[int, tuple[int, int]] = {}
    keys = column.row_keys
    for number, (row, answers) in enumerate(zip(rows, own, strict=True)):
        if row is None:
            continue
        value = row.rounded
        result[number] = (value, value, value) if row.error.exact else (value, None, None)
        if answers and not row.error.exact:
            known, before[number] = cache.before(keys[number], confidence, answers)
            kinds = tuple((look.law, abs(look.content)) for look in answers)
            alike.setdefault((known, kinds), []).append(number)
    for (known, kinds), numbers in alike.items():
        laws, contents = zip(*kinds, strict=True)
        for first in range(0, len(numbers), _PORTION):
            deadline.check()
            portion = numbers[first : first + _PORTION]
            values = [
                [look.value if look.content > 0 else -look.value for look in own[number]]
                for number in portion
            ]
            earlier = [before[number] for number in portion]
            found = confidence_sequence(
                laws, values, confidence, contents, known=known, before=earlier
            )
            for number, ends in zip(portion, found, strict=True):
                cache.keep(keys[number], confidence, own[number], ends)
                answer, content = result[number], content_at(column, number)
                low, high = sorted(content * end for end in ends)
                if answer is not None:
                    result[number] = answer[0], min(low, answer[0]), max(high, answer[0])
    return Sequences(result)
