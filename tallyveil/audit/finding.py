"""What one check says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

__all__ = ["FALSE_ALARM", "Finding", "charged_for_its_law", "number", "subject"]

# Of each check on draws. A whole audit makes some hundred.
FALSE_ALARM: Final = 1e-9


@dataclass(frozen=True)
class Finding:
    """``claim`` is what ``mechanism`` says of itself, ``found`` what the check came to.

    ``exact`` tells a proof from a test on draws, which can only refute.
    """

    mechanism: str
    claim: str
    found: str
    holds: bool
    exact: bool


def number(value: Fraction | float) -> str:
    """Six digits, cut off by rounding to the nearest; for people."""
    return "infinity" if value == math.inf else f"{float(value):.6g}"


def subject(name: str, epsilon: Fraction) -> str:
    return f"{name} at epsilon {number(epsilon)}"


def charged_for_its_law(
    name: str, cost: Fraction, loss: Fraction | float, claim: Fraction
) -> Finding:
    """Whether what the law loses is charged, and no more than ``cost``."""
    return Finding(
        name,
        f"charged for its law, at most {number(cost)}",
        f"loses {number(loss)}, charged {number(claim)}",
        loss <= claim <= cost,
        exact=True,
    )
