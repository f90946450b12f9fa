"""What noise on a tree of counts says of itself, whichever view it takes of the constraints."""

from __future__ import annotations

from typing import Protocol

from tallyveil.inference.tree import Tree

__all__ = ["JointNoise"]


class JointNoise(Protocol):
    """Is built from a tree, which may take time, and drawn from by many threads.

    x + u adds up as the tree's counts do, exact counts stay exact, and u is independent of x. What
    it costs to move records among cells is what the tree's own noises cost together
    (`Tree.epsilon`, `Tree.rho`), for tables that agree on what is exact.
    """

    def __init__(self, tree: Tree) -> None: ...

    def draw(self) -> list[int]:
        """u: one whole number for each leaf, in the tree's order."""
        ...
