"""The count mechanisms that have a name in COUNT, for statements that name one."""

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
    """A count mechanism; ``make(n, α)`` returns its matrix on 0..n.

    α-DP holds for truths that differ by one, or, with ``any_two``, for any two truths. ``family``
    and ``properties`` are its name in SQL; without a family it is for comparison only.
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
        """The guarantee of every matrix of this name, as a plain sentence."""
        pair = "any two truths differ" if self.any_two else "two truths one apart differ"
        return f"the probabilities of any output under {pair} by a factor of at most 1/alpha"


def named(name: str) -> Named:
    """Look up a mechanism by its name in COUNT or in SQL, in upper or lower case.

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
            "most likely to report the truth, averaged over all counts; often reports 0 or n",
            geometric,
            "truncated_geometric",
        ),
        Named(
            "WH",
            "weakly honest",
            "the truth is at least as likely as in a uniform guess",
            lambda n, alpha: choose(n, alpha, ["WH"]),
            "weakly_honest",
        ),
        Named(
            "WM",
            "weakly honest, monotone",
            "as WH, and outputs nearer to the truth are never less likely",
            lambda n, alpha: choose(n, alpha, _WM),
            "designed",
            _WM,
        ),
        Named(
            "EM",
            "explicit fair",
            "the truth is equally likely for every count; all seven properties, no solver",
            explicit_fair,
            "fair",
        ),
        Named(
            "RR",
            "k-ary randomised response, k = n+1",
            "hides the value itself, so errors are large",
            randomised_response,
            any_two=True,
        ),
        Named(
            "EXP",
            "exponential",
            "weights by the distance from the truth; less accurate than the others for counts",
            lambda n, alpha: exponential(n, alpha, lambda output, truth: -abs(output - truth)),
        ),
        Named("UM", "uniform", "a uniform guess, the reference with L0 = 1", uniform, any_two=True),
    )
}
