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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from tallyveil import deadline
from tallyveil.accountant import Accountant
from tallyveil.gate.decision import Answered
from tallyveil.gate.request import Request
from tallyveil.inference import NoiseLaw, confidence_sequence
from tallyveil.knowledge.known import Known, Noisy, released
from tallyveil.locks import Rank, ranked_lock
from tallyveil.mechanisms import mechanism

__all__ = ["Ends", "Looks", "Watched"]

_PORTION: Final = 512  # rows that are worked out between two looks at the deadline

Ends: TypeAlias = tuple[int, int | None, int | None] | None
"""A row's answer and the ends of its interval, in steps of its lattice; no ends where no answer was
the row's own, and None where there is no answer either."""


@dataclass(frozen=True)
class Watched:
    """``ends[table, c][i]`` is row i of column c."""

    ends: Mapping[tuple[str, int], Sequence[Ends]]

    def half_widths(self, table: str, column: int) -> set[int]:
        """How far the farther end is from the answer, of each row that has ends."""
        return {
            max(row[0] - row[1], row[2] - row[0])
            for row in self.ends[table, column]
            if row is not None and row[1] is not None and row[2] is not None
        }

    @property
    def without_ends(self) -> int:
        """How many rows have an answer and no interval."""
        return sum(
            row is not None and row[1] is None for rows in self.ends.values() for row in rows
        )


class _Own:
    """The answers of each row of a table, by row key: law, value, and place among the charges."""

    def __init__(self) -> None:
        self.seen = 0
        self.rows: dict[bytes, list[tuple[tuple[int, int], NoiseLaw, int]]] = {}


class Looks:
    """Fed by what the accountant records, from the first time it is asked. Threads may share it."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant
        self._lock = ranked_lock(Rank.KNOWLEDGE)
        self._tables: dict[str, _Own] = {}

    def over(self, request: Request, answered: Answered) -> Watched:
        """The intervals of all rows over all looks; they hold the answers too."""
        ends: dict[tuple[str, int], Sequence[Ends]] = {}
        for table, workload in request.workloads.items():
            for number, column in enumerate(workload.columns):
                own = self._own(table, column.row_keys)
                rows = answered.columns[table][number]
                ends[table, number] = _ends(rows, own, request.target.confidence)
        return Watched(ends)

    def _own(
        self, table: str, keys: Sequence[bytes]
    ) -> list[list[tuple[tuple[int, int], NoiseLaw, int]]]:
        """A copy of what is recorded of some rows, in the order it was charged."""
        with self._lock:
            known = self._tables.setdefault(table, _Own())
            start = known.seen
        answers = self._accountant.answers(table, start)
        with self._lock:
            # Somebody else may have taken in the first of them meanwhile.
            for answer in answers[known.seen - start :]:
                place = answer.charge_id, known.seen
                known.seen += 1
                of = released(mechanism(answer.mechanism), answer.scale)
                for key, value in zip(answer.column.row_keys, answer.values, strict=True):
                    said = of(int(value))
                    if isinstance(said, Noisy) and said.law.scale:
                        known.rows.setdefault(key, []).append((place, said.law, said.value))
            return [sorted(known.rows.get(key, ()), key=lambda one: one[0]) for key in keys]


def _ends(
    rows: Sequence[Known | None],
    own: Sequence[Sequence[tuple[tuple[int, int], NoiseLaw, int]]],
    confidence: Fraction,
) -> list[Ends]:
    """Rows whose answers have the same laws are worked out together."""
    result: list[Ends] = [None] * len(rows)
    alike: dict[tuple[NoiseLaw, ...], list[int]] = {}
    for number, (row, answers) in enumerate(zip(rows, own, strict=True)):
        if row is None:
            continue
        value = round(row.value)
        exact = isinstance(row, Noisy) and not row.law.scale
        result[number] = (value, value, value) if exact else (value, None, None)
        if answers and not exact:
            alike.setdefault(tuple(law for _, law, _ in answers), []).append(number)
    for laws, numbers in alike.items():
        for first in range(0, len(numbers), _PORTION):
            deadline.check()
            portion = numbers[first : first + _PORTION]
            values = [[value for _, _, value in own[number]] for number in portion]
            found = confidence_sequence(laws, values, confidence)
            for number, (low, high) in zip(portion, found, strict=True):
                answer = result[number]
                if answer is not None:
                    result[number] = answer[0], min(low, answer[0]), max(high, answer[0])
    return result
