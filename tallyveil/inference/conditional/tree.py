"""A hierarchy of counts: which count is inside which, and each count's own noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyveil import deadline
from tallyveil.cache import cached_property
from tallyveil.inference.laws.noise_law import NoiseLaw

__all__ = ["Node", "Tree", "first_alike"]


@dataclass(frozen=True)
class Node:
    """A node of a tree, or its remainder in an atom. An ``exact`` node's noises add up to 0."""

    number: int
    law: NoiseLaw | None
    children: tuple[Node, ...] = ()

    @property
    def exact(self) -> bool:
        return self.law is not None and not self.law.scale

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        if not self.children:
            return (self.number,)
        return tuple(leaf for child in self.children for leaf in child.leaves)


@dataclass(frozen=True)
class Tree:
    """Each count is the sum of those inside it. ``parents[i]`` is the number of the count around
    count i, −1 for none. ``laws[i]`` is the law of its own noise: of scale 0 where the count is
    exact, None where it has none. A count with no other inside it is a leaf, and has a law.

    Raises ValueError if the parents make no tree, or a leaf has no law.
    """

    parents: tuple[int, ...]
    laws: tuple[NoiseLaw | None, ...]

    def __post_init__(self) -> None:
        size = len(self.parents)
        if len(self.laws) != size or not all(-1 <= p < size for p in self.parents):
            raise ValueError("every count has a law, or None, and a parent, or -1")
        if len(self.inside_out) != size:
            raise ValueError("no count is inside itself")
        if any(self.laws[leaf] is None for leaf in self.leaves):
            raise ValueError("every leaf has a law")

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.parents]
        for number, parent in enumerate(deadline.stoppable(self.parents)):
            if parent >= 0:
                found[parent].append(number)
        return tuple(map(tuple, found))

    @property
    def leaves(self) -> tuple[int, ...]:
        return tuple(number for number, own in enumerate(self.children) if not own)

    @cached_property
    def inside_out(self) -> tuple[int, ...]:
        """All counts, each after those inside it; counts on or below a cycle are missing."""
        found = [number for number, parent in enumerate(self.parents) if parent < 0]
        for number in deadline.stoppable(found):
            found.extend(self.children[number])
        return tuple(reversed(found))

    @cached_property
    def atoms(self) -> tuple[Node, ...]:
        """The trees whose noises are independent of each other. Each exact count is the root of a
        tree of its own, and left out of the one around it; so only roots can be exact. Counts
        without noise below them are left out."""
        found: list[Node] = []
        built: dict[int, Node | None] = {}
        for number in deadline.stoppable(self.inside_out):
            law, own = self.laws[number], self.children[number]
            inside = tuple(node for child in own if (node := built[child]) is not None)
            node = Node(number, law, inside) if inside or not own else None
            if node is not None and (node.exact or self.parents[number] < 0):
                if inside or not node.exact:
                    found.append(node)
                node = None
            built[number] = node
        return tuple(found)

    def sums(self, values: Sequence[int]) -> list[int]:
        """The sum for each count, from the values of the leaves in their order."""
        result = [0] * len(self.parents)
        for leaf, value in zip(self.leaves, values, strict=True):
            result[leaf] = value
        for number in self.inside_out:
            if self.parents[number] >= 0:
                result[self.parents[number]] += result[number]
        return result


def first_alike(parents: Sequence[int], laws: Sequence[NoiseLaw | None]) -> list[int]:
    """For each count of a tree the first count in the same position: with the same laws inside it
    and around it. Each count comes after the one around it."""
    inside: list[list[int]] = [[] for _ in parents]
    kinds, known = [0] * len(inside), dict[tuple[NoiseLaw | None, tuple[int, ...]], int]()
    for count in reversed(range(len(inside))):
        kind = laws[count], tuple(sorted(inside[count]))
        kinds[count] = known.setdefault(kind, len(known))
        if count:
            inside[parents[count]].append(kinds[count])
    firsts, found = dict[tuple[int, int], int](), list[int]()
    for count, parent in enumerate(parents):
        above = found[parent] if count else -1
        found.append(firsts.setdefault((above, kinds[count]), count))
    return found
