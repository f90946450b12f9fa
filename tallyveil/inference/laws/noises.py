"""Noises of known laws, many at a time: independent, except those that are drawn together.

A noise of a very small scale is 0 except with probability about 2e^{−1/b}, or 2e^{−1/2σ²}, and its
variance underflows. It counts as noise of the scale at which these are e^{−64}: that is wider, so
intervals do not become narrower.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.alike import changes
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import cached_property
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.laws.noise_law import LAWS, NoiseLaw

if TYPE_CHECKING:
    from tallyveil.inference.conditional.conditional import ConditionalLaw
    from tallyveil.inference.conditional.weighted_draw import Weighted

__all__ = ["JointNoise", "Noises", "Signature"]

Signature: TypeAlias = (
    "tuple[bytes, bytes, tuple[bytes, bytes, tuple[ConditionalLaw | None, ...]] | None]"
)


@dataclass(frozen=True, eq=False)
class JointNoise:
    """Noise k has place ``places[k]`` in the draw ``owners[k]``, whose joint law is
    ``laws[owners[k]]``. The owner of an independent noise is −1."""

    owners: IntArray
    places: IntArray
    laws: Mapping[int, ConditionalLaw]

    def take(self, which: npt.NDArray[np.intp]) -> JointNoise | None:
        owners = self.owners[which]
        if (owners < 0).all():
            return None
        return JointNoise(owners, self.places[which], self.laws)

    @property
    def draws(self) -> Iterator[tuple[ConditionalLaw, npt.NDArray[np.intp]]]:
        """The law of each draw, and the noises that belong to it."""
        for owner in np.unique(self.owners[self.owners >= 0]).tolist():
            yield self.laws[owner], np.flatnonzero(self.owners == owner)


@dataclass(frozen=True, eq=False)
class Noises:
    """Noise k has the law with the number ``laws[k]`` and at least the law's least scale,
    ``scales[k]``. For noises drawn ``together`` these are the dominating independent laws.

    Raises InvalidParameterValue unless every scale is finite and not negative.
    """

    laws: npt.NDArray[np.int8]
    scales: FloatArray
    together: JointNoise | None = None

    def __post_init__(self) -> None:
        if self.laws.shape != self.scales.shape or self.scales.ndim != 1:
            raise InvalidParameterValue("each noise has one law and one scale")
        if not ((self.laws >= 0) & (self.laws < len(LAWS))).all():
            raise InvalidParameterValue("a noise has the number of a law")
        if not ((self.scales >= 0) & (self.scales < math.inf)).all():
            raise InvalidParameterValue("a noise scale is a finite number from 0")
        least = np.array([law.least for law in LAWS])
        if ((self.scales > 0) & (self.scales < least.max())).any():
            wider = np.where(self.scales > 0, np.maximum(self.scales, least[self.laws]), 0.0)
            object.__setattr__(self, "scales", wider)
        self.laws.setflags(write=False)
        self.scales.setflags(write=False)

    @classmethod
    def of(cls, law: type[NoiseLaw], scales: Sequence[float] | FloatArray | float) -> Noises:
        """Noises of one law."""
        values = np.atleast_1d(np.array(scales, dtype=np.float64))
        return cls(np.full(values.shape, law.number, dtype=np.int8), values)

    @classmethod
    def concatenated(cls, parts: Sequence[Noises]) -> Noises:
        if not parts:
            return cls(np.zeros(0, dtype=np.int8), np.zeros(0))
        return cls(
            np.concatenate([p.laws for p in parts]),
            np.concatenate([p.scales for p in parts]),
            _concatenated(parts) if any(p.together for p in parts) else None,
        )

    def __len__(self) -> int:
        return len(self.scales)

    @cached_property
    def variances(self) -> FloatArray:
        """Var N_k, or `ConditionalLaw.variances` for noises drawn together."""
        result = np.zeros(len(self.scales))
        for law in LAWS:
            own = self.laws == law.number
            if own.any():
                result[own] = law.variances(self.scales[own])
        if self.together is not None:
            for joint, which in self.together.draws:
                result[which] = joint.variances[self.together.places[which]]
        return result

    @cached_property
    def numbers(self) -> IntArray:
        """Equal for noises of one law, or drawn together in one place of one joint law."""
        keys = [self.laws.astype(np.int64), self.scales]
        if self.together is not None:
            number = {owner: law.number for owner, law in self.together.laws.items()} | {-1: -1}
            owners, own = np.unique(self.together.owners, return_inverse=True)
            keys.append(np.array([number[owner] for owner in owners.tolist()])[own.ravel()])
            keys.append(np.where(self.together.owners < 0, -1, self.together.places))
        order = np.lexsort(keys)
        result = np.empty(len(order), dtype=np.int64)
        result[order] = np.cumsum(changes(*(key[order] for key in keys))) - 1
        return result

    @property
    def alike(self) -> bool:
        """Whether all noises are exchangeable."""
        owners = [] if self.together is None else self.together.owners.tolist()
        return len({*self.numbers.tolist()}) <= 1 and len({*owners}) <= 1

    @property
    def signature(self) -> Signature:
        """Equal only for noises of the same laws, in order, drawn together alike."""
        own = self.laws.tobytes(), self.scales.tobytes()
        if self.together is None:
            return *own, None
        owners, number = np.unique(self.together.owners, return_inverse=True)
        laws = tuple(self.together.laws.get(owner) for owner in owners.tolist())
        return *own, (number.ravel().tobytes(), self.together.places.tobytes(), laws)

    @classmethod
    def signed(cls, signature: Signature) -> Noises:
        """The noises of a signature."""
        laws, scales, drawn = signature
        together = None
        if drawn is not None:
            number, places = (np.frombuffer(own, dtype=np.int64) for own in drawn[:2])
            known = {n: law for n, law in enumerate(drawn[2]) if law is not None}
            owners = np.where(np.isin(number, list(known)), number, -1)
            together = JointNoise(owners, np.array(places), known)
        return cls(np.frombuffer(laws, dtype=np.int8), np.frombuffer(scales), together)

    def variance_of(self, weights: FloatArray) -> float:
        """Var Σ weights · noises."""
        if self.together is None:
            return float((weights**2 * self.variances).sum())
        alone = self.together.owners < 0
        own = float((weights[alone] ** 2 * self.variances[alone]).sum())
        return own + sum(one.variance for one in self.functionals(weights))

    def functionals(self, weights: FloatArray) -> list[Weighted]:
        """For each draw the weighted sum of its noises."""
        if self.together is None:
            return []
        places = self.together.places
        return [law.functional(places[of], weights[of]) for law, of in self.together.draws]

    def drawn(self, owners: IntArray) -> Noises:
        """The same noises, drawn in other draws of the same laws."""
        if self.together is None:
            return self
        pairs = zip(owners.tolist(), self.together.owners.tolist(), strict=True)
        laws = {new: self.together.laws[old] for new, old in pairs if old >= 0}
        return Noises(self.laws, self.scales, JointNoise(owners, self.together.places, laws))

    def take(self, which: npt.NDArray[np.intp]) -> Noises:
        together = None if self.together is None else self.together.take(which)
        taken = _of_checked(self.laws[which], self.scales[which], together)
        if "variances" in vars(self):  # computed already
            vars(taken)["variances"] = self.variances[which]
        return taken


def _of_checked(
    laws: npt.NDArray[np.int8], scales: FloatArray, together: JointNoise | None
) -> Noises:
    """Noises whose entries were already validated, without checks."""
    result = object.__new__(Noises)
    laws.setflags(write=False)
    scales.setflags(write=False)
    vars(result).update(laws=laws, scales=scales, together=together)
    return result


def _concatenated(parts: Sequence[Noises]) -> JointNoise:
    laws: dict[int, ConditionalLaw] = {}
    owners, places = list[IntArray](), list[IntArray]()
    for part in parts:
        one = part.together
        owners.append(np.full(len(part), -1, dtype=np.int64) if one is None else one.owners)
        places.append(np.zeros(len(part), dtype=np.int64) if one is None else one.places)
        laws |= {} if one is None else one.laws
    return JointNoise(np.concatenate(owners), np.concatenate(places), laws)
