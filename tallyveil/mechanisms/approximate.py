"""(ε, δ)-differential privacy by way of pure ε.

What is ε′-DP with ε′ = ε − ln(1−δ) is (ε, δ)-DP: for any event

    P = (1−δ)P + δP ≤ (1−δ) e^{ε′} P′ + δ = e^ε P′ + δ.

This is the whole of METRIC Ex. 5: its Laplace noise of scale b = diam(D)/(ε − ln(1−δ)) is that of a
mechanism which is ε′-DP. Its Ex. 6, too, with p = (1−δ)/(m + e^ε), is randomised response at
ln((e^ε + mδ)/(1−δ)). So a ledger need not keep δs apart: charged for ε′ it composes them as pure
ε, and everything else it holds as before.

In a budget (ε_B, δ_B) that is kept in ρ one could charge ε²/2 instead of ε′²/2, and set δ apart
from δ_B. That would take more from the budget than it leaves: for ε_B from 0.1 to 10 and δ_B from
10⁻⁹ to 0.1 the ρ of (ε_B, δ_B − δ) is less than that of (ε_B, δ_B) by more than (ε′² − ε²)/2.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Final

from tallyveil.mechanisms.units import CONTEXT, below_one, decimal, positive

__all__ = ["pure_epsilon"]

_MARGIN: Final = Decimal("1e-50")


def pure_epsilon(epsilon: Fraction | str, delta: Fraction | str) -> Fraction:
    """ε − ln(1−δ), rounded down, but no less than ε.

    Raises InvalidParameterValue unless 0 < ε < ∞ and 0 < δ < 1.
    """
    exact, rest = positive(epsilon, "epsilon"), 1 - below_one(delta, "delta")
    with localcontext(CONTEXT):
        gained = -decimal(rest).ln() - _MARGIN
    return exact + max(Fraction(0), Fraction(gained))
