"""Strategies: counts to release, and typical questions that they answer; marginals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tallyveil.errors import StatementTooComplex
from tallyveil.policy import Attribute
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = ["MAX_COUNTS", "Strategy", "Typical", "check_size", "marginal", "marginals"]

MAX_COUNTS: Final = 100_000


@dataclass(frozen=True)
class Typical:
    """A question that the released counts answer: the answer is the sum of ``parts[c]`` distinct
    counts of each column c.
    """

    question: str
    parts: Mapping[int, int]


@dataclass(frozen=True)
class Strategy:
    """Counts to release, with typical questions; history shows ``words`` as its description."""

    words: str
    workload: Workload
    typical: tuple[Typical, ...]

    @property
    def counts(self) -> int:
        return sum(column.height for column in self.workload.columns)


def marginal(attributes: Sequence[Attribute]) -> Column:
    """Return a count for every combination of the attributes' cells; without attributes, the
    total."""
    return Column(tuple(Factor.identity((one.name,), (one.size,)) for one in attributes))


def check_size(groups: Sequence[Sequence[Attribute]], hint: str) -> None:
    """Raise StatementTooComplex if the marginals over ``groups`` have too many counts."""
    counts = sum(math.prod(attribute.size for attribute in group) for group in groups)
    if counts > MAX_COUNTS:
        raise StatementTooComplex(
            f"the strategy has {counts:,} counts, more than {MAX_COUNTS:,}", hint=hint
        )


def marginals(table: str, name: str, groups: Sequence[Sequence[Attribute]], hint: str) -> Strategy:
    """Return the marginal over each group of attributes. Raises as `check_size`."""
    check_size(groups, hint)
    cells = [math.prod(attribute.size for attribute in group) for group in groups]
    every = {attribute.name: attribute for group in groups for attribute in group}
    typical = [Typical(f"one value of {' and '.join(one.name for one in groups[0])}", {0: 1})]
    least = min(range(len(groups)), key=cells.__getitem__)
    if len(groups[0]) > 1:
        for one in every.values():
            column = min((n for n, own in enumerate(groups) if one in own), key=cells.__getitem__)
            parts = {column: cells[column] // one.size}
            typical.append(Typical(f"one value of {one.name}", parts))
    typical.append(Typical("the total", {least: cells[least]}))
    words = f"warm-up of {table}: {name} over {', '.join(every)}"
    return Strategy(words, Workload(table, tuple(map(marginal, groups))), tuple(typical))
