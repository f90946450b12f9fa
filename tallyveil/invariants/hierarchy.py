"""How asked rows add up to each other and to exact rows: as a hierarchy, or not at all.

A sum of asked rows is exact if it is constant on each set of cells of which only the total is
exact, and 0 where nothing is exact. So two cells are connected if an asked row holds both and no
asked row distinguishes them, or if only a total over both is exact. A connected component that
reaches no cell outside is exact, and so are sums of such components, and nothing else. If any two
asked rows are nested or disjoint, this is a tree (INVARIANTS §2.1, §5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.alike import run_starts
from tallyveil.invariants.laminar import Laminar
from tallyveil.invariants.modular import Modular
from tallyveil.invariants.span import JointRows, Span
from tallyveil.workload.classes import stacked
from tallyveil.workload.workload import Column

__all__ = ["Hierarchy", "hierarchy", "tied"]

_TOO_MANY: Final = "its rows and the invariants tell too many cells apart"
_OVERLAP: Final = "groups whose sums are exact overlap, and neither holds the other"


@dataclass(frozen=True)
class Hierarchy:
    """``parents[i]`` is the row around asked row i, −1 for none: each row around others is their
    sum. The asked rows are followed by sums of them that are exact. ``declared`` are the numbers of
    the declared rows from which these follow."""

    parents: tuple[int, ...]
    declared: tuple[int, ...]

    @property
    def ties(self) -> bool:
        """Whether any row is around others."""
        return any(parent >= 0 for parent in self.parents)


def hierarchy(columns: Sequence[Column], span: Span) -> Hierarchy | str:
    """The hierarchy of the columns' rows, none of which is exact; or the reason why there is none,
    as the end of a sentence."""
    joint = span.jointly(columns)
    if joint is None:
        return _TOO_MANY
    asked = Laminar.of(joint.asked) if (joint.asked.coefficients == 1).all() else None
    if asked is None:
        return "its rows are no counts of groups that are nested or disjoint"
    exact = Laminar.of(joint.declared)
    whole = exact is not None
    if exact is None:
        joint = _measured(joint, asked)
        exact = Laminar.of(joint.declared)
        if exact is None:
            return _OVERLAP
    parts = _exact_parts(asked, exact)
    found = _parents(asked, joint.asked.height, parts)
    if isinstance(found, str):
        return found
    ties = len({parent for parent in found if parent >= 0})
    if not whole and not _complete(span, columns, ties):
        return _OVERLAP
    met = np.unique(exact.owner[(exact.owner >= 0) & (asked.owner >= 0)])
    used = joint.numbers[met] if len(parts) else np.zeros(0, dtype=np.int64)
    return Hierarchy(tuple(found), tuple(used.tolist()))


def tied(columns: Sequence[Column], span: Span) -> bool | None:
    """Whether some rows of the columns, none of them exact, have a combination that is exact: if
    their rank and that of C exceed that of both together. None if they are too many."""
    certified = (span.combinations(column) for column in columns)
    missing = (np.array([one is None for one in own], dtype=np.bool_) for own in certified)
    open_ = [one.take(np.flatnonzero(own)) for one, own in zip(columns, missing, strict=True)]
    open_ = [column for column in open_ if column.height]
    if not open_:
        return False
    joint = span.jointly(open_)
    if joint is None:
        return None
    both, own = (
        Modular(part).rank for part in (stacked([joint.declared, joint.asked]), joint.asked)
    )
    return None if both is None or own is None else own + span.rank > both


def _measured(joint: JointRows, asked: Laminar) -> JointRows:
    """Keep only declared rows that are constant on cells that no asked row distinguishes."""
    declared, owner = joint.declared, asked.owner[joint.declared.cells]
    order = np.lexsort((owner, declared.rows))
    rows, owner = declared.rows[order], owner[order]
    starts = run_starts(rows, owner)
    lengths = np.diff(np.append(starts, len(rows)))
    cut = (owner[starts] < 0) | (lengths != asked.sizes[owner[starts]])
    kept = np.setdiff1d(np.arange(declared.height), rows[starts[cut]])
    return joint._replace(declared=declared.take(kept), numbers=joint.numbers[kept])


def _complete(span: Span, columns: Sequence[Column], ties: int) -> bool:
    """Whether there are all relations that the ranks require: k + rank C − rank (C, W)."""
    every = span.jointly(columns)
    if every is None:
        return False
    both = Modular(stacked([every.declared, every.asked])).rank
    return both is not None and every.asked.height + span.rank - both == ties


def _exact_parts(asked: Laminar, exact: Laminar) -> list[list[int]]:
    """Groups of asked rows whose own cells, in no row inside them, are connected and exact."""
    seen = np.flatnonzero((asked.owner >= 0) | (exact.owner >= 0))
    height, sets = len(asked.sizes), len(exact.sizes)
    outside = height + sets
    first = np.where(asked.owner[seen] >= 0, asked.owner[seen], outside)
    second = np.where(exact.owner[seen] >= 0, height + exact.owner[seen], outside)
    graph = sparse.coo_matrix(
        (np.ones(len(seen), dtype=np.int8), (first, second)), shape=(outside + 1, outside + 1)
    )
    _, label = csgraph.connected_components(graph, directed=False)
    parts: dict[int, list[int]] = {}
    for row in np.flatnonzero(asked.sizes).tolist():
        if label[row] != label[outside]:
            parts.setdefault(int(label[row]), []).append(row)
    return list(parts.values())


def _parents(asked: Laminar, height: int, parts: Sequence[Sequence[int]]) -> list[int] | str:
    """The parents of all rows, with another row for each exact sum. A row is tied to those inside
    it if it is their sum except for exact cells."""
    inside: list[list[int]] = [[] for _ in range(height)]
    for row, parent in enumerate(asked.parent.tolist()):
        if parent >= 0:
            inside[parent].append(row)
    alone = {part[0] for part in parts if len(part) == 1}
    tied = {row for row, own in enumerate(inside) if own and (row in alone or not asked.sizes[row])}
    sums = [part for part in parts if len(part) > 1 or part[0] not in tied]
    if any(inside[row] for part in sums for row in part):
        return "a sum that is exact has parts that nobody asked for by themselves"
    leaves = {row: _leaves(row, tied, inside) for row in tied}
    leaves |= {height + n: set(part) for n, part in enumerate(sums)}
    height += len(sums)
    parents, top = [-1] * height, list(range(height))
    size = dict.fromkeys(range(height), 1) | {row: len(own) for row, own in leaves.items()}
    for row, own in sorted(leaves.items(), key=lambda one: (len(one[1]), one[0])):
        deadline.check()
        tops = {top[leaf] for leaf in own}
        if sum(size[one] for one in tops) != len(own):
            return _OVERLAP
        for one in tops:
            parents[one] = row
        for leaf in own:
            top[leaf] = row
    return parents


def _leaves(row: int, tied: set[int], inside: Sequence[Sequence[int]]) -> set[int]:
    """The rows that add up to ``row`` and have no rows tied to them."""
    found, todo = set[int](), [row]
    while todo:
        deadline.check()
        here = todo.pop()
        if here in tied:
            todo += inside[here]
        else:
            found.add(here)
    return found
