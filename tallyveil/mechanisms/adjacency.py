"""Which two tables count as neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from tallyveil.policy.domain import Neighbours

__all__ = ["Adjacency", "Neighbours"]


@dataclass(frozen=True)
class Adjacency:
    """The neighbouring relation of one protected table (MATH §1).

    ``add_remove``: x − x' = ±e_j, a record more or less. ``replace``: x − x' = e_j − e_k, a
    record changes. A privacy unit owns up to r = ``max_rows`` records, in any cells. If
    record l of the unit moves output i by d_il, the unit moves it by Σ_l d_il, and its loss is

    - in ε: Σ_i rate_i |Σ_l d_il| ≤ Σ_l Σ_i rate_i |d_il|, at most r times one record's largest;
    - in ρ: Σ_i rate_i (Σ_l d_il)² ≤ r Σ_l Σ_i rate_i d_il² by Cauchy and Schwarz, at most r²
      times one record's largest. r equal records reach it.

    ``complete`` states that no conceivable record falls outside the cube.
    """

    neighbours: Neighbours
    max_rows: int = 1
    complete: bool = False

    def __post_init__(self) -> None:
        if self.neighbours not in ("add_remove", "replace"):
            raise ValueError("neighbours are add_remove or replace")
        if not self.max_rows >= 1:
            raise ValueError("a privacy unit owns at least one row")

    @property
    def closed(self) -> bool:
        """Whether, under replace, the number of records in the cube is public.

        It is if every record has a cell and every unit exactly one record. Otherwise replacing
        a unit can move a record into the cube or out of it: losses then count the outside as one
        more cell, which no query touches.
        """
        return self.neighbours == "replace" and self.complete and self.max_rows == 1
