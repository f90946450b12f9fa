"""Rows that are sums of other rows of their statement, known as these sums or more precisely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Basis, Part, encode_column
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.errors import Error, EstimateError
from tallyveil.knowledge.answers.known import Known, total
from tallyveil.knowledge.answers.recorded_answer import content_at
from tallyveil.workload.workload import Column, Summed

__all__ = ["Totals"]

_SAME: Final = 1e-9  # relative difference of variances that count as equal


@dataclass(frozen=True, eq=False)
class Totals:
    """Column ``number`` of a statement, whose row i is the sum of the rows ``parts[i]`` of column
    ``of``. The rows ``as_sums`` are known as these sums. The ``better`` ones have no answer of
    their own that is as precise."""

    number: int
    column: Column
    of: int
    parts: Sequence[Sequence[int]]
    as_sums: Sequence[int]
    better: frozenset[int]
    complete: bool
    """Whether every row whose parts are all known is in ``as_sums``."""

    @classmethod
    def put(cls, number: int, summed: Summed, rows: list[Answers], aim: Aim) -> Totals:
        """Replace rows by sums of their parts where these are as precise."""
        order = np.argsort(summed.places, kind="stable")
        every = summed.parts[order].tolist()
        ends = np.searchsorted(summed.places[order], np.arange(summed.column.height + 1)).tolist()
        parts = [every[start:end] for start, end in pairwise(ends)]
        fine, found = [*rows[summed.of]], [*rows[number]]
        as_sums, better, complete = [], set[int](), True
        overlap = len(summed.parts) > len(fine)
        for row, own in enumerate(deadline.stoppable(parts)):
            known = [one for part in own if (one := fine[part]) is not None]
            if len(known) < len(own):
                continue
            alone = found[row]
            if overlap and alone is not None and _at_least_sum(alone, known):
                complete = False
                continue
            whole = total(known)
            if alone is None or _serves(whole.error, alone.error, aim):
                found[row] = whole
                as_sums.append(row)
                if alone is None or not _same(whole.error, alone.error):
                    better.add(row)
            else:
                complete = False
        rows[number] = Answers.listed(found)
        return cls(number, summed.column, summed.of, parts, as_sums, frozenset(better), complete)

    def are_sums(self, fine: Answers) -> bool:
        """Whether the rows may report sums of the reported values of their parts. Sums that overlap
        add up roundings of estimates, unless all are rounded together."""
        overlap = sum(map(len, self.parts)) > len(fine)
        return self.complete and not (overlap and any(fine.row_estimates))

    def basis(self, row: int, made_from: Sequence[Basis]) -> Basis | None:
        """All answers that a row's sum is made from, given the basis of each row summed up; None if
        there are none."""
        bases = {made_from[part] for part in self.parts[row]}
        whole = {number for basis in bases for number in basis.whole + basis.own}
        return Basis(tuple(sorted(whole))) if whole else None

    def in_parts(self, row: int, fine: Column, made_from: Sequence[Basis]) -> Basis:
        """The basis of a row as the sum of rows of the ``fine`` column, each with its own basis."""
        rows: dict[Basis, list[int]] = {}
        for part in sorted({*self.parts[row]} - {*fine.zeros.tolist()}):
            rows.setdefault(made_from[part], []).append(part)
        return Basis(
            parts=tuple(
                Part(encode_column(fine.take(np.array(own, dtype=np.int64))), basis)
                for basis, own in rows.items()
            ),
            summed=self.column.row_keys[row],
            content=content_at(self.column, row),
        )

    def add_up(self, rows: list[Answers]) -> None:
        """Make the rows ``as_sums`` report the sums of their parts' reported values."""
        fine = rows[self.of].rounded
        sums = [
            sum(map(fine.__getitem__, self.parts[row])) for row in deadline.stoppable(self.as_sums)
        ]
        rows[self.number] = rows[self.number].reporting(self.as_sums, sums)


def _at_least_sum(alone: Known, parts: Sequence[Known]) -> bool:
    """Whether the row's own estimate is as good as the sum of its parts, since these are estimates
    too: the best of a sum is the sum of the best. Their laws take long to compute."""
    return alone.estimate is not None and any(part.estimate is not None for part in parts)


def _serves(whole: Error, alone: Error, aim: Aim) -> bool:
    """Whether the sum is as precise as the row alone. At the aim's confidence the row's interval
    may have been reported, so the sum's is no wider."""
    if alone.exact or whole.exact:
        return whole.exact
    if _same(whole, alone) and not _rough(whole):
        return True  # both are the best estimate, computed in two ways
    if whole.variance > alone.variance and not _rough(alone):
        return False
    return whole.half_width(aim.confidence) <= alone.half_width(aim.confidence)


def _same(whole: Error, alone: Error) -> bool:
    """Whether the variances are equal. Either may be smaller than a double can hold."""
    return abs(whole.variance - alone.variance) <= _SAME * alone.variance


def _rough(error: Error) -> bool:
    return isinstance(error, EstimateError) and error.weights.rough
