"""The interface of mechanisms, and the part of it that a ledger needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import ClassVar, Protocol, TypeAlias

from tallyveil.boundary import Receipt, TrueAnswer
from tallyveil.errors import FeatureNotSupported
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.privacy_loss import Loss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.noise import calibrate
from tallyveil.workload.workload import Workload

__all__ = ["Charged", "Mechanism", "Releasing"]

Releasing: TypeAlias = Callable[[TrueAnswer, Receipt], tuple[tuple[int, ...], ...]]
"""Opens an answer and releases it, as `Mechanism.release` does."""


class Charged(Protocol):
    """What a ledger needs of a mechanism: its name and its cost."""

    @property
    def name(self) -> str:
        """Its name in policies, settings and ledgers, parameters included. Ledgers store it, so a
        name must keep its meaning for good.
        """
        ...

    def loss(
        self, workload: Workload, scales: Sequence[float], relation: Adjacency, measure: Measure
    ) -> Loss:
        """Return what a release at ``scales`` costs each cell or pair of cells, in ``measure``.

        Raises FeatureNotSupported if it has no cost in ``measure``.
        """
        ...


class Mechanism(ABC):
    """A way to release the integer lattice of each column as integers; a scale is in lattice units.

    The noise of a column depends only on the mechanism's name, which includes its parameters, and
    on the column's scale. Scale 0.0 means an exact answer, for columns that no record can move. A
    step costs 1/scale in ε, and 1/(2 scale²) in ρ (`measure`).
    """

    needs_delta: ClassVar[bool] = False
    """Whether it is private only with a δ > 0, so that a ledger of pure ε cannot charge for it."""
    needs_range: ClassVar[bool] = False
    """Whether each answer has a public range 0..n; then answers of groups do not add up."""

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
        like: Sequence[float] | None = None,
    ) -> tuple[float, ...]:
        """Return one scale per column, such that the statement costs at most ``cost`` in
        ``measure``. They are in proportion to those of ``like``, if given.

        Raises InvalidParameterValue if the cost is not positive and finite, and FeatureNotSupported
        if the mechanism is `unfit` for the workload or has no cost in ``measure``.
        """
        reason = self.unfit(workload)
        if reason is not None:
            raise FeatureNotSupported(f"{self.name} {reason}")
        self._check(measure)
        return calibrate.scales_for(workload, cost, relation, measure, like)

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
        """Return why it cannot answer ``workload``, as a predicate for an error message ("answers
        counts only"), or None if it can.
        """
        return None

    @abstractmethod
    def spread(self, scale: float) -> float:
        """Return the number by which recorded answers of one kind compare: lower is better."""

    @abstractmethod
    def worst_error(self, scale: float) -> float:
        """Return the mean squared error of an answer, for the truth with the largest, in squared
        lattice units.

        Raises StatementTooComplex if the mechanism's law cannot be computed.
        """

    @abstractmethod
    def release(self, answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
        """Open ``answer`` and release it at ``receipt.scales``: a tuple of integers per column.

        Raises ReceiptError unless the receipt is unused and was issued for this answer, and
        InvalidParameterValue for a scale that cannot be drawn; then the answer stays sealed.
        """
