"""Which two tables count as neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Neighbours", "Relation"]

Neighbours = Literal["add_remove", "replace"]


@dataclass(frozen=True)
class Relation:
    """The neighbouring relation of one protected table (MATH §1).

    ``add_remove``: x − x' = ±e_j, a record more or less. ``replace``: x − x' = e_j − e_k, a
    record changes. A privacy unit owns up to ``max_rows`` records, wherever they lie; by r steps
    of the one-record relation a unit's loss is at most ``max_rows`` times the largest loss of
    one record.

    ``complete`` says that no conceivable record falls outside the cube.
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
        """Under replace, whether the number of records in the cube is public.

        It is if every record has a cell and every unit exactly one record. Otherwise replacing
        a unit can move a record in or out, as if through one more cell that no query touches.
        """
        return self.neighbours == "replace" and self.complete and self.max_rows == 1
