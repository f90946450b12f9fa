"""What a strategy is: counts to release, and the questions they are meant for; marginals."""

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
    """A question that the released counts answer: it is the sum of ``parts[c]`` counts of
    column c, all of them distinct.
    """

    question: str
    parts: Mapping[int, int]


@dataclass(frozen=True)
class Strategy:
    """``words`` say what it is, as the history shows it."""

    words: str
    workload: Workload
    typical: tuple[Typical, ...]

    @property
    def counts(self) -> int:
        return sum(column.height for column in self.workload.columns)


def marginal(attributes: Sequence[Attribute]) -> Column:
    """A count for every combination of the attributes' cells; of no attribute, the total."""
    return Column(tuple(Factor.identity((one.name,), (one.size,)) for one in attributes))


def check_size(groups: Sequence[Sequence[Attribute]], hint: str) -> None:
    """Raises StatementTooComplex if the marginals over ``groups`` have too many counts."""
    counts = sum(math.prod(attribute.size for attribute in group) for group in groups)
    if counts > MAX_COUNTS:
        raise StatementTooComplex(
            f"the strategy has {counts:,} counts, more than {MAX_COUNTS:,}", hint=hint
        )


def marginals(table: str, name: str, groups: Sequence[Sequence[Attribute]], hint: str) -> Strategy:
    """The marginal over each group of attributes. Raises StatementTooComplex."""
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
