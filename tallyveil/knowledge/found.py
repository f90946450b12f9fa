"""What is known about the rows a statement asks, and which rows are not precise enough."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from tallyveil.inference import (
    Combination,
    Determined,
    ErrorLaw,
    NoiseLaw,
    Noises,
    combined,
    top_up,
)
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answer import Estimated, Known
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.released_answer import Released
from tallyveil.knowledge.sums.totals import Totals
from tallyveil.knowledge.system import System
from tallyveil.mechanisms import AnyMechanism, law_of
from tallyveil.workload.multiples import Multiples
from tallyveil.workload.workload import Column, IntArray, Summed

__all__ = ["MARGIN", "Bought", "Found", "Outlook", "Rows"]

MARGIN: Final = 1 - 1e-6
"""A top-up aims a little below the target, so that later rounding does not exceed it."""

Rows: TypeAlias = tuple[Sequence[Known | None], ...]
"""By column and row; None for a row that is not known."""

Estimates: TypeAlias = tuple[Estimate | None, ...]


@dataclass(frozen=True)
class Bought:
    """A charge and its answers: ``values[n]`` are the noisy answers at scale ``scales[n]`` to the
    rows ``rows[n]`` of the statement's column ``columns[n]`` or, if ``by_other_rows``, to others
    from which these follow."""

    charge_id: int
    mechanism: AnyMechanism
    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]
    scales: tuple[float, ...]
    values: tuple[tuple[int, ...], ...]
    by_other_rows: bool = False


@dataclass(frozen=True, eq=False)
class Outlook:
    """Estimates of the rows of a statement's ``columns`` from the first ``seen`` recorded columns,
    and the linear system they come from.

    ``outside``: history H determines no combination of the rows Q but 0. Then it does not help once
    all of Q is bought: if A H + a Q = q_i, then A H lies in the span of both Q and H and is 0, and
    A = 0 has the least variance.
    """

    columns: tuple[int, ...]
    seen: int
    rows: tuple[Estimates, ...]
    system: System | None = None
    outside: bool = False
    chosen: tuple[tuple[int, ...], int] | None = None
    """The recorded columns used and the work allowed, if nothing else determines the estimates."""
    determined: Determined | None = None
    """The combinations of all rows that the system determines, if known."""
    given_up: bool = False
    """Whether it took too much work to find out which rows the system or, if ``outside``, all
    recorded columns determine."""

    @property
    def examined(self) -> bool:
        """False if the rows were skipped because they are too many or too large."""
        return self.system is not None or self.outside

    @property
    def unknown(self) -> int:
        """The number of rows without an estimate."""
        return sum(own.count(None) for own in self.rows)

    @property
    def weight(self) -> int:
        """About its bytes."""
        known = (one for rows in self.rows for one in rows if one is not None)
        system = 0 if self.system is None else 2 * self.system.nbytes  # and its rows' exact sums
        chosen = 0 if self.chosen is None else 8 * len(self.chosen[0])
        determined = 0 if self.determined is None else self.determined.nbytes
        return 200 + system + chosen + determined + sum(150 + len(one.numbers) * 8 for one in known)

    @classmethod
    def nothing(cls, which: tuple[int, ...], columns: Sequence[Column], seen: int) -> Outlook:
        """An outlook without estimates."""
        return cls(which, seen, tuple((None,) * column.height for column in columns))

    def estimated(
        self, system: System, combinations: Sequence[Combination | None] | None = None
    ) -> Outlook:
        """Return the outlook with the estimates of a system for the same columns; solves it unless
        its ``combinations`` are given."""
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
    """What is known about the ``rows`` of a statement's ``columns``, and the outlooks behind the
    estimates, from the first ``seen`` recorded columns. The last columns are ``summed`` up from the
    others, which are asked."""

    columns: tuple[Column, ...]
    aims: tuple[Aim, ...]
    rows: Rows
    outlooks: tuple[Outlook, ...] = ()
    summed: tuple[Summed, ...] = ()
    seen: int = 0

    @property
    def asked(self) -> int:
        """The number of columns that are asked."""
        return len(self.columns) - len(self.summed)

    def asked_of(self, rows: Rows) -> Rows:
        return rows[: self.asked]

    def sums_after(self, bought: Mapping[int, tuple[IntArray, NoiseLaw]]) -> Rows:
        """How precisely the rows that are summed up would be known if rows of those asked were
        ``bought``, each column's with noise of one law. The values mean nothing."""
        rows = [list(own) for own in self.rows]
        for column, (own, law) in bought.items():
            for row in own.tolist():
                rows[column][row] = Released.of(0, law)
        every = {(column, row) for column, (own, _) in bought.items() for row in own.tolist()}
        for number, group in enumerate(Multiples.of(self.columns[: self.asked]).groups, 1):
            leader = next((one for one in group if (one.column, one.row) in every), None)
            if leader is None:
                continue
            _, law = bought[leader.column]
            for place in group:
                if place is not leader:
                    weights = np.full(1, place.content / leader.content)
                    own_noise = NoiseWeights(weights, Noises.of(type(law), law.scale))
                    known = Estimate(0.0, np.array([-number]), own_noise)
                    rows[place.column][place.row] = Estimated(known)
        found: list[Sequence[Known | None]] = [*rows]
        for number, summed in enumerate(self.summed, self.asked):
            Totals.put(number, summed, found, self.aims[number])
        return tuple(found[self.asked :])

    @property
    def alone(self) -> bool:
        """Whether one row was asked and history does not determine it. Then history cannot improve
        a fresh answer: A H + a q = q requires a = 1, so A H = 0 and A = 0 is best."""
        return self.rows == ((None,),)

    def short(self, column: int) -> IntArray:
        """The numbers of a column's rows that do not meet its aim. Each law of errors is checked
        once."""
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
        """The largest scale at which fresh answers to these rows, combined with what is known, meet
        the target; at least ``alone``, the scale that meets it without history.

        All rows get one scale. Each law of errors is checked once, the widest first.
        """
        aim = self.aims[column]
        law = law_of(aim.mechanism.name, alone)
        known = [self._estimate(column, row) for row in rows.tolist()]
        whole = [row for row in known if row is not None]
        if alone == 0 or law is None or aim.half_width is None or len(whole) < len(known):
            return alone
        target, scale = float(aim.half_width) * MARGIN, math.inf
        laws = {(row.signature, row.weights.rough): row for row in whole}
        for row in sorted(laws.values(), key=lambda row: -row.half_width(aim.confidence)):
            rough = row.weights.rough
            if scale < math.inf:
                width = ErrorLaw.outer_half_width if rough else ErrorLaw.half_width
                if width(combined(row.error, type(law), scale), aim.confidence) <= target:
                    continue
            found = top_up(row.error, target, aim.confidence, type(law), rough=rough)
            scale = min(scale, alone if found is None else max(found, alone))
            if scale <= alone:
                return alone
        return scale

    def _estimate(self, column: int, row: int) -> Estimate | None:
        for outlook in self.outlooks:
            if column in outlook.columns:
                return outlook.rows[outlook.columns.index(column)][row]
        return None
