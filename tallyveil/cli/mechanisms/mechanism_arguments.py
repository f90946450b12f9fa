"""Parsing of the mechanism commands' arguments: levels, ranges, objectives, and options."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Final, cast

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix.objective import Objective, Penalty
from tallyveil.mechanisms.matrix.privacy_level import (
    MAX_EPSILON,
    alpha_for,
    checked_alpha,
    checked_range,
    epsilon_for,
)
from tallyveil.mechanisms.units import positive

__all__ = [
    "QUALITIES",
    "IntegerQuality",
    "MechanismOptions",
    "levels_of",
    "objective_of",
    "ranges_of",
]

_OBJECTIVE = re.compile(r"(L[012])(?:,([0-9]{1,4}))?(?: +(SUM|MAX))?")

IntegerQuality = Callable[[int, int], int]

# The quality of an output for a truth, for the exponential mechanism.
QUALITIES: Final[MappingProxyType[str, IntegerQuality]] = MappingProxyType(
    {
        "distance": lambda output, truth: -abs(output - truth),
        "square": lambda output, truth: -((output - truth) ** 2),
        "truth": lambda output, truth: int(output == truth),
    }
)


@dataclass(frozen=True)
class MechanismOptions:
    """The options of `mechanism show`, as text; None for those not given."""

    alpha: str | None = None
    epsilon: str | None = None
    n: int | None = None
    properties: str | None = None
    objective: str | None = None
    weights: str | None = None
    quality: str | None = None
    delta: str | None = None
    calibration: str | None = None

    def only(self, name: str, *allowed: str) -> None:
        """Raise InvalidParameterValue if options other than the level and ``allowed`` are given."""
        taken = ("alpha", "epsilon", *allowed)
        for option in fields(self):
            if getattr(self, option.name) is not None and option.name not in taken:
                raise InvalidParameterValue(
                    f"{name} takes no --{option.name}",
                    hint=f"Its options: {', '.join(f'--{one}' for one in taken)}.",
                )

    def level(self) -> Fraction:
        """Return α for a mechanism with a public range.

        Raises InvalidParameterValue unless exactly one of α and ε is given, and for an ε above
        `MAX_EPSILON`.
        """
        if self._by_alpha():
            return checked_alpha(self.alpha or "")
        if positive(self.epsilon or "", "epsilon") > MAX_EPSILON:
            raise InvalidParameterValue(
                f"a mechanism with a public range has an epsilon of at most {MAX_EPSILON},"
                f" not {self.epsilon}"
            )
        return alpha_for(self.epsilon or "")

    def cost(self) -> Fraction:
        """Return ε for noise, rounded up if computed from α.

        Raises InvalidParameterValue unless exactly one of α and ε is given.
        """
        if self._by_alpha():
            return epsilon_for(self.alpha or "")
        return positive(self.epsilon or "", "epsilon")

    def _by_alpha(self) -> bool:
        if (self.alpha is None) == (self.epsilon is None):
            raise InvalidParameterValue(
                "give either --epsilon or --alpha", hint="Each sets the mechanism's privacy level."
            )
        return self.alpha is not None


def levels_of(text: str) -> list[Fraction]:
    """Parse levels such as "2/3,0.9". Raises InvalidParameterValue for an invalid α."""
    return sorted({checked_alpha(part.strip()) for part in text.split(",")})


def ranges_of(text: str) -> list[int]:
    """Parse ranges such as "2,4,8". Raises InvalidParameterValue for an invalid n."""
    try:
        return sorted({checked_range(int(part)) for part in text.split(",")})
    except ValueError:
        raise InvalidParameterValue(
            f'"{text}" is not a list of whole numbers', hint="Write --n 2,4,8."
        ) from None


def objective_of(text: str, weights: str | None = None) -> Objective:
    """Parse an objective such as "L0", "L0,1", "L1", "L2 max", and weights such as "1,2,0.5".

    Raises InvalidParameterValue for other text.
    """
    found = _OBJECTIVE.fullmatch(text.strip().upper())
    if found is None:
        raise InvalidParameterValue(
            f'there is no objective "{text}"', hint="Write L0, L0,1, L1 or L2, and sum or max."
        )
    return Objective(
        cast(Penalty, found[1]),
        beyond=int(found[2] or 0),
        aggregate="max" if found[3] == "MAX" else "sum",
        weights=None if weights is None else [part.strip() for part in weights.split(",")],
    )
