"""The least error that any private mechanism for one value can have (METRIC §6)."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["diameter_bound", "least_error", "packing_bound"]


def diameter_bound(diameter: float, epsilon: Fraction | float) -> float:
    """Return diam(D) / (2(1 + e^ε)), a lower bound of max_d E[ρ(X_d, d)] (METRIC Thm 6, δ = 0)."""
    # With e^−ε nothing overflows.
    shrink = math.exp(-float(epsilon))
    return diameter * shrink / (2 * (1 + shrink))


def packing_bound(cells: int, epsilon: Fraction | float, nearest: float = 1.0) -> float:
    """Return κm / (m + e^ε), a lower bound for |D| = m + 1 values at least κ = ``nearest`` apart
    (METRIC Thm 7, δ = 0).

    Randomised response attains it in the discrete metric (METRIC Ex. 7).
    """
    weight = (cells - 1) * math.exp(-float(epsilon))
    return nearest * weight / (weight + 1)


def least_error(cells: int, diameter: float, epsilon: Fraction | float) -> float:
    """Return the larger of both bounds, in steps, for values at least one step apart."""
    return max(
        diameter_bound(diameter, epsilon) if cells > 1 else 0.0, packing_bound(cells, epsilon)
    )
