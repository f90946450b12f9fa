"""Proofs of differential privacy in exact arithmetic, by going through all neighbours.

The integers are the law itself, so what is proved here holds for what is released. Neighbours are
adjacent columns: truths that differ by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from tallyveil.errors import UnprovenPrivacy
from tallyveil.mechanisms.matrix.privacy_level import checked_alpha

__all__ = ["Weights", "prove_pure"]

Weights = Sequence[Sequence[int]]


def prove_pure(weights: Weights, alpha: Fraction | float | str) -> None:
    """α · w[j][i] ≤ w[j+1][i] and α · w[j+1][i] ≤ w[j][i] for all i, j (COUNT Def. 2).

    Singletons suffice: the outputs are finitely many, and sums of terms keep the ratio.

    Raises UnprovenPrivacy, saying which output of which truths fails, if the ratio does, and if
    the weights are not integers ≥ 0 in columns of one length and one positive total.
    """
    level = checked_alpha(alpha)
    p, q = level.numerator, level.denominator
    columns = [*map(tuple, weights)]  # held, so that no two integers have one identity
    _columns_of_one_total(columns)
    proved: set[tuple[int, int]] = set()  # the same two integers stand at many places
    for j, (here, there) in enumerate(pairwise(columns)):
        new = set(zip(map(id, here), map(id, there), strict=True)) - proved
        for i, (a, b) in enumerate(zip(here, there, strict=True) if new else ()):
            if (id(a), id(b)) in new and not (p * a <= q * b and p * b <= q * a):
                raise UnprovenPrivacy(
                    f"output {i} tells truth {j} from {j + 1} by more than alpha {level} allows"
                )
        proved |= new


def _columns_of_one_total(weights: Weights) -> int:
    """The common total."""
    if len(weights) < 2:
        raise UnprovenPrivacy("a mechanism has at least two truths")
    outputs, total = len(weights[0]), sum(weights[0])
    for j, column in enumerate(weights):
        if len(column) != outputs:
            raise UnprovenPrivacy(f"truth {j} has {len(column)} outputs, not {outputs}")
        if {*map(type, column)} - {int} or min(column, default=0) < 0:
            raise UnprovenPrivacy(f"a weight of truth {j} is not an integer of at least zero")
        if sum(column) != total:
            raise UnprovenPrivacy(f"the weights of truth {j} have another total than those of 0")
    if not total > 0:
        raise UnprovenPrivacy("some weight has to be above zero")
    return total
