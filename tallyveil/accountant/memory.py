"""The best noisy answer known of each row ever asked, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyveil.accountant.values import Recorded
from tallyveil.mechanisms import mechanism
from tallyveil.rewriter.workload import Column

__all__ = ["Asked", "Memory"]


@dataclass(frozen=True)
class Asked:
    """A charge whose answer is still to come."""

    table: str
    mechanism: str
    columns: tuple[Column, ...]
    scales: tuple[float, ...]

    @property
    def heights(self) -> tuple[int, ...]:
        return tuple(column.height for column in self.columns)


class Memory:
    """Rows are known by their table and `Column.row_keys`; the answer of least variance is best.

    Among equal variances the first answer stays, so that a question keeps its answer.
    """

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
        self._best: dict[str, dict[bytes, Recorded]] = {}

    def expect(self, charge_id: int, asked: Asked) -> None:
        self._asked[charge_id] = asked

    def awaited(self, charge_id: int) -> Asked | None:
        """The charge, unless it is unknown here or answered already."""
        return self._asked.get(charge_id)

    def learn(self, charge_id: int, values: Sequence[Sequence[int]]) -> None:
        """Take in the answer of an awaited charge."""
        asked = self._asked[charge_id]
        best = self._best.setdefault(asked.table, {})
        noise = mechanism(asked.mechanism)
        for column, scale, answers in zip(asked.columns, asked.scales, values, strict=True):
            variance = noise.law(scale).variance
            for key, value in zip(column.row_keys, answers, strict=True):
                known = best.get(key)
                if known is None or variance < known.variance:
                    best[key] = Recorded(charge_id, value, scale, asked.mechanism, variance)
        del self._asked[charge_id]

    def recall(self, table: str, row_keys: Sequence[bytes]) -> list[Recorded | None]:
        best = self._best.get(table, {})
        return [best.get(key) for key in row_keys]
