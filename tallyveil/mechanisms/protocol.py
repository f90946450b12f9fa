"""What a mechanism has to say for itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import ClassVar, Protocol, TypeAlias

from tallyveil.boundary import Receipt, TrueAnswer
from tallyveil.errors import FeatureNotSupported
from tallyveil.mechanisms.losses.privacy_loss import Loss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.relation import Adjacency
from tallyveil.workload.workload import Workload

__all__ = ["Charged", "Mechanism", "Releasing"]

Releasing: TypeAlias = Callable[[TrueAnswer, Receipt], tuple[tuple[int, ...], ...]]
"""Opens an answer and releases it, as `Mechanism.release` does."""


class Charged(Protocol):
    """What a ledger has to know of what it charged for: its name and its cost."""

    @property
    def name(self) -> str:
        """What policies, settings and ledgers call it, parameters included: by it the ledger finds
        it again, for good.
        """
        ...

    def loss(
        self, workload: Workload, scales: Sequence[float], relation: Adjacency, measure: Measure
    ) -> Loss:
        """What a release at ``scales`` costs each cell, or each pair of cells, in ``measure``.

        Raises FeatureNotSupported if it has no cost in ``measure``.
        """
        ...


class Mechanism(ABC):
    """A way to release the integer lattice of each column as integers; a scale is in lattice units.

    A scale is all that a mechanism is told for a column besides its own name; what else it
    depends on is part of the name. Scale 0.0 means an exact answer, for columns that no record
    can move. A step costs 1/scale in ε, and 1/(2 scale²) in ρ (`measure`).
    """

    needs_delta: ClassVar[bool] = False
    """Whether it is private with a δ > 0 only, so that a ledger of pure ε cannot pay for it."""
    needs_range: ClassVar[bool] = False
    """Whether each answer has a public range 0..n; then its answers do not add up."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As `Charged.name`."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What it guarantees, in a plain sentence."""

    def scales_for(
        self,
        workload: Workload,
        cost: Fraction | float | str,
        relation: Adjacency,
        measure: Measure,
    ) -> tuple[float, ...]:
        """One scale per column, such that the statement costs at most ``cost`` in ``measure``.

        Raises InvalidParameterValue for a cost that is not positive and finite, and
        FeatureNotSupported for a workload it is unfit for, or if it has no cost in ``measure``.
        """
        reason = self.unfit(workload)
        if reason is not None:
            raise FeatureNotSupported(f"{self.name} {reason}")
        self._check(measure)
        return calibrate.scales_for(workload, cost, relation, measure)

    def loss(
        self, workload: Workload, scales: Sequence[float], relation: Adjacency, measure: Measure
    ) -> Loss:
        """As `Charged.loss`."""
        self._check(measure)
        return calibrate.scale_loss(workload, scales, relation, measure)

    def _check(self, measure: Measure) -> None:
        if measure == "epsilon" and self.needs_delta:
            raise FeatureNotSupported(
                f"{self.name} noise has no cost in a budget of epsilon alone: it is not"
                " epsilon-differentially private for any epsilon",
                hint="SET dp.mechanism = laplace. With a budget { rho = …, delta = … } or"
                f" {{ epsilon = …, delta = … }} the custodian can allow {self.name}.",
            )

    def unfit(self, workload: Workload) -> str | None:
        """Why it does not answer ``workload``, as the end of a sentence; None if it does."""
        return None

    @abstractmethod
    def spread(self, scale: float) -> float:
        """By what its recorded answers are compared with others of their kind: less is better."""

    @abstractmethod
    def worst_error(self, scale: float) -> float:
        """The mean squared error of an answer in lattice units, for the truth where it is largest.

        Raises StatementTooComplex if the mechanism cannot be worked out.
        """

    @abstractmethod
    def release(self, answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
        """Open ``answer`` and release it at ``receipt.scales``: a tuple of integers per column.

        Raises ReceiptError unless the receipt is unused and paid for this answer, and
        InvalidParameterValue for a scale that cannot be drawn; then the answer stays sealed.
        """
