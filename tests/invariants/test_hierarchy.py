"""How asked rows add up: against the ranks of random nested sets, by fractions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

from tallyveil.invariants import Hierarchy, Span, hierarchy
from tallyveil.workload.workload import Column
from tests import matrices
from tests.inference.exact import rank

Sets = Sequence[frozenset[int]]


def column(sets: Sets, size: int) -> Column:
    return matrices.column([[cell in own for cell in range(size)] for own in sets], ["cell"])


def found(asked: Sets, exact: Sets, size: int) -> Hierarchy | str:
    return hierarchy([column(asked, size)], Span([column(exact, size)], {"cell": size}))


def indicators(sets: Sets, size: int) -> list[list[Fraction]]:
    return [[Fraction(cell in own) for cell in range(size)] for own in sets]


def nested(draw: random.Random, cells: list[int]) -> list[frozenset[int]]:
    """Sets of which any two are nested or disjoint."""
    result = [frozenset(cells)] if draw.random() < 0.5 else []
    if len(cells) > 1:
        cut = draw.randrange(1, len(cells))
        for part in (cells[:cut], cells[cut:]):
            if draw.random() < 0.9:
                result += nested(draw, part)
    return result


def test_the_sums_are_all_that_are_exact() -> None:
    """Each relation of the tree holds, for all tables that agree on what is exact; and there are as
    many as there can be."""
    for seed in range(150):
        check_sums(random.Random(seed))


def check_sums(draw: random.Random, size: int = 7) -> None:
    cells = list(range(size))
    asked = list(dict.fromkeys(nested(draw, cells)))
    exact = list(dict.fromkeys(nested(draw, cells)))
    if not asked or not exact:
        return
    inside = rank(indicators(exact, size))
    rows = [s for s in asked if rank(indicators([*exact, s], size)) > inside]
    if not rows:
        return
    tree = found(rows, exact, size)
    if isinstance(tree, str):
        assert "overlap" in tree or "nobody asked" in tree
        return
    relations = 0
    for number in range(len(tree.parents)):
        parts = [
            rows[n] for n, parent in enumerate(tree.parents) if parent == number and n < len(rows)
        ]
        sums = [n for n, parent in enumerate(tree.parents) if parent == number and n >= len(rows)]
        if not parts and not sums:
            continue
        relations += 1
        if sums:
            continue  # an exact sum adds nothing to the relation's noise
        total = [sum(row, Fraction(0)) for row in zip(*indicators(parts, size), strict=True)]
        if number < len(rows):
            own = indicators([rows[number]], size)[0]
            total = [a - b for a, b in zip(total, own, strict=True)]
        assert rank([*indicators(exact, size), total]) == inside
    free = len(rows) + inside - rank(indicators([*exact, *rows], size))
    assert relations == free


def test_groups_under_totals() -> None:
    """Counties under states: an exact sum more for each state whose counties are all asked."""
    exact = [frozenset({0, 1, 2}), frozenset({3, 4})]
    tree = found([frozenset({n}) for n in range(5)], exact, 6)
    assert isinstance(tree, Hierarchy)
    assert tree.parents == (5, 5, 5, 6, 6, -1, -1)
    assert sorted(tree.declared) == [0, 1]
    part = found([frozenset({n}) for n in (0, 1, 3, 4)], exact, 6)
    assert isinstance(part, Hierarchy)
    assert part.parents == (-1, -1, 4, 4, -1)


def test_levels_that_are_not_exact() -> None:
    """Two groups of groups under one total: each is the sum of its own."""
    levels = [frozenset({0, 1}), frozenset({2, 3})]
    tree = found([*(frozenset({n}) for n in range(4)), *levels], [frozenset(range(4))], 4)
    assert isinstance(tree, Hierarchy)
    assert tree.parents == (4, 4, 5, 5, 6, 6, -1)


def test_what_is_no_hierarchy_is_said() -> None:
    crossing = [frozenset({0, 1}), frozenset({1, 2})]
    assert "nested or disjoint" in str(found(crossing, [frozenset({0, 1, 2})], 4))
    # A 2×2 table of which both margins are exact.
    margins = [frozenset({0, 1}), frozenset({2, 3}), frozenset({0, 2}), frozenset({1, 3})]
    assert "overlap" in str(found([frozenset({n}) for n in range(4)], margins, 4))
    # Of the exact sum one part was asked as the rest of a larger group.
    parts = [frozenset({0, 1, 2}), frozenset({0}), frozenset({3})]
    assert "nobody asked" in str(found(parts, [frozenset({1, 2, 3})], 4))


def test_margins_of_other_attributes_do_not_matter() -> None:
    """Of a 2×2 table both margins are exact, and the rows of one are asked in part."""
    margins = [frozenset({0, 1, 2, 3}), frozenset({4, 5, 6, 7}), frozenset({0, 2, 4, 6})]
    tree = found([frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5})], margins, 8)
    assert isinstance(tree, Hierarchy)
    assert tree.parents == (3, 3, -1, -1)
