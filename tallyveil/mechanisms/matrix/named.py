"""The count mechanisms that have a name in COUNT, for whoever asks for one by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.designing import choose
from tallyveil.mechanisms.matrix.explicit import (
    explicit_fair,
    geometric,
    randomised_response,
    uniform,
)
from tallyveil.mechanisms.matrix.exponential import exponential

__all__ = ["NAMED", "Named", "named"]


@dataclass(frozen=True)
class Named:
    """``make(n, α)`` gives the matrix on 0..n. α-DP holds for truths that differ by one, or, with
    ``any_two``, for any two truths. In SQL it is this ``family``, with these ``properties``; those
    without one are there to be compared with.
    """

    name: str
    title: str
    when: str
    make: Callable[[int, Fraction], CountMatrix]
    family: str | None = None
    properties: tuple[str, ...] = ()
    any_two: bool = False

    @property
    def guarantee(self) -> str:
        """What every matrix of this name guarantees, in a plain sentence."""
        pair = "any two truths differ" if self.any_two else "two truths one apart differ"
        return f"the probabilities of any output under {pair} by a factor of at most 1/alpha"


def named(name: str) -> Named:
    """By its name in COUNT or in SQL; upper and lower case are the same.

    Raises InvalidParameterValue for an unknown name.
    """
    found = NAMED.get(name.upper()) or next(
        (one for one in NAMED.values() if one.family == name.lower() and not one.properties), None
    )
    if found is None:
        raise InvalidParameterValue(
            f'there is no count mechanism "{name}"', hint=f"Known: {', '.join(NAMED)}."
        )
    return found


_WM: Final = ("wh", "rm", "cm")

NAMED: Final = {
    one.name: one
    for one in (
        Named(
            "GM",
            "clamped geometric",
            "the truth as often as can be, over all counts; much weight on 0 and n",
            geometric,
            "truncated_geometric",
        ),
        Named(
            "WH",
            "weakly honest",
            "no count is reported less often than by a guess",
            lambda n, alpha: choose(n, alpha, ["WH"]),
            "weakly_honest",
        ),
        Named(
            "WM",
            "weakly honest, monotone",
            "the same, and nearer outputs are never less likely",
            lambda n, alpha: choose(n, alpha, _WM),
            "designed",
            _WM,
        ),
        Named(
            "EM",
            "explicit fair",
            "every count is reported equally often; all seven properties, no solver",
            explicit_fair,
            "fair",
        ),
        Named(
            "RR",
            "k-ary randomised response, k = n+1",
            "hides the value itself, and errs accordingly",
            randomised_response,
            any_two=True,
        ),
        Named(
            "EXP",
            "exponential",
            "weight by the distance from the truth; weaker than what is made for the purpose",
            lambda n, alpha: exponential(n, alpha, lambda output, truth: -abs(output - truth)),
        ),
        Named("UM", "uniform", "a guess, the yardstick of L0 = 1", uniform, any_two=True),
    )
}
