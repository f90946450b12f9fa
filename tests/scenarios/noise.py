"""Noise that is known before: none, or the numbers that a scenario gives, one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tallyveil.mechanisms import counts, statistics
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.quantile_draw import distances

__all__ = ["injected"]


@contextmanager
def injected(numbers: Sequence[int]) -> Iterator[None]:
    """Every draw takes the next of ``numbers``, again and again. What is drawn under conditions is
    0, since these numbers would not meet them."""
    endless = itertools.cycle(numbers or [0])

    def perturbed(_: Additive, column: Sequence[int], scale: float) -> tuple[int, ...]:
        return tuple(map(sum, zip(column, endless, strict=False)))

    def in_range(matrix: CountMatrix, truths: Sequence[int]) -> tuple[int, ...]:
        return tuple(np.clip(np.add(truths, next(endless)), 0, matrix.n).tolist())

    def together(noise: Any) -> list[int]:
        return [0] * len(noise._tree.leaves)

    def nearest(counts: Sequence[int], q: Fraction, _: float) -> int:
        """The quantile itself, of two the first."""
        far = distances(counts, q)
        return far.index(min(far))

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (Additive, "_perturbed", perturbed),
        (counts, "draw", in_range),
        (Conditioned, "draw", together),
        (statistics, "draw_quantile", nearest),
        (statistics, "draw_mode", lambda counts, _: counts.index(max(counts))),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, draw in replaced:
            patch.setattr(owner, name, draw)
        yield
