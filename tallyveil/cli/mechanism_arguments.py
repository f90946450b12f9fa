"""What the mechanism commands read from text: levels, ranges, objectives."""

from __future__ import annotations

import re
from fractions import Fraction

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix import Objective, alpha_for
from tallyveil.mechanisms.matrix.objective import Penalty
from tallyveil.mechanisms.matrix.privacy_level import checked_alpha, checked_range

__all__ = ["level_of", "levels_of", "objective_of", "ranges_of"]

_OBJECTIVE = re.compile(r"(L[012])(?:,([0-9]{1,4}))?(?: +(SUM|MAX))?")


def level_of(alpha: str | None, epsilon: str | None) -> Fraction:
    """α, given as such or as ε. Raises InvalidParameterValue unless exactly one is given."""
    if alpha is not None and epsilon is None:
        return checked_alpha(alpha)
    if epsilon is not None and alpha is None:
        return alpha_for(epsilon)
    raise InvalidParameterValue(
        "a mechanism has one privacy level", hint="Give either --alpha or --epsilon."
    )


def levels_of(text: str) -> list[Fraction]:
    """From "2/3,0.9". Raises InvalidParameterValue for what is no α."""
    return sorted({checked_alpha(part.strip()) for part in text.split(",")})


def ranges_of(text: str) -> list[int]:
    """From "2,4,8". Raises InvalidParameterValue for what is no n."""
    try:
        return sorted({checked_range(int(part)) for part in text.split(",")})
    except ValueError:
        raise InvalidParameterValue(
            f'"{text}" is no list of whole numbers', hint="Write --n 2,4,8."
        ) from None


def objective_of(text: str) -> Objective:
    """From "L0", "L0,1", "L1", "L2 max". Raises InvalidParameterValue for other text."""
    found = _OBJECTIVE.fullmatch(text.strip().upper())
    if found is None:
        raise InvalidParameterValue(
            f'there is no objective "{text}"', hint="Write L0, L0,1, L1 or L2, and sum or max."
        )
    penalty: Penalty = found[1]  # type: ignore[assignment]
    beyond = int(found[2] or 0)
    return Objective(penalty, beyond=beyond, aggregate="max" if found[3] == "MAX" else "sum")
