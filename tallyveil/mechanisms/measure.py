"""The measure of a privacy loss: ε of pure differential privacy, or ρ of zCDP.

A ledger uses one of the two. Both add up over releases, also adaptively chosen ones.

- ``epsilon``: Pr[M(x) ∈ S] ≤ e^ε Pr[M(x′) ∈ S] for all neighbours x, x′ and events S.
- ``rho``: D_a(M(x) ‖ M(x′)) ≤ ρa for all orders a > 1, D_a the Rényi divergence (Bun & Steinke
  2016, "Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds",
  Definition 1.1). Composition adds ρ (their Lemma 1.7).

In a ledger of ρ, an output i with noise of scale s_i costs the cell j

    C_ij² / (2 s_i²)

whether the noise is discrete Gaussian, s_i = σ_i (Canonne, Kamath & Steinke 2020, "The Discrete
Gaussian for Differential Privacy", Theorem 4), or discrete Laplace, s_i = b_i: output i alone is
|C_ij|/b_i-DP, hence C_ij²/(2b_i²)-zCDP (Bun & Steinke, Proposition 1.4), and the Rényi divergence
of independent outputs is the sum of theirs (van Erven & Harremoës 2014, Theorem 28). That is less
than (Σ_i |C_ij|/b_i)²/2, what the release costs as one of (Σ_i |C_ij|/b_i)-DP.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["MEASURES", "Measure", "power"]

Measure: TypeAlias = Literal["epsilon", "rho"]

MEASURES: Final[tuple[Measure, ...]] = ("epsilon", "rho")


def power(measure: Measure) -> int:
    """Return the p in Σ_i |C_ij|^p · rate_i: 1 for ε, 2 for ρ."""
    return 1 if measure == "epsilon" else 2
