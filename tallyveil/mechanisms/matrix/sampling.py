"""Drawing from integer weights, exactly and without floats: many numbers at once.

By inversion, as `noise.inversion` has it: the output for a truth is the first i with U < C_i, where
U is uniform on [0, 1) and C_i the probability of the outputs 0 … i. 64 bits of U decide that but
once in 2⁵⁰ draws or so; then it is continued. The bounds for all truths are worked out together
(`CountMatrix.bounds`), and looked up in as many steps for each.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.noise.inversion import random_words

__all__ = ["draw"]

_WORD = 64


def draw(matrix: CountMatrix, truths: Sequence[int]) -> tuple[int, ...]:
    """An output for each truth, with probability P[output | truth] to the last bit.

    A truth outside 0..n is first moved to the nearer end, which brings no two truths further
    apart, so that the guarantee stays: a step of one costs at most ``matrix.epsilon``.
    """
    inside = np.array([min(max(truth, 0), matrix.n) for truth in truths], dtype=np.int64)
    low, high = matrix.bounds
    words = random_words(len(inside))
    found = np.zeros(len(inside), dtype=np.int64)
    step = high.shape[1]
    while step := step // 2:
        found += step * (high[inside, found + (step - 1)] < words)
    for at in np.flatnonzero(low[inside, found] <= words):
        found[at] = _decided(matrix, int(inside[at]), int(words[at]))
    return tuple(found.tolist())


def _decided(matrix: CountMatrix, truth: int, word: int) -> int:
    """The output for a U that begins with ``word``."""
    sums, bits = list(accumulate(matrix.weights[truth])), _WORD
    while True:
        word, bits = word << _WORD | secrets.randbits(_WORD), bits + _WORD
        # The output is the same for the least and for the largest U that begins like this.
        first = bisect_right(sums, word * matrix.total >> bits)
        if first == bisect_right(sums, ((word + 1) * matrix.total - 1) >> bits):
            return first
