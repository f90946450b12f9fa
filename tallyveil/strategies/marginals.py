"""Identity and marginals: every cell, or every K-way marginal, of some attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from tallyveil.errors import InvalidParameterValue
from tallyveil.policy import Attribute
from tallyveil.strategies.strategy import Strategy, Typical, check_size, marginal
from tallyveil.workload.workload import Workload

__all__ = ["identity", "marginals"]


def identity(table: str, attributes: Sequence[Attribute]) -> Strategy:
    """The count of every cell of the attributes' product. Raises StatementTooComplex."""
    check_size([attributes], "Name fewer with --attributes a,b, or take --strategy marginals:2.")
    return _strategy(table, "identity", attributes, [tuple(attributes)])


def marginals(table: str, attributes: Sequence[Attribute], ways: int) -> Strategy:
    """All marginals of ``ways`` of the attributes.

    Raises InvalidParameterValue unless there are that many, and StatementTooComplex.
    """
    if not 1 <= ways <= len(attributes):
        raise InvalidParameterValue(
            f"marginals of {ways} of {len(attributes)} attributes do not exist",
            hint=f"Write --strategy marginals:K with K from 1 to {len(attributes)}.",
        )
    groups = list(combinations(attributes, ways))
    check_size(groups, "Name fewer with --attributes a,b, or take fewer ways.")
    return _strategy(table, f"marginals:{ways}", attributes, groups)


def _strategy(
    table: str, name: str, attributes: Sequence[Attribute], groups: list[tuple[Attribute, ...]]
) -> Strategy:
    workload = Workload(table, tuple(map(marginal, groups)))
    over = ", ".join(attribute.name for attribute in attributes)
    return Strategy(f"warm-up of {table}: {name} over {over}", workload, _typical(groups))


def _typical(groups: Sequence[tuple[Attribute, ...]]) -> tuple[Typical, ...]:
    """A cell, one value of each attribute, and the total: from the column with fewest counts."""
    cells = [math.prod(attribute.size for attribute in group) for group in groups]
    names = " and ".join(attribute.name for attribute in groups[0])
    typical = [Typical(f"one value of {names}", {0: 1})]
    if len(groups[0]) > 1:
        every = {attribute.name: attribute for group in groups for attribute in group}
        for attribute in every.values():
            column = min(
                (n for n, group in enumerate(groups) if attribute in group), key=cells.__getitem__
            )
            parts = {column: cells[column] // attribute.size}
            typical.append(Typical(f"one value of {attribute.name}", parts))
    least = min(range(len(groups)), key=cells.__getitem__)
    return (*typical, Typical("the total", {least: cells[least]}))
