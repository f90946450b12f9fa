"""Released distinct counts and quantiles of a table, by the groups of histograms: they answer the
same question again. No count is estimated from them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tallyveil.accountant import Records
from tallyveil.locks import Rank, ranked_lock
from tallyveil.mechanisms import STATISTICS
from tallyveil.workload.histogram import Histogram

__all__ = ["DrawnStatistic", "StatisticHistory"]


class DrawnStatistic(NamedTuple):
    """A noisy distinct count, or the place of a quantile among the rows of its group; ``spread`` is
    as `Statistic.spread`."""

    spread: float
    charge_id: int
    value: int
    mechanism: str
    scale: float


class StatisticHistory:
    """What one ledger has of one table. Threads may share it."""

    def __init__(self, accountant: Records, table: str, version: int = 0) -> None:
        self._accountant, self._table, self._version = accountant, table, version
        self._lock = ranked_lock(Rank.LEAF)
        self._drawn: dict[bytes, dict[int, DrawnStatistic]] = {}
        self._read = 0

    def extent(self) -> int:
        """How many releases are known; it grows with each."""
        releases = self._accountant.statistics(self._table, first := self._read, self._version)
        for release in releases:
            [answer], histogram, name = (
                release.answers,
                release.decoded().histogram,
                release.mechanism,
            )
            spread, number = STATISTICS[name].spread(answer.scale), release.charge_id
            keys = () if histogram is None else histogram.keys
            with self._lock:
                for key, value in zip(keys, answer.values, strict=True):
                    new = DrawnStatistic(spread, number, int(value), name, answer.scale)
                    self._drawn.setdefault(key, {})[number] = new
        with self._lock:
            self._read = max(self._read, first + len(releases))
            return self._read

    def find(self, histogram: Histogram, bought: Collection[int]) -> list[DrawnStatistic | None]:
        """For each group the most precise release, and of equals the first; those of the charges
        ``bought``, where they are about the group."""
        self.extent()
        with self._lock:
            each = [[*self._drawn.get(key, {}).values()] for key in histogram.keys]
        own = [[one for one in drawn if one.charge_id in bought] for drawn in each]
        return [min(some or drawn, default=None) for some, drawn in zip(own, each, strict=True)]
