"""Rows that are sums of other rows of their statement: known as these sums, or better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Basis, Part, encode_column
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Estimated, Known, total
from tallyveil.knowledge.answers.own_answer import content_at
from tallyveil.workload.workload import Column, Summed

__all__ = ["Totals"]

_SAME: Final = 1e-9  # of variances that are one computed twice


@dataclass(frozen=True, eq=False)
class Totals:
    """Column ``number`` of a statement. Row i is the sum of the rows ``parts[i]`` of its column
    ``of``. Of the rows ``as_sums`` this sum is what is known; of ``better`` ones nothing as good is
    known by itself."""

    number: int
    column: Column
    of: int
    parts: Sequence[Sequence[int]]
    as_sums: Sequence[int]
    better: frozenset[int]
    complete: bool
    """Whether there is no other row whose parts are all known."""

    @classmethod
    def put(
        cls, number: int, summed: Summed, rows: list[Sequence[Known | None]], aim: Aim
    ) -> Totals:
        """Put the sums in the place of what is known less well."""
        order = np.argsort(summed.places, kind="stable")
        every = summed.parts[order].tolist()
        ends = np.searchsorted(summed.places[order], np.arange(summed.column.height + 1)).tolist()
        parts = [every[start:end] for start, end in pairwise(ends)]
        fine, found = rows[summed.of], list(rows[number])
        as_sums, better, complete = [], set[int](), True
        for row, own in enumerate(deadline.stoppable(parts)):
            known = [one for part in own if (one := fine[part]) is not None]
            if len(known) < len(own):
                continue
            whole, alone = total(known), found[row]
            if alone is None or _serves(whole, alone, aim):
                found[row] = whole
                as_sums.append(row)
                if alone is None or not _same(whole, alone):
                    better.add(row)
            else:
                complete = False
        rows[number] = found
        return cls(number, summed.column, summed.of, parts, as_sums, frozenset(better), complete)

    def basis(self, row: int, made_from: Sequence[Basis]) -> Basis | None:
        """All answers that a row is made from as a sum, by what each of the rows summed up is made
        from; None if there are none."""
        bases = {made_from[part] for part in self.parts[row]}
        whole = {number for basis in bases for number in basis.whole + basis.own}
        return Basis(tuple(sorted(whole))) if whole else None

    def in_parts(self, row: int, fine: Column, made_from: Sequence[Basis]) -> Basis:
        """A row as the sum of rows of the ``fine`` column, each made from its own answers."""
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

    def add_up(self, rows: list[Sequence[Known | None]]) -> None:
        """Report sums of what is reported of their parts."""
        fine, own = rows[self.of], list(rows[self.number])
        for row in deadline.stoppable(self.as_sums):
            parts = [one.rounded for part in self.parts[row] if (one := fine[part]) is not None]
            before = own[row]
            own[row] = before and before.reporting(sum(parts))
        rows[self.number] = own


def _serves(whole: Known, alone: Known, aim: Aim) -> bool:
    """Whether the sum is known as well as the row by itself, and the interval at the confidence,
    which may have been reported, does not get wider."""
    if alone.exact or whole.exact:
        return whole.exact
    if _same(whole, alone) and not _rough(whole):
        return True  # the best estimate there is, worked out in two ways
    if whole.variance > alone.variance and not _rough(alone):
        return False
    return whole.half_width(aim.confidence) <= alone.half_width(aim.confidence)


def _same(whole: Known, alone: Known) -> bool:
    """Whether the variances are, either of which may be less than a double holds."""
    return abs(whole.variance - alone.variance) <= _SAME * alone.variance


def _rough(known: Known) -> bool:
    return isinstance(known, Estimated) and known.estimate.weights.rough
