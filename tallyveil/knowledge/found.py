"""What is known of the rows a statement asks, and what falls short of what it asks for."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from tallyveil.inference import Combination, Determined, combined, top_up
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Known
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.released_answer import Released
from tallyveil.knowledge.system import System
from tallyveil.mechanisms import AnyMechanism, law_of
from tallyveil.workload.workload import Column, IntArray, Summed

__all__ = ["Bought", "Found", "Outlook", "Rows"]

# A top-up is bought for a little less, so that what rounding adds later does not exceed the target.
_MARGIN: Final = 1 - 1e-6

Rows: TypeAlias = tuple[Sequence[Known | None], ...]
"""By column and row; None for what is not known."""

Estimates: TypeAlias = tuple[Estimate | None, ...]


@dataclass(frozen=True)
class Bought:
    """A charge that was answered: of the statement's column ``columns[n]`` the rows ``rows[n]``,
    whose noisy answers at scale ``scales[n]`` are ``values[n]``; or if ``indirect`` other rows,
    from which these follow."""

    charge_id: int
    mechanism: AnyMechanism
    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]
    scales: tuple[float, ...]
    values: tuple[tuple[int, ...], ...]
    indirect: bool = False


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the first ``seen`` recorded columns of a table say of the rows of a statement's
    ``columns``, and the system they are estimated from.

    ``outside``: nothing, of no combination of the rows. Then history has no part in what is known
    once all rows Q are bought: if A H + a Q = q_i, then A H lies in the span of Q as well as in
    that of H, and is 0, and A = 0 has the least variance.
    """

    columns: tuple[int, ...]
    seen: int
    rows: tuple[Estimates, ...]
    system: System | None = None
    outside: bool = False
    chosen: tuple[tuple[int, ...], int] | None = None
    """What was looked at of them, with how much work, if it is all that matters."""
    determined: Determined | None = None
    """What the system determines of all rows together, if that is known."""
    given_up: bool = False
    """Whether it took too much work to find out what the system or, if ``outside``, what all of
    them determine of some row."""

    @property
    def looked_at(self) -> bool:
        """Whether it is more than nothing for want of room."""
        return self.system is not None or self.outside

    @property
    def unknown(self) -> int:
        """How many rows it says nothing of."""
        return sum(own.count(None) for own in self.rows)

    @property
    def weight(self) -> int:
        known = (one for rows in self.rows for one in rows if one is not None)
        system = 0 if self.system is None else 2 * self.system.nbytes  # and its rows' exact sums
        chosen = 0 if self.chosen is None else 8 * len(self.chosen[0])
        determined = 0 if self.determined is None else self.determined.nbytes
        return 200 + system + chosen + determined + sum(150 + len(one.numbers) * 8 for one in known)

    @classmethod
    def nothing(cls, which: tuple[int, ...], columns: Sequence[Column], seen: int) -> Outlook:
        return cls(which, seen, tuple((None,) * column.height for column in columns))

    def estimated(
        self, system: System, combinations: Sequence[Combination | None] | None = None
    ) -> Outlook:
        """With the estimates of a system for the same columns, by ``combinations`` if they are
        known."""
        determined, given_up = None, False
        if combinations is None:
            estimates, found = system.solved()
            determined, given_up = found.determined, found.given_up
        else:
            estimates = system.estimates(combinations)
        rows, start = [], 0
        for own in self.rows:
            rows.append(tuple(estimates[start : start + len(own)]))
            start += len(own)
        known = tuple(rows)
        return Outlook(
            self.columns, self.seen, known, system, determined=determined, given_up=given_up
        )


@dataclass(frozen=True)
class Found:
    """``rows`` of a statement's ``columns``, and where their estimates came from. The last columns
    are ``summed`` up from the others, which are asked."""

    columns: tuple[Column, ...]
    aims: tuple[Aim, ...]
    rows: Rows
    outlooks: tuple[Outlook, ...] = ()
    summed: tuple[Summed, ...] = ()

    @property
    def asked(self) -> int:
        """How many columns are asked."""
        return len(self.columns) - len(self.summed)

    def asked_of(self, rows: Rows) -> Rows:
        return rows[: self.asked]

    @property
    def alone(self) -> bool:
        """Whether one row was asked that history does not determine: then nothing recorded can
        better its fresh answer, for in A H + a q = q the a is 1 and A has no part in it."""
        return self.rows == ((None,),)

    def short(self, column: int) -> IntArray:
        """The numbers of a column's rows that do not suffice; rows of one law of error are looked
        at once."""
        rows = self.rows[column]
        if isinstance(rows, Alike) and rows:
            if Released.of(0, rows.law).suffices(self.aims[column]):
                return np.arange(0)
            return np.delete(np.arange(len(rows)), list(rows.exact))
        if not any(rows):
            return np.arange(len(rows))
        enough: dict[Hashable, bool] = {}
        found = []
        for number, row in enumerate(rows):
            if row is not None:
                law = row.law
                if law not in enough:
                    enough[law] = row.suffices(self.aims[column])
                if enough[law]:
                    continue
            found.append(number)
        return np.array(found, dtype=np.int64)

    def scale(self, column: int, rows: IntArray, alone: float) -> float:
        """The most noise with which some rows of a column, together with what is known of them,
        meet the target: a scale at least ``alone``, at which they would without history.

        One scale serves all rows; rows whose errors have one law are looked at once, those that
        know least first.
        """
        aim = self.aims[column]
        law = law_of(aim.mechanism.name, alone)
        known = [self._estimate(column, row) for row in rows.tolist()]
        whole = [row for row in known if row is not None]
        if alone == 0 or law is None or aim.half_width is None or len(whole) < len(known):
            return alone
        target, scale = float(aim.half_width) * _MARGIN, math.inf
        laws = {row.signature: row for row in whole}
        for row in sorted(laws.values(), key=lambda row: -row.half_width(aim.confidence)):
            if scale < math.inf:
                together = combined(row.error, type(law), scale)
                if together.half_width(aim.confidence) <= target:
                    continue
            found = top_up(row.error, target, aim.confidence, type(law))
            scale = min(scale, alone if found is None else max(found, alone))
            if scale <= alone:
                return alone
        return scale

    def _estimate(self, column: int, row: int) -> Estimate | None:
        for outlook in self.outlooks:
            if column in outlook.columns:
                return outlook.rows[outlook.columns.index(column)][row]
        return None
