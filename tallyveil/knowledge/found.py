"""What is known about the rows a statement asks, and which rows are not precise enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from tallyveil.arrays import BoolArray
from tallyveil.inference import (
    ErrorLaw,
    NoiseLaw,
    Noises,
    combined,
    top_up,
)
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.answers.known import Known
from tallyveil.knowledge.estimates import Estimates
from tallyveil.knowledge.sums.row_totals import Totals
from tallyveil.mechanisms import AnyMechanism, law_of
from tallyveil.workload.row_multiples import Multiples
from tallyveil.workload.workload import Column, IntArray, Summed

__all__ = ["MARGIN", "Bought", "Found", "Rows"]

MARGIN: Final = 1 - 1e-6
"""A top-up aims a little below the target, so that later rounding does not exceed it."""

Rows: TypeAlias = tuple[Answers, ...]
"""By column."""


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


@dataclass(frozen=True)
class Found:
    """What is known about the ``rows`` of a statement's ``columns``, and the joint estimates behind
    them, from the first ``seen`` recorded columns. The last columns are ``summed`` up from the
    others, which are asked. By column, ``enough`` says which rows meet its aim by an estimate,
    though what is reported of them may have a narrower interval and a greater variance."""

    columns: tuple[Column, ...]
    aims: tuple[Aim, ...]
    rows: Rows
    estimates: tuple[Estimates, ...] = ()
    summed: tuple[Summed, ...] = ()
    seen: int = 0
    enough: tuple[BoolArray, ...] = ()

    @property
    def asked(self) -> int:
        """The number of columns that are asked."""
        return len(self.columns) - len(self.summed)

    @property
    def examined(self) -> bool:
        """Whether recorded answers were looked at: no fresh ones alone are wanted."""
        return bool(self.estimates) and all(one.seen >= 0 for one in self.estimates)

    def asked_of(self, rows: Rows) -> Rows:
        return rows[: self.asked]

    def sums_after(self, bought: Mapping[int, tuple[IntArray, NoiseLaw]]) -> Rows:
        """How precisely the rows that are summed up would be known if rows of those asked were
        ``bought``, each column's with noise of one law. The values mean nothing."""
        rows = [list(own) for own in self.rows]
        for column, (own, law) in bought.items():
            for row in own.tolist():
                rows[column][row] = Known.with_noise(0, law)
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
                    rows[place.column][place.row] = Known.estimated(known)
        found = [*map(Answers.listed, rows)]
        for number, summed in enumerate(self.summed, self.asked):
            Totals.put(number, summed, found, self.aims[number])
        return tuple(found[self.asked :])

    @property
    def alone(self) -> bool:
        """Whether one row was asked and history does not determine it. Then history cannot improve
        a fresh answer: A H + a q = q requires a = 1, so A H = 0 and A = 0 is best."""
        return [*map(len, self.rows)] == [1] and not self.rows[0].whole

    def short(self, column: int) -> IntArray:
        """The numbers of a column's rows that do not meet its aim."""
        aim = self.aims[column]
        met = self.rows[column].holds(lambda error: error.suffices(aim))
        return np.flatnonzero(~(met | self.enough[column]) if self.enough else ~met)

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
        for joint in self.estimates:
            if column in joint.columns:
                return joint.rows[joint.columns.index(column)].row_estimates[row]
        return None
