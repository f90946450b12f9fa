"""The result of one check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

__all__ = ["FALSE_ALARM", "Finding", "charged_for_its_law", "number", "subject"]

# The false-alarm rate of each check on draws. A whole audit makes some hundred.
FALSE_ALARM: Final = 1e-9


@dataclass(frozen=True)
class Finding:
    """The result of a check: ``claim`` is the mechanism's guarantee, ``found`` what was computed.

    ``exact`` distinguishes proofs from tests on draws, which can only refute.
    """

    mechanism: str
    claim: str
    found: str
    holds: bool
    exact: bool


def number(value: Fraction | float) -> str:
    """Return the value rounded to six digits, for people."""
    return "infinity" if value == math.inf else f"{float(value):.6g}"


def subject(name: str, epsilon: Fraction) -> str:
    return f"{name} at epsilon {number(epsilon)}"


def charged_for_its_law(
    name: str, cost: Fraction, loss: Fraction | float, claim: Fraction
) -> Finding:
    """Check that the charge ``claim`` covers the law's ``loss``, and is at most ``cost``."""
    return Finding(
        name,
        f"charged for its law, at most {number(cost)}",
        f"loses {number(loss)}, charged {number(claim)}",
        loss <= claim <= cost,
        exact=True,
    )
