"""Drawing a quantile or mode by the exponential mechanism, exactly (`statistics` has its law and
cost).

Row j has the weight e^{−d_j/2s} with d_j = max(0, L_j − q n, q n − L_j − E_j), here in units of
1/denominator(q); for a mode d_j = max E − E_j. The row is drawn by inversion, as in `exact_draws`:
bounds of the cumulative probabilities are computed to more bits until they decide. A weight is the
product of a tabled factor for each digit that d_j may have, to the base 16. So the number of steps
depends on the public number of rows alone, but where more bits are drawn.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Final

from tallyveil.mechanisms.noise.exact_draws import QuantileBounds, decided, exp_bits

__all__ = ["distances", "draw_mode", "draw_quantile"]

_GUARD: Final = 16
_RECORDS: Final = 31  # bits of the largest number of records
_DIGIT: Final = 4  # bits of a digit


def draw_quantile(counts: Sequence[int], q: Fraction, scale: float) -> int:
    """Draw the place of the q-quantile among rows with these counts, in order of their values."""
    return _draw(distances(counts, q), q.denominator, scale)


def draw_mode(counts: Sequence[int], scale: float) -> int:
    """Draw the place of the row with the largest count."""
    most = max(counts)
    return _draw([most - count for count in counts], 1, scale)


def _draw(far: Sequence[int], parts: int, scale: float) -> int:
    """Draw a place by distances in units of 1 / ``parts``."""
    least = min(far)
    rate = 1 / (2 * Fraction(scale) * parts)
    width = -(-(_RECORDS + parts.bit_length()) // _DIGIT)

    def bounds(bits: int) -> QuantileBounds:
        """As `decided` needs them. A product of w factors, each with an error of at most 1, has one
        of at most 2w."""
        fine = bits + _GUARD
        tables = _tables(rate, width, fine)
        sums = list(accumulate(_weight(distance - least, tables, fine) for distance in far))
        error = 2 * width * len(sums)
        low = [((one - error) << bits) // (sums[-1] + error) for one in sums]
        return low, [((one + error) << bits) // (sums[-1] - error) for one in sums]

    return decided(secrets.randbits(64), bounds)


def distances(counts: Sequence[int], q: Fraction) -> list[int]:
    """d_j · denominator(q) for each row j."""
    rank, parts = q.numerator * sum(counts), q.denominator
    above = [parts * total for total in accumulate(counts)]
    return [
        max(0, end - parts * own - rank, rank - end) for end, own in zip(above, counts, strict=True)
    ]


def _weight(distance: int, tables: Sequence[Sequence[int]], fine: int) -> int:
    weight = 1 << fine
    for k, table in enumerate(tables):
        weight = weight * table[distance >> _DIGIT * k & (1 << _DIGIT) - 1] >> fine
    return weight


@lru_cache(maxsize=64)
def _tables(rate: Fraction, width: int, fine: int) -> tuple[tuple[int, ...], ...]:
    """For each digit the factor of each of its values, 2^fine times as large."""
    places = (rate * 2 ** (_DIGIT * k) for k in range(width))
    return tuple(
        tuple(exp_bits(digit * place, fine) for digit in range(1 << _DIGIT)) for place in places
    )
