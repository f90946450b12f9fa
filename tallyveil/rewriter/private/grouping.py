"""GROUP BY: its keys, the grouping sets of ROLLUP, CUBE and GROUPING SETS, and which sets are
released.

Every record counts once in each set, so releasing m sets at a given cost takes noise of m times
the scale. A set that is summed from a finer one takes no noise of its own: its groups add up the
noise of the finer groups. If a row of the coarser set has F rows of the finer one on average, and
one set released at the whole cost has unit variance, the mean variances are

    m²        of a set that is one of m released,
    m² · F    of one that is summed up.

The released sets are chosen to make the sum of these over all sets small: first every set that no
other contains, then, one by one, the set that lowers the sum most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil.arrays import IntArray
from tallyveil.errors import FeatureNotSupported, InvalidColumnReference, StatementTooComplex
from tallyveil.rewriter.domain.linearise import groups
from tallyveil.rewriter.resolve.branches import FIELD
from tallyveil.rewriter.resolve.record_queries import is_aggregate, level_nodes, own_nodes
from tallyveil.rewriter.sql.nodes import position

__all__ = ["Grouping", "choose_sources", "coarser_rows", "grouping"]


MAX_SETS: Final = 64

_Set = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Grouping:
    """The distinct ``keys``, and for each set the numbers of its keys. One set is a plain GROUP BY.
    Equal sets may occur, and each gives rows of its own.
    """

    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]

    @property
    def several(self) -> bool:
        """Whether there is not one set only, so that rows may lack keys and GROUPING() matters."""
        return self.sets != (tuple(range(len(self.keys))),)


def grouping(select: exp.Select) -> Grouping:
    """The grouping sets of a SELECT; only () if it groups nothing.

    Raises InvalidColumnReference for a position outside the SELECT list, StatementTooComplex beyond
    MAX_SETS, and FeatureNotSupported for two columns with the same value in different sets.
    """
    group = select.args.get("group")
    items = [item.unalias() for item in select.expressions]
    if group is None:
        distinct = select.args.get("distinct") is not None
        listed = distinct and not any(is_aggregate(node) for node in own_nodes(select))
        return _numbered([tuple(items) if listed else ()])
    if group.args.get("all"):
        keys = (item for item in items if not any(map(is_aggregate, level_nodes(item))))
        return _numbered([tuple(keys)])
    sets: list[_Set] = [()]
    for part in group.expressions:
        sets = _product(sets, _sets(part, items), group)
    return _numbered(sets)


def _sets(part: exp.Expr, items: Sequence[exp.Expr]) -> list[_Set]:
    """The sets of one item of GROUP BY, by which it multiplies the sets of the others."""
    if isinstance(part, exp.GroupingSets):
        sets: list[_Set] = []
        for element in part.expressions:
            sets += _sets(element, items)
            if len(sets) > MAX_SETS:
                raise _too_many(part)
        return sets
    if not isinstance(part, exp.Rollup | exp.Cube):
        return [_element(part, items)]
    elements = [_element(element, items) for element in part.expressions]
    if isinstance(part, exp.Rollup):
        if len(elements) >= MAX_SETS:
            raise _too_many(part)
        return [_joined(elements[:length]) for length in range(len(elements), -1, -1)]
    if 2 ** len(elements) > MAX_SETS:
        raise _too_many(part)
    lengths = range(len(elements), -1, -1)
    return [_joined(chosen) for n in lengths for chosen in combinations(elements, n)]


def _element(part: exp.Expr, items: Sequence[exp.Expr]) -> _Set:
    """The set of one key, or of several in brackets."""
    whole = _bare(part)
    keys = whole.expressions if isinstance(whole, exp.Tuple) else [whole]
    return tuple(_key(key, items) for key in keys)


def _bare(key: exp.Expr) -> exp.Expr:
    """The key without brackets around it. A query keeps its own."""
    while isinstance(key, exp.Paren):
        key = key.this
    return key


def _key(key: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
    if not isinstance(key, exp.Literal) or key.is_string or key.meta_get("named"):
        return key
    number = int(key.this) if key.this.isdigit() else 0
    if not 1 <= number <= len(items):
        raise InvalidColumnReference(
            f"GROUP BY position {key.this} is not in select list", position=position(key)
        )
    return items[number - 1]


def _joined(elements: Sequence[_Set]) -> _Set:
    return tuple(key for element in elements for key in element)


def _product(left: list[_Set], right: list[_Set], group: exp.Expr) -> list[_Set]:
    if len(left) * len(right) > MAX_SETS:
        raise _too_many(group)
    return [(*one, *other) for one in left for other in right]


def _too_many(node: exp.Expr) -> StatementTooComplex:
    return StatementTooComplex(
        f"the statement has more than {MAX_SETS} grouping sets",
        hint="Name the sets you need: GROUP BY GROUPING SETS ((a, b), (a)).",
        position=position(node),
    )


def _numbered(sets: Sequence[_Set]) -> Grouping:
    keys: dict[exp.Expr, exp.Expr] = {}
    bare_sets = [tuple(map(_bare, found)) for found in sets]
    for key in (key for wanted in bare_sets for key in wanted):
        if _fields(keys.setdefault(key, key)) != _fields(key) and len(sets) > 1:
            raise FeatureNotSupported(
                "grouping sets cannot distinguish two columns with the same value",
                hint="Name only one of them.",
                position=position(key),
            )
    numbers = {key: number for number, key in enumerate(keys)}
    numbered = [tuple(sorted({numbers[key] for key in wanted})) for wanted in bare_sets]
    return Grouping(tuple(key.copy() for key in keys), tuple(numbered))


def _fields(key: exp.Expr) -> list[int | None]:
    """The columns of FROM that the key was written with."""
    return [node.meta_get(FIELD) for node in key.walk()]


_Sets = Sequence[tuple[int, ...]]


def choose_sources(sets: _Sets, heights: Sequence[int]) -> list[int]:
    """For each set, the number of the set it is read from: its own number if it is released.

    ``heights`` are the sets' numbers of groups. Equal sets are read from the first of them.

    >>> choose_sources([(0, 1), (0,), ()], [100, 50, 1])  # states and sexes, states, all
    [0, 0, 2]
    """
    distinct = [n for n, keys in enumerate(sets) if sets.index(keys) == n]
    released = [n for n in distinct if not any(set(sets[n]) < set(sets[o]) for o in distinct)]
    error = _error(distinct, released, sets, heights)
    while len(released) < len(distinct):
        candidates = [[*released, n] for n in distinct if n not in released]
        errors = [_error(distinct, c, sets, heights) for c in candidates]
        best = min(range(len(errors)), key=errors.__getitem__)
        if errors[best] >= error:
            break
        released, error = candidates[best], errors[best]
    return [_source(sets.index(keys), released, sets, heights) for keys in sets]


def _source(n: int, released: Sequence[int], sets: _Sets, heights: Sequence[int]) -> int:
    if n in released:
        return n
    return min((r for r in released if set(sets[n]) <= set(sets[r])), key=lambda r: (heights[r], r))


def _error(
    distinct: Sequence[int], released: Sequence[int], sets: _Sets, heights: Sequence[int]
) -> float:
    sources = [_source(n, released, sets, heights) for n in distinct]
    fans = [heights[s] / max(1, heights[n]) for n, s in zip(distinct, sources, strict=True)]
    return len(released) ** 2 * math.fsum(fans)


def coarser_rows(fine: pa.Table, coarse: pa.Table, names: Sequence[str]) -> IntArray | None:
    """The row of ``coarse`` that each row of ``fine`` belongs to, by the key columns ``names``.

    None if a row belongs to none or rows of ``coarse`` are equal: then they are no sums.
    """
    height = coarse.num_rows
    both = pa.concat_tables([coarse.select(names), fine.select(names)])
    numbers, _ = groups(both.columns, np.arange(height + fine.num_rows))
    first, places = numbers[:height], numbers[height:]
    complete = (first == np.arange(height)).all() and (places < height).all()
    return places if complete else None
