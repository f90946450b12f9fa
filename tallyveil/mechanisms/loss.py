"""The privacy loss of a release, for either neighbouring relation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from tallyveil.mechanisms.cells import CellLoss, cell_losses
from tallyveil.mechanisms.pairs import PairLoss
from tallyveil.mechanisms.relation import Relation
from tallyveil.mechanisms.units import UNIT
from tallyveil.rewriter.workload import Column

__all__ = ["Loss", "privacy_loss", "sensitivity"]

Loss: TypeAlias = CellLoss | PairLoss


def privacy_loss(columns: Sequence[Column], rates: Sequence[Fraction], relation: Relation) -> Loss:
    """The loss to one privacy unit if every lattice step of column c costs ``rates[c]`` ε."""
    scaled = tuple(rate * relation.max_rows for rate in rates)
    if relation.neighbours == "add_remove":
        return CellLoss(cell_losses(columns, scaled, merge=True))
    return PairLoss(tuple(columns), scaled, relation.closed)


def sensitivity(column: Column, relation: Relation) -> int:
    """Δ₁ of C in lattice steps for one record (BAYES Lemma 2.1 for several rows; MATH §1).

    add/remove: max_j Σ_i |C_ij|, of a product of factors the product of theirs. Replace:
    max_{j,k} Σ_i |C_ij − C_ik|, or an upper bound where there are too many classes of cells.
    """
    one_record = Relation(relation.neighbours, complete=relation.closed)
    # A step at 10⁻¹² ε is one unit, so the bound counts steps.
    return privacy_loss([column], [Fraction(1, UNIT)], one_record).bound
