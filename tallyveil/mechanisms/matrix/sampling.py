"""Drawing from integer weights, exactly and without floats: many numbers at once.

By inversion, as `noise.inversion` has it: the output for a truth is the first i with U < C_i, where
U is uniform on [0, 1) and C_i the probability of the outputs 0 … i. 64 bits of U decide that but
once in 2⁵⁰ draws or so; then it is continued. The bounds for all truths are worked out together
(`CountMatrix.bounds`), and looked up in as many steps for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.noise.inversion import Bounds, decided, random_words

__all__ = ["draw"]


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
        found[at] = decided(int(words[at]), partial(_bounds, matrix, int(inside[at])))
    return tuple(found.tolist())


def _bounds(matrix: CountMatrix, truth: int, bits: int) -> Bounds:
    """Of the probabilities of the outputs 0 … i, as `decided` needs them."""
    pairs = [matrix.bounded(one, bits) for one in accumulate(matrix.weights[truth])]
    return [low for low, _ in pairs], [high for _, high in pairs]
