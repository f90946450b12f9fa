"""What follows from the rows of one factor: by nested sets, or else by elimination."""

from __future__ import annotations

from typing import TypeAlias

from tallyveil.invariants.laminar import Laminar
from tallyveil.invariants.modular import Modular
from tallyveil.workload.workload import Factor

__all__ = ["RowSpace", "row_space"]

RowSpace: TypeAlias = Laminar | Modular


def row_space(factor: Factor) -> RowSpace:
    return Laminar.of(factor) or Modular(factor)
