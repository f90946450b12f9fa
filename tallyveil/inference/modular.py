"""Whether an integer row is a rational combination of others, by elimination modulo primes.

Modulo a prime the ranks over the rationals go wrong only if the prime divides certain minors of
the matrix, about once in p for a random prime p. Two random primes of 20 bits must agree. Columns
are first replaced by random combinations of them, a few more than there are rows, which changes
neither answer but with probability of about p^{−32}. Products of residues below 2²⁰ are summed in
double precision, exactly for up to 8192 of them.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.inference.noise import FloatArray

__all__ = ["in_row_space"]

_BITS: Final = 20
_TERMS: Final = 4096
_BLOCK: Final = 64
_SPARE_COLUMNS: Final = 32


def in_row_space(rows: sparse.csr_matrix, row: FloatArray) -> bool:
    """Whether ``row`` is a rational combination of ``rows``, all of integers below 2⁵³."""
    stacked = sparse.vstack([rows, sparse.csr_matrix(row)], format="csr")
    seen: dict[bool, int] = {True: 0, False: 0}
    while max(seen.values()) < 2:
        seen[_last_reduces_to_zero(stacked, _random_prime())] += 1
    return seen[True] == 2


def _last_reduces_to_zero(stacked: sparse.csr_matrix, prime: int) -> bool:
    work = _sketch(stacked, prime)
    for start in range(0, len(work) - 1, _BLOCK):
        stop = min(start + _BLOCK, len(work) - 1)
        block, pivots = _reduced(work[start:stop], prime)
        rest = work[stop:]
        rest -= _mod(rest[:, pivots] @ block, prime)
        rest[:] = _mod(rest, prime)
    return not work[-1].any()


def _reduced(block: FloatArray, prime: int) -> tuple[FloatArray, list[int]]:
    """The block's reduced row echelon form, and the columns of its pivots."""
    block = block.copy()
    pivots: list[int] = []
    for row in range(len(block)):
        column = int(np.argmax(block[row] != 0))
        if not block[row, column]:
            continue
        block[row] = _mod(block[row] * pow(int(block[row, column]), -1, prime), prime)
        others = np.flatnonzero(block[:, column])
        others = others[others != row]
        block[others] = _mod(block[others] - np.outer(block[others, column], block[row]), prime)
        pivots.append(column)
    return block[block.any(axis=1)], pivots


def _sketch(stacked: sparse.csr_matrix, prime: int) -> FloatArray:
    height, width = stacked.shape
    wanted = height + _SPARE_COLUMNS
    generator = np.random.default_rng(secrets.randbits(128))
    total = np.zeros((height, min(width, wanted)))
    for start in range(0, width, _TERMS):
        part = _mod(stacked[:, start : start + _TERMS].toarray().astype(np.float64), prime)
        if width <= wanted:
            total[:, start : start + _TERMS] = part
        else:
            mix = generator.integers(0, prime, (part.shape[1], wanted)).astype(np.float64)
            total = _mod(total + _mod(part @ mix, prime), prime)
    return total


def _mod(values: FloatArray, prime: int) -> FloatArray:
    result: FloatArray = np.mod(values, prime)
    return result


def _random_prime() -> int:
    while True:
        n: int = secrets.randbits(_BITS - 2) * 2 + 1 + (1 << (_BITS - 1))
        if all(n % d for d in range(3, (1 << (_BITS // 2)) + 1, 2)):
            return n
