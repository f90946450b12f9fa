"""Conditioned noise by a Markov chain: TWO-VIEWS' M_MH, approximately the law of `conditioned`.

A step adds k to one leaf, or to one and −k to another, which keeps an exact root exact, where k is
uniform on ±1 … ±m; it is taken with probability min(1, P(new) / P(old)). Such moves connect all
whole numbers that satisfy the constraints. m is tuned before anything is kept. Several chains run
side by side from 0, and what they say of each count is compared: R̂ (Gelman & Rubin), over halves of
the chains, and the number of independent draws that theirs are worth (Geyer's initial positive
sequence).

However well these look, what a chain returns has the law only nearly, and by how much is unproved.
So it is known to be ε-differentially private for no ε, nothing releases it, and it carries a label.
It is here to be compared with what is drawn exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import DiscreteGaussianLaw
from tallyveil.inference.conditional.conditional import laws_of_atoms
from tallyveil.inference.conditional.tree import Tree
from tallyveil.mechanisms.constrained.law_weights import weights_of
from tallyveil.mechanisms.noise.exact_draws import random_words

__all__ = [
    "LEAST_EFFECTIVE",
    "MOST_R_HAT",
    "Approximate",
    "Chains",
    "effective_draws",
    "r_hat",
    "variances",
]

MOST_R_HAT: Final = 1.01
LEAST_EFFECTIVE: Final = 400.0
_FEW: Final = 4  # chains at least
_WANTED: Final = (0.25, 0.5)  # of all steps, how many are to be taken


@dataclass(frozen=True)
class Approximate:
    """``sums[c, t]`` are all counts' noise after sweep t of chain c; ``r_hat`` and ``effective``
    the worst of any count, ``taken`` the share of steps that were taken."""

    sums: IntArray
    r_hat: float
    effective: float
    taken: float
    label: str = "approximate: by a Markov chain, with no guarantee"

    @property
    def converged(self) -> bool:
        return self.r_hat < MOST_R_HAT and self.effective >= LEAST_EFFECTIVE

    def last(self) -> list[int]:
        """All counts' noise at the end of the first chain.

        Raises StatementTooComplex where the chains have not converged, or not long enough run.
        """
        if not self.converged:
            raise StatementTooComplex(
                f"the chains have not converged: R-hat is {self.r_hat:.3f}, and they are worth"
                f" {self.effective:.0f} independent draws",
                hint=f"An R-hat below {MOST_R_HAT} and {LEAST_EFFECTIVE:.0f} draws are needed: let"
                " them run longer.",
            )
        found: list[int] = self.sums[0, -1].tolist()
        return found


class Chains:
    """On one tree whose only exact count may be its root; ``number`` of them, 4 at least."""

    def __init__(self, tree: Tree, number: int = 16) -> None:
        (root,) = tree.atoms
        if number < _FEW:
            raise ValueError(f"so few chains cannot be compared: {number}")
        self._exact = root.exact
        if len(root.leaves) < 1 + self._exact:
            raise ValueError("nothing can move")
        self._places = np.array([tree.leaves.index(leaf) for leaf in root.leaves])
        units = np.eye(len(tree.leaves), dtype=np.int64)
        self._inside = np.array([tree.sums(one.tolist()) for one in units])
        self._linear, self._square = np.zeros(len(tree.parents)), np.zeros(len(tree.parents))
        for place, law in enumerate(tree.laws):
            if law is not None and law.scale:
                rate = float(weights_of(law).exponent([1]))
                gaussian = type(law) is DiscreteGaussianLaw
                (self._square if gaussian else self._linear)[place] = rate
        self._sums = np.zeros((number, len(tree.parents)), dtype=np.int64)
        self._most = 1

    def run(self, sweeps: int, *, first: int = 50) -> Approximate:
        """``first`` sweeps to tune m, a sweep being as many steps as there are leaves; then so many
        that are kept."""
        for _ in range(first):
            taken = self._sweep()
            if taken > _WANTED[1]:
                self._most += 1 + self._most // 4
            elif taken < _WANTED[0]:
                self._most = max(1, self._most - 1 - self._most // 4)
        kept, taken = np.empty((len(self._sums), sweeps, self._sums.shape[1]), np.int64), 0.0
        for sweep in range(sweeps):
            taken += self._sweep() / sweeps
            kept[:, sweep] = self._sums
        moving = np.flatnonzero(kept.any(axis=(0, 1)))
        series = kept[:, :, moving].astype(np.float64)
        return Approximate(
            kept,
            float(r_hat(series).max(initial=1.0)),
            float(effective_draws(series).min(initial=math.inf)),
            taken,
        )

    def _sweep(self) -> float:
        deadline.check()
        number, steps, leaves = len(self._sums), len(self._places), len(self._places)
        words = random_words(4 * steps * number).reshape(4, steps, number)
        one = (words[0] % np.uint64(leaves)).astype(np.int64)
        other = (one + 1 + (words[1] % np.uint64(max(1, leaves - 1))).astype(np.int64)) % leaves
        pairs = np.full(one.shape, self._exact) | (words[1] >> np.uint64(63) == 1)
        sizes = 1 + (words[2] % np.uint64(self._most)).astype(np.int64)
        sizes = np.where(words[2] >> np.uint64(63) == 1, -sizes, sizes)
        limits = -np.log((words[3].astype(np.float64) + 1) / 2**64)
        taken = 0
        for step in range(steps):
            moved = self._inside[self._places[one[step]]].copy()
            moved[pairs[step]] -= self._inside[self._places[other[step, pairs[step]]]]
            proposed = self._sums + sizes[step, :, None] * moved
            yes = self._height(proposed) - self._height(self._sums) <= limits[step]
            self._sums[yes] = proposed[yes]
            taken += int(yes.sum())
        return taken / (steps * number)

    def _height(self, sums: IntArray) -> FloatArray:
        """−ln P, up to a constant."""
        result: FloatArray = np.abs(sums) @ self._linear + (sums * sums) @ self._square
        return result


def r_hat(series: FloatArray) -> FloatArray:
    """√(((t − 1)/t W + B/t) / W) of each quantity, from ``series`` (chains, draws, quantities):
    each half of a chain is one of t draws, W is their mean variance, and B/t that of their means.
    """
    half = series.shape[1] // 2
    parts = np.concatenate([series[:, :half], series[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    result: FloatArray = np.sqrt((half - 1) / half + between / np.maximum(within, 1e-300))
    return result


def effective_draws(series: FloatArray) -> FloatArray:
    """Of each quantity, how many independent draws have a mean of the same variance: all draws over
    1 + 2 Σ ρ_t, with the autocorrelations ρ_t summed in pairs for as long as these are positive and
    do not grow."""
    chains, draws, quantities = series.shape
    centred = series - series.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * draws, axis=1)
    products = (
        np.fft.irfft(np.abs(spectrum) ** 2, 2 * draws, axis=1)[:, :draws].mean(axis=0) / draws
    )
    within = products[0] * draws / max(1, draws - 1)
    between = series.mean(axis=1).var(axis=0, ddof=1)
    total = np.maximum(products[0] + between, 1e-300)
    correlations = 1 - (within - products) / total
    even = draws - draws % 2
    pairs = correlations[:even].reshape(-1, 2, quantities).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0)
    falling = np.minimum.accumulate(np.where(positive > 0, pairs, 0.0), axis=0)
    time = np.maximum(2 * falling.sum(axis=0) - 1, 1 / math.log10(max(10, chains * draws)))
    result: FloatArray = chains * draws / time
    return result


def variances(tree: Tree) -> list[float]:
    """Of each count under the law itself, but for errors of doubles."""
    found = [0.0] * len(tree.parents)
    for root in tree.atoms:
        if root.law is not None and not root.children:
            found[root.number] = root.law.variance
    for _, law, places in laws_of_atoms(tree):
        for number, place in places.items():
            own = np.array([law.marginals[place]])
            found[number] = law.functional(own, np.ones(1)).variance
    return found
