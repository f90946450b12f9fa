"""Noise on a tree of counts, moved to where they add up (belief update).

Each count has independent noise e; what is released is the nearest to x + e that adds up, in the
metric of the variances, which is x + Π e: post-processing, so it costs what the noises cost. Whole
numbers come from it by one uniform u for the whole tree, z_i = ⌊S_i + u⌋ − ⌊S_{i−1} + u⌋ with
prefix sums S of the leaves, in an order in which those inside a count stand together: each count is
less than 1 off, exact ones are exact, and nothing is rounded up more often than its fraction says.
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray
from tallyveil.errors import FeatureNotSupported
from tallyveil.inference.conditional.tree import Tree
from tallyveil.inference.estimates.consistent_values import projected
from tallyveil.mechanisms.constrained.law_weights import weights_of

__all__ = ["Imaged"]

_DIGITS = 9  # of prefix sums, so that what differs by errors of doubles is rounded alike


class Imaged:
    """The noise of a tree whose counts all have noise of their own, or are exact.

    Raises FeatureNotSupported for a count that has neither.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        if None in tree.laws:
            raise FeatureNotSupported("a count without noise cannot be moved to the nearest sum")
        self._laws = [law for law in tree.laws if law is not None]
        self._variances = np.array([law.variance for law in self._laws])
        inner = [number for number, own in enumerate(tree.children) if own]
        rows = [(line, n, -1) for line, n in enumerate(inner)]
        rows += [(line, child, 1) for line, n in enumerate(inner) for child in tree.children[n]]
        line, place, sign = (np.array(each) for each in zip(*rows, strict=True))
        shape = (len(inner), len(tree.parents))
        self._relations = sparse.csr_matrix((sign, (line, place)), shape=shape)

    def draw_real(self) -> FloatArray:
        """Π e for every count, of a new e."""
        noise = np.zeros(len(self._laws))
        for law in dict.fromkeys(self._laws):
            if law.scale:
                places = [n for n, own in enumerate(self._laws) if own == law]
                noise[places] = weights_of(law).draw(len(places))
        return self.moved(noise)

    def moved(self, noise: FloatArray) -> FloatArray:
        """Π e."""
        none = np.zeros(self._relations.shape[0])
        found = projected(self._relations, none, noise, self._variances)
        if found is None:
            raise ArithmeticError("no nearest sums were found")
        return found

    def draw(self) -> list[int]:
        """Whole numbers for the leaves, in the tree's order."""
        return self.rounded(self.draw_real(), secrets.randbits(53) / 2**53)

    def rounded(self, values: FloatArray, u: float) -> list[int]:
        """Of values that add up; the prefix sums begin anew in what is exact."""
        tree, found = self._tree, dict[int, int]()
        for atom in tree.atoms:
            total, before = 0.0, math.floor(u)
            for leaf in atom.leaves:
                total += float(values[leaf])
                here = math.floor(round(total, _DIGITS) + u)
                found[leaf], before = here - before, here
        return [found.get(leaf, 0) for leaf in tree.leaves]
