"""The joint law of a charge whose noise is drawn together, as the ledger records it for good.

A `Joint` names a law and has its public parameters; the scales are the charge's. `Joint.drawn` has
what estimates and drawing need. Every law it can have is dominated by independent noise of the
charge's law (`inference.conditional.weighted_draw`), and costs no more than that does, for tables
that agree on what is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.cache import Cache, cached_property
from tallyveil.errors import LedgerError
from tallyveil.inference import NoiseLaw
from tallyveil.inference.conditional.conditional import ConditionalLaw, laws_of_atoms
from tallyveil.inference.conditional.tree import Tree
from tallyveil.mechanisms import CONDITIONED

__all__ = ["Drawn", "Joint"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Row i of a charge has place ``places[i]`` in the draw ``owners[i]``, numbered from 0; −1 for
    an independent row. ``laws`` are those of the draws. The noises add up in the ``tree``.
    """

    owners: IntArray
    places: IntArray
    laws: tuple[ConditionalLaw, ...]
    tree: Tree

    @cached_property
    def marginals(self) -> tuple[IntArray, tuple[tuple[ConditionalLaw, int], ...]]:
        """For each row the number of its noise's marginal law, −1 if independent; and for each of
        these laws a draw and a place in it."""
        found: dict[tuple[int, int], int] = {}
        laws = list[tuple[ConditionalLaw, int]]()
        numbers = np.full(len(self.owners), -1, dtype=np.int64)
        for row in np.flatnonzero(self.owners >= 0).tolist():
            law = self.laws[self.owners[row]]
            place = int(law.marginals[self.places[row]])
            number = found.setdefault((law.number, place), len(laws))
            if number == len(laws):
                laws.append((law, place))
            numbers[row] = number
        return numbers, tuple(laws)


@dataclass(frozen=True)
class Joint:
    """The law ``name``: independent noise under the condition that it adds up as the rows do
    (`inference.conditional.conditional`). ``rows`` is the charge's number of rows. ``parents[i]``
    is the number of the row around row i, −1 for none: each row with rows inside it is the sum of
    these. Numbers from ``rows`` on are exact rows.

    Raises LedgerError for a law that this program does not know.
    """

    name: str
    rows: int
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.name != CONDITIONED:
            raise LedgerError(
                f"noise in the ledger was drawn together by a law this program does not know:"
                f" {self.name}"
            )

    def drawn(self, laws: Sequence[NoiseLaw | None]) -> Drawn:
        """The draws, where the rows' own noise has these laws."""
        own = tuple(laws)
        return _KEPT.get((self, own), lambda: _drawn(self, own))


_KEPT: Final[Cache[Drawn]] = Cache(64, 1 << 26, lambda _, drawn: _ROW * len(drawn.owners))
_ROW: Final = 220  # bytes


def _drawn(joint: Joint, laws: tuple[NoiseLaw | None, ...]) -> Drawn:
    exact = [type(law)(0.0) for law in laws if law is not None][:1]
    tree = Tree(joint.parents, (*laws, *exact * (len(joint.parents) - joint.rows)))
    owners, places = np.full((2, joint.rows), -1, dtype=np.int64)
    atoms = laws_of_atoms(tree)
    for number, (_, _, inside) in enumerate(atoms):
        for row, place in inside.items():
            if row < joint.rows:
                owners[row], places[row] = number, place
    return Drawn(owners, places, tuple(law for _, law, _ in atoms), tree)
