"""The privacy loss of a release, for either neighbouring relation and in either measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from tallyveil.cache import kept_with
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.cell_loss import CellLoss, cell_losses
from tallyveil.mechanisms.losses.cell_weights import check_magnitude, from_zero
from tallyveil.mechanisms.losses.pair_loss import PairLoss
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.units import CEILING, UNIT
from tallyveil.workload.workload import Column

__all__ = ["Loss", "privacy_loss", "sensitivity", "together_loss"]

Loss: TypeAlias = CellLoss | PairLoss


def privacy_loss(
    columns: Sequence[Column], rates: Sequence[Fraction], relation: Adjacency, measure: Measure
) -> Loss:
    """Return the loss of one privacy unit if moving an output of column c by d costs
    |d|^p · ``rates[c]``.

    ``measure`` determines p and the loss's unit. A unit of r rows loses up to r^p times as much
    (`Adjacency.stacking`).
    """
    stacking = (relation.stacking(column, measure) for column in columns)
    scaled = tuple(rate * times for rate, times in zip(rates, stacking, strict=True))
    if relation.neighbours == "add_remove":
        return CellLoss(cell_losses(columns, scaled, measure, merge=True), measure)
    return PairLoss(tuple(columns), scaled, relation.closed, measure)


def together_loss(
    columns: Sequence[Column], rates: Sequence[Fraction], relation: Adjacency, measure: Measure
) -> Loss:
    """As `privacy_loss`, for noise that is not independent, such as Laplace noise conditioned on
    its sum. Of such noise only the ε is known to add up over the outputs.

    In ρ that is (Σ_i ε_i)²/2 ≤ m Σ_i ε_i²/2 (Bun & Steinke, Proposition 1.4; Cauchy and Schwarz),
    where adding a record moves at most m outputs; replacing one moves at most twice as many.
    """
    if measure == "rho":
        once, alone = Adjacency("add_remove"), [Fraction(1, UNIT)] * len(columns)
        moved = privacy_loss(
            [_unit_coefficients(column) for column in columns], alone, once, "epsilon"
        ).bound
        moved = moved if relation.neighbours == "add_remove" else 2 * moved
        outputs = sum(column.height for column in columns)
        rates = [rate * min(moved, outputs) for rate in rates]
    return privacy_loss(columns, rates, relation.stacked, measure)


def _unit_coefficients(column: Column) -> Column:
    """Return the column with every stored coefficient, none of which is 0, replaced by 1."""
    factors = (replace(f, coefficients=np.ones_like(f.coefficients)) for f in column.factors)
    return replace(column, factors=tuple(factors))


@kept_with
def sensitivity(column: Column, relation: Adjacency, measure: Measure) -> int:
    """Return Δ₁ in ε, Δ₂² in ρ: how far one record moves C, in lattice steps (BAYES Lemma 2.1;
    MATH §1).

    add/remove: max_j Σ_i |C_ij|^p; for a product of factors it is the product of theirs. Replace:
    max_{j,k} Σ_i |C_ij − C_ik|^p, or an upper bound where there are too many classes of cells.
    Cached as long as the column exists.
    """
    if relation.neighbours == "add_remove":
        check_magnitude(column, power(measure))
        return from_zero(column, power(measure), merge=False).highest
    one_record = Adjacency(relation.neighbours, complete=relation.closed)
    # A step at rate 10⁻¹² is one unit, so at twice this rate the bound counts half steps. Bounds
    # from the midrange are whole in half steps, but would be rounded up in steps.
    halves = privacy_loss([column], [Fraction(2, UNIT)], one_record, measure).bound
    if halves < CEILING:
        return -(-halves // 2)
    return privacy_loss([column], [Fraction(1, UNIT)], one_record, measure).bound
