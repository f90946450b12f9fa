"""What sums, intervals and estimates have to know of noises that are drawn together.

A joint law is symmetric about 0. Each of its noises also has a law of its own, as if it were
independent (`noise.Noises`), which *dominates*: for all weights a

    E e^{Σ a_i u_i} ≤ Π E e^{a_i N_i},

so that bounds of tails may take the noises for independent. Variances, intervals and probabilities
are those of the joint law itself.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from tallyveil.inference.noise import FloatArray

__all__ = ["Functional", "JointLaw"]


class Functional(Protocol):
    """X = Σ a_i u_i, of which φ is not negative."""

    @property
    def variance(self) -> float: ...

    @property
    def steps(self) -> FloatArray:
        """X is a sum of whole multiples of these; empty if X is 0."""
        ...

    @property
    def scales(self) -> FloatArray:
        """By step, at least that of a noise as wide as the sum it is on."""
        ...

    @property
    def slack(self) -> float:
        """What was left out of X is no more than this, but for a chance of 1e-20."""
        ...

    def in_units(self, step: float) -> Functional:
        """X/step, of which the steps are whole but for rounding errors, which are taken away."""
        ...

    def log_phi(self, points: FloatArray) -> FloatArray:
        """ln E e^{itX} at t = ``points``, −∞ where that is nothing, to 1e-13 of 1."""
        ...

    @property
    def work(self) -> int:
        """About how many operations `log_phi` takes for each point."""
        ...

    def masses(self) -> tuple[float, FloatArray] | None:
        """A step g and P(X = kg), k = 0, 1, …, to 1e-13 of 1; None where X is on no such lattice,
        or only `log_phi` is known."""
        ...


class JointLaw(Protocol):
    """Of noises in ``places`` 0, 1, …; those whose exchange changes nothing may have one place."""

    @property
    def number(self) -> int:
        """Equal for equal laws, in this process."""
        ...

    @property
    def variances(self) -> FloatArray:
        """By place, those of independent noises which, given what is exact, have the covariance
        of these, as nearly as independent noises can. Weights of estimates are chosen by them."""
        ...

    def functional(self, places: npt.NDArray[np.int64], weights: FloatArray) -> Functional:
        """Σ weights · noises, each of a noise of its own."""
        ...
