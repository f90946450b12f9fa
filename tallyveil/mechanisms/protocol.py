"""What a family of noise has to say for itself."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from tallyveil.boundary import Receipt, TrueAnswer
from tallyveil.mechanisms.loss import Loss
from tallyveil.mechanisms.relation import Relation
from tallyveil.rewriter.workload import Workload

__all__ = ["Charged", "Mechanism"]


class Charged(Protocol):
    """What a ledger has to know of a family: what a release by it costs."""

    @property
    def name(self) -> str:
        """What policies, settings and ledgers call it."""
        ...

    def loss(self, workload: Workload, scales: Sequence[float], relation: Relation) -> Loss:
        """What a release at ``scales`` costs each cell, or each pair of cells."""
        ...


class Mechanism(Charged, Protocol):
    """Noise on the integer lattice of each column; a scale is in lattice units.

    Scale 0.0 means no noise, for columns that no record can move.
    """

    def scales_for(
        self, workload: Workload, epsilon: Fraction | float | str, relation: Relation
    ) -> tuple[float, ...]:
        """One scale per column, such that the statement costs at most ``epsilon``."""
        ...

    def variance(self, scale: float) -> float:
        """Of the noise, in squared lattice units."""
        ...

    def half_width(self, scale: float, confidence: float | Fraction) -> int:
        """The least h with P(|noise| ≤ h) ≥ confidence."""
        ...

    def half_width_of_sum(self, scales: Sequence[float], confidence: float | Fraction) -> int:
        """An h with P(|Σ noise_i| ≤ h) ≥ confidence, for independent noise of these scales."""
        ...

    def scale_for_half_width(self, half: int, confidence: float | Fraction) -> float:
        """The largest scale with P(|noise| ≤ half) ≥ confidence."""
        ...

    def release(self, answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
        """The answer with noise of ``receipt.scales``: one tuple of integers per column."""
        ...
