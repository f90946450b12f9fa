"""What a strategy is asked, and what it answers: rows to buy instead of those of a statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import FloatArray
from tallyveil.gate.settings import Objective
from tallyveil.mechanisms.measure import Measure
from tallyveil.workload.workload import Column, Factor

__all__ = ["GAIN", "WORSE", "Asked", "Family", "OtherRows", "content", "even"]

GAIN: Final = 0.99  # of the error as asked is still a gain
WORSE: Final = 1.01  # of the variance as asked is no loss: variances of discrete noise differ so


class OtherRows(NamedTuple):
    """``columns`` with noise whose deviations are in proportion to ``like``, if given. ``bound``:
    the share of their total error that no unbiased linear estimates get below, if known.
    ``errors``: if all rows asked follow from these for certain, the variances of the rows of each
    column asked, by those of the noise on each of these. ``orthogonal``: all rows of these are, and
    one of them touches each cell of any."""

    columns: tuple[Column, ...]
    like: tuple[float, ...] | None = None
    bound: float | None = None
    errors: Callable[[Sequence[float]], list[FloatArray]] | None = None
    orthogonal: bool = False


@dataclass(frozen=True, eq=False)
class Asked:
    """The ``columns`` of a statement, of which the first ``bought`` would be bought as asked, and
    the others are sums of them. Those numbered in ``hidden`` are asked for these sums alone: the
    statement shows the columns ``shown``. ``axes`` has the order of the table's. Errors are
    compared at ε = 1 or ρ = 1, by ``measure``, under add/remove; rows must be better by ``margin``
    than directly. The errors of a ``relative`` objective are divided by what the rows would count
    if all declared values were equally frequent, which is public."""

    columns: tuple[Column, ...]
    axes: Sequence[str]
    bought: int
    measure: Measure
    objective: Objective
    margin: float = 1.0
    hidden: frozenset[int] = frozenset()

    @property
    def shown(self) -> tuple[Column, ...]:
        return tuple(one for n, one in enumerate(self.columns) if n not in self.hidden)

    def weights(self, column: Column) -> FloatArray:
        """What the variances of the rows of a column are multiplied by in the total."""
        found = np.ones(column.height)
        if self.objective != "relative":
            return found
        for factor, rows in zip(column.factors, column.factor_rows(column.numbers), strict=True):
            sizes = np.bincount(factor.rows, np.abs(factor.coefficients), factor.height)
            found *= sizes[rows] / factor.size
        found *= float(column.multiplier)
        return np.divide(1.0, found**2, out=np.zeros_like(found), where=found > 0)

    def gains(
        self,
        new: npt.ArrayLike,
        direct: npt.ArrayLike,
        times: FloatArray | int = 1,
    ) -> bool:
        """Whether variances, each of ``times`` rows, are clearly less than asked directly."""
        made, asked = np.asarray(new, dtype=np.float64), np.asarray(direct, dtype=np.float64)
        if self.objective == "worst":
            return bool(made.max() <= asked.max() * GAIN)
        return bool((made * times).sum() <= (asked * times).sum() * GAIN)


Family: TypeAlias = Callable[[Asked], OtherRows | None]
"""What to buy for all rows asked; None if it is not for such rows, or does not gain."""


def even(column: Column) -> bool:
    """Whether the largest coefficients of its rows are the same."""
    largest = (f.largest_by_row for f in column.factors if len(f.starts))
    return all(one.min() == one.max() for one in largest)


def content(factor: Factor) -> tuple[object, ...]:
    """Equal for equal factors."""
    arrays = (factor.rows, factor.cells, factor.coefficients)
    return factor.axes, factor.shape, *(array.tobytes() for array in arrays)
