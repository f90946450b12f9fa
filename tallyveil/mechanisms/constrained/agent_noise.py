"""Noise that several agents derive from one secret, and that adds up to 0 over all of them.

The cells of one group, whose total is published exactly, are divided among agents. The noise has
the law of `conditioned` with an exact root, that of independent discrete Laplace noises given that
they add up to 0 (INVARIANTS §5.1, §7), and each agent draws what its own cells get.

The noise of n cells is drawn as the sum T of the geometric numbers it is made of (`group_total`),
and

    how T divides among the agents:  P(k of m) = C(n₁+k−1, k) C(n₂+m−k−1, m−k) / C(n₁+n₂+m−1, m);
    how an agent's part divides among its cells: each division is equally likely,

both for G and for G′ by themselves.

All agents must compute the same T and the same division. So every number depends on the key's bits
alone. They are read as the binary digits of a U in [0, 1); with F the exact distribution function,
the number is the least t with U < F(t). Sums are computed to as many digits as are needed to decide
this; no floats, and so no rounding of a processor, are involved. The key of each step is derived
from the release's key by HKDF, with the step's name: none of them reveals anything about another.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tallyveil.errors import StatementTooComplex
from tallyveil.mechanisms.constrained.group_total import LEAST_SCALE, MOST, inverted, total

__all__ = ["SharedNoise", "derived"]

_CHUNK: Final = 1 << 12


def derived(key: bytes, *name: str | int) -> bytes:
    """Return 32 bytes that reveal nothing about the key, or about the bytes of another name."""
    info = json.dumps(["tallyveil agents", 1, *name]).encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(key)


class SharedNoise:
    """The noise of the cells of one ``group``, the same for all holders of the release's key.

    ``sizes`` are the numbers of cells of each agent, and ``scale`` is b.

    Raises StatementTooComplex if there are too many cells, or too large a scale, to compute T.
    """

    def __init__(self, key: bytes, group: str, sizes: Sequence[int], scale: float) -> None:
        self._key, self._group, self._sizes, self._scale = key, group, tuple(sizes), scale
        self.check(sum(sizes), scale)

    @staticmethod
    def check(cells: int, scale: float) -> None:
        """Raises StatementTooComplex as the constructor."""
        if not (scale >= LEAST_SCALE and cells * (scale + 1) <= MOST):
            raise StatementTooComplex(
                f"{cells:,} counts that add up cannot be given noise of scale {scale:g} by agents",
                hint=f"The scale must be at least {LEAST_SCALE}, and scale times counts at most"
                f" {MOST:,}: count by fewer attributes, or choose another epsilon.",
            )

    def part(self, agent: int) -> list[int]:
        """Return the noise of an agent's cells, in their order.

        Computes the divisions up to that agent, and nothing for the cells of others.
        """
        if not self._sizes[agent]:
            return []
        over = under = total(self._bits("total").words, sum(self._sizes), self._scale)
        for place in range(agent + 1):
            own, rest = self._sizes[place], sum(self._sizes[place + 1 :])
            bits = self._bits("agent", place)
            mine = _share(bits, over, own, rest), _share(bits, under, own, rest)
            over, under = over - mine[0], under - mine[1]
        bits = self._bits("cells", agent)
        plus, minus = (_division(bits, sum_, self._sizes[agent]) for sum_ in mine)
        return [more - less for more, less in zip(plus, minus, strict=True)]

    def _bits(self, *step: str | int) -> _Bits:
        return _Bits(derived(self._key, self._group, *step))


def _share(bits: _Bits, total: int, own: int, rest: int) -> int:
    """Draw how much of ``total`` the first ``own`` of ``own + rest`` cells get."""
    if not own or not total:
        return 0
    if not rest:
        return total

    def law() -> Iterator[Decimal]:
        chance = Decimal(1)
        for i in range(own):
            chance = chance * (rest + i) / (rest + total + i)
        for k in range(total):
            yield chance
            chance = chance * ((own + k) * (total - k)) / ((k + 1) * (rest + total - k - 1))
        yield chance

    return inverted(bits.words, law, own)


def _division(bits: _Bits, total: int, cells: int) -> list[int]:
    """Divide ``total`` among cells, each division equally likely.

    The parts are the gaps between ``cells − 1`` distinct ones of ``total + cells − 1`` places,
    which are chosen by Floyd's algorithm.
    """
    places = total + cells - 1
    chosen: set[int] = set()
    for last in range(total, places):
        drawn = bits.below(last + 1)
        chosen.add(last if drawn in chosen else drawn)
    ends = [-1, *sorted(chosen), places]
    return [after - before - 1 for before, after in itertools.pairwise(ends)]


class _Bits:
    """The key stream of ChaCha20. A key is used for one stream, so its nonce is 0."""

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        self._ready, self._at = b"", 0

    def take(self, count: int) -> int:
        """Return the next ``count`` bits, a multiple of 8, as an integer."""
        size = count // 8
        if self._at + size > len(self._ready):
            more = self._stream.update(bytes(max(size, _CHUNK)))
            self._ready, self._at = self._ready[self._at :] + more, 0
        self._at += size
        return int.from_bytes(self._ready[self._at - size : self._at], "big")

    @property
    def words(self) -> Iterator[int]:
        """Yield 64 bits at a time, without end."""
        return iter(partial(self.take, 64), None)

    def below(self, bound: int) -> int:
        """Draw one of 0 … bound − 1, all equally likely."""
        width = (bound - 1).bit_length()
        count = (width + 7) // 8 * 8
        while True:
            drawn = self.take(count) >> count - width
            if drawn < bound:
                return drawn
