"""Which two tables count as neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tallyveil.cache import kept_with
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.policy.domain import Neighbours
from tallyveil.workload.workload import Column

__all__ = ["Adjacency", "Neighbours", "Window"]


@dataclass(frozen=True)
class Window:
    """So many successive ``days``, in which a unit's records are protected together. Each cell of
    the axis ``axis`` is a day."""

    axis: str
    days: int


@dataclass(frozen=True)
class Adjacency:
    """The neighbouring relation of one protected table (MATH §1).

    ``add_remove``: x − x' = ±e_j, a record more or less. ``replace``: x − x' = e_j − e_k, a
    record changes. A privacy unit owns up to r = ``max_rows`` records, in any cells. If
    record l of the unit moves output i by d_il, the unit moves it by Σ_l d_il, and its loss is

    - in ε: Σ_i rate_i |Σ_l d_il| ≤ Σ_l Σ_i rate_i |d_il|, at most r times one record's largest;
    - in ρ: Σ_i rate_i (Σ_l d_il)² ≤ r Σ_l Σ_i rate_i d_il² by Cauchy and Schwarz, at most r²
      times one record's largest. r equal records reach it.

    With a ``window`` of w days a unit owns r/w records a day. If output i depends on m days, at
    most min(w, m) of the sums d_is over the records of a day s are not 0, so in ρ

        Σ_i rate_i (Σ_s d_is)² ≤ Σ_i rate_i min(w, m) Σ_s d_is²,

    at most (r²/w) min(w, m) times one record's largest (guarantees.md, "Tables that grow"). That
    holds for noise that is independent from output to output; `stacked` is the relation for all
    other noise.

    ``complete`` states that no conceivable record falls outside the cube.
    """

    neighbours: Neighbours
    max_rows: int = 1
    complete: bool = False
    window: Window | None = None

    def __post_init__(self) -> None:
        if self.neighbours not in ("add_remove", "replace"):
            raise ValueError("neighbours are add_remove or replace")
        if not self.max_rows >= 1:
            raise ValueError("a privacy unit owns at least one row")
        if self.window is not None and self.max_rows % self.window.days:
            raise ValueError("a privacy unit owns the same number of rows each day")

    @property
    def closed(self) -> bool:
        """Whether, under replace, the number of records in the cube is public.

        It is if every record has a cell and every unit exactly one record. Otherwise replacing
        a unit can move a record into the cube or out of it: losses then count the outside as one
        more cell, which no query touches.
        """
        return self.neighbours == "replace" and self.complete and self.max_rows == 1

    @property
    def stacked(self) -> Adjacency:
        """The relation whose loss bounds also noise that depends on several outputs."""
        return replace(self, window=None)

    def stacking(self, column: Column, measure: Measure) -> int:
        """How many times one record's largest loss the unit may lose by ``column``."""
        return self.shared(measure) * self.spread(column, measure)

    def shared(self, measure: Measure) -> int:
        """The part of `stacking` that all columns have in common."""
        windows = 1 if self.window is None or power(measure) == 1 else self.window.days
        return int(self.max_rows ** power(measure)) // windows

    def spread(self, column: Column, measure: Measure) -> int:
        """The part of `stacking` of its own that a column has."""
        if self.window is None or power(measure) == 1:
            return 1
        days = _days(column, self.window.axis)
        return self.window.days if days is None else min(self.window.days, max(1, days))


@kept_with
def _days(column: Column, axis: str) -> int | None:
    """On how many cells of the axis a row of the column depends at most; None for all of them."""
    for factor in column.factors:
        if axis in factor.axes:
            place = np.unravel_index(factor.cells, factor.shape)[factor.axes.index(axis)]
            size = factor.shape[factor.axes.index(axis)]
            touched = np.unique(factor.rows * size + place)
            return int(np.bincount(touched // size, minlength=1).max())
    return None
