"""The noise of a statement's rows, and which of them are bought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.arrays import IntArray
from tallyveil.gate.settings import Target
from tallyveil.knowledge import Aim, Answers, Rows
from tallyveil.mechanisms import AnyMechanism
from tallyveil.rewriter import Workload
from tallyveil.workload.row_multiples import Place

__all__ = ["Distinct", "Follower", "Noise", "Selection"]


class Follower(NamedTuple):
    """A column none of whose rows are bought: its widest noise is ``times`` that of a row of the
    column ``of``. ``alike``: all its rows have the same noise."""

    of: int
    times: Fraction
    alike: bool = True


class Selection(NamedTuple):
    """Rows of a workload: the ``rows[n]`` of its column ``columns[n]``."""

    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]

    @classmethod
    def of(cls, each: Sequence[IntArray]) -> Selection:
        """The rows of each column, without columns of which there are none."""
        columns = tuple(number for number, rows in enumerate(each) if len(rows))
        return cls(columns, tuple(each[number] for number in columns))

    def taken_from(self, workload: Workload) -> Workload:
        """A workload of these rows alone."""
        each = zip(self.columns, self.rows, strict=True)
        return Workload(
            workload.table, tuple(workload.columns[number].take(rows) for number, rows in each)
        )


@dataclass(frozen=True, eq=False)
class Distinct:
    """The numbers of the ``rows`` of each column without multiples of rows that are bought. Only
    these are bought, of the columns that are no ``followers``. ``leaders`` are the rows that others
    are multiples of."""

    rows: tuple[IntArray, ...]
    leaders: tuple[Place, ...]
    followers: Mapping[int, Follower]


@dataclass(frozen=True)
class Noise:
    """A mechanism and the scale of each column of a workload.

    ``origin`` says where n is from, if the analyst did not give the mechanism's public range.
    ``distinct`` is None if all rows are bought. ``instead``: the charge for other rows that are
    bought for all of them together, by the strategy ``family``, for ``share`` of the cost if it is
    a half-width that is asked. Then the columns, and those summed
    up from them, get these ``deviations`` at most, and on average the share ``gain`` of the
    variances as asked; no rows bought get below ``bound``, if known. ``raised`` are scales as
    imprecise as the columns may then be. ``whole_since``: why that is not done where it would gain,
    as the end of a sentence.
    """

    mechanism: AnyMechanism
    scales: tuple[float, ...]
    origin: str | None = None
    distinct: Distinct | None = None
    instead: Charge | None = None
    deviations: tuple[float, ...] = ()
    raised: tuple[float, ...] = ()
    gain: float = 1.0
    family: str | None = None
    bound: float | None = None
    share: float | None = None
    whole_since: str | None = None

    def aims(self, workload: Workload, target: Target) -> tuple[Aim, ...]:
        """How precise the answers to each column must be."""
        half, level = target.half_width, target.confidence
        return tuple(
            Aim(
                self.mechanism,
                scale,
                None if half is None else half / column.multiplier,
                level,
            )
            for column, scale in zip(workload.columns, self.raised or self.scales, strict=True)
        )

    def bought(self, column: int, rows: IntArray) -> IntArray:
        """Those of a column's rows that are bought, not as multiples of others."""
        if self.distinct is None:
            return rows
        return np.intersect1d(rows, self.distinct.rows[column], assume_unique=True)

    def all_bought(self, workload: Workload) -> Selection:
        """The rows that are bought if none are known, but for rows of zeros."""
        each = (np.delete(np.arange(one.height), one.zeros) for one in workload.columns)
        return Selection.of([self.bought(number, rows) for number, rows in enumerate(each)])

    def follower(self, column: int) -> Follower | None:
        """How a column follows from others, if none of its rows are bought."""
        return None if self.distinct is None else self.distinct.followers.get(column)

    def error(self, workload: Workload, groups: Sequence[Sequence[Place]]) -> float:
        """The sum of the variances of all rows, of which those of ``groups`` are multiples of one
        another."""
        if self.distinct is None:
            raise ValueError("all rows are bought")
        each = [
            float(column.multiplier) ** 2 * self.mechanism.worst_error(scale) if scale else 0.0
            for column, scale in zip(workload.columns, self.scales, strict=True)
        ]
        whole = sum(
            len(self.distinct.rows[number]) * own
            for number, own in enumerate(each)
            if self.follower(number) is None
        )
        for leader, group in zip(self.distinct.leaders, groups, strict=True):
            unit = float(workload.columns[leader.column].multiplier) * leader.content
            for place in group:
                if place is not leader:
                    own = float(workload.columns[place.column].multiplier) * place.content
                    whole += each[leader.column] * (own / unit) ** 2
        return whole

    def numbers(self, column: int, height: int) -> Sequence[int]:
        """The numbers of a column's rows, without multiples of other rows."""
        return range(height) if self.distinct is None else self.distinct.rows[column].tolist()

    def different(self, rows: Rows) -> Iterator[Answers]:
        """What is known of each column's rows, without multiples of other rows."""
        for column, known in enumerate(rows):
            own = self.numbers(column, len(known))
            yield known if len(own) == len(known) else known.take(own)
