"""The sum T of the geometric numbers that noises of a known total are made of, drawn exactly.

A discrete Laplace number is the difference G − G′ of two independent geometric ones, with weights
a^g, a = e^{−1/b}. Given that n of these noises add up to 0, all G and all G′ have one sum:

    P(T = t) = C(n+t−1, t)² a^{2t} / Σ_s C(n+s−1, s)² a^{2s},

and given T, each division of it among the G is equally likely, and among the G′ (INVARIANTS §5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Final

from tallyveil import deadline
from tallyveil.mechanisms.units import decimal

__all__ = ["LEAST_SCALE", "MOST", "inverted", "law_of_total", "total"]

MOST: Final = 1_000_000  # steps of computing T
LEAST_SCALE: Final = 0.125
_CHUNK: Final = 1 << 12


def total(words: Iterator[int], cells: int, scale: float) -> int:
    """Return T for ``cells`` noises of scale b ≥ `LEAST_SCALE`, from secret random 64-bit words."""
    if cells == 1:
        return 0
    # The error of q is 1 + 2/b units, that of 1 − q b + 2, and that of its power 2n times as much.
    return inverted(words, partial(law_of_total, cells, scale), cells * (int(scale) + 16))


def law_of_total(cells: int, scale: float) -> Iterator[Decimal]:
    """Yield P(T = 0), P(T = 1), …, in the precision of the context."""
    q = decimal(-2 / Fraction(scale)).exp()
    # Σ_s C(n+s−1, s)² q^s = (1−q)^{1−2n} Σ_{k<n} C(n−1, k)² q^k, by Euler.
    term = whole = Decimal(1)
    for k in range(cells - 1):
        term = term * q * (cells - 1 - k) ** 2 / (k + 1) ** 2
        whole += term
    chance, t = (1 - q) ** (2 * cells - 1) / whole, 0
    while True:
        yield chance
        chance = chance * q * (cells + t) ** 2 / (t + 1) ** 2
        t += 1


def inverted(words: Iterator[int], law: Callable[[], Iterator[Decimal]], errors: int) -> int:
    """Return the least t with U < F(t), where ``words`` are the bits of U.

    ``law`` yields the probabilities of 0, 1, …, in the precision of the context; each has an error
    of less than 4 (errors + 2t + 4) units in the last place.
    """
    word, count = next(words), 64
    while True:
        with localcontext(prec=count // 3 + 40, Emax=MAX_EMAX, Emin=MIN_EMIN) as context:
            unit = Decimal(8).scaleb(1 - context.prec)
            low, high = Decimal(word) / (1 << count), Decimal(word + 1) / (1 << count)
            found = Decimal(0)
            for t, chance in enumerate(law()):
                found += chance
                room = found * (unit * (errors + 2 * t + 8))
                if high <= found - room:
                    return t
                if low < found + room:
                    break  # more bits, or more digits, are needed
                if not t % _CHUNK:
                    deadline.check()
        word, count = word << 64 | next(words), count + 64
