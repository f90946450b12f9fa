"""What dp.mechanism = optimal or correlated buys: rows that determine those asked.

They are a design by exact counts (`invariants.optimal`). With optimal those asked follow with the
least variance. The Gaussian noise is such that the charge, for the rows of the design as a
translate, is what the statement may cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.arrays import FloatArray
from tallyveil.errors import FeatureNotSupported
from tallyveil.inference.canonical import settled
from tallyveil.invariants import Design, translated
from tallyveil.mechanisms import Adjacency
from tallyveil.rewriter import Workload
from tallyveil.workload.workload import Column

__all__ = ["Designed", "ErrorComparison", "Fitted", "compared", "designed", "no_worse", "too_large"]

Fitted: TypeAlias = Callable[[Workload], tuple[float, ...]]
"""The scales of Gaussian noise at which a workload costs what the statement may cost."""

# A margin, so that rounding does not make a repeated statement fall short of its own answer.
_UP: Final = 1 + 1e-9
_LEAST: Final = 1.0


@dataclass(frozen=True, eq=False)
class Designed:
    """A ``charge`` for a whole statement, and the ``scales`` of its columns. Once it is paid, no
    row has a greater deviation than its column's scale."""

    charge: Charge
    scales: tuple[float, ...]


def designed(
    design: Design, workload: Workload, published: tuple[Column, ...], fitted: Fitted, sql: str
) -> Designed | None:
    """Return the charge for a design; None if it cannot be computed."""
    charged = translated(design.column, design.translate, published)
    if charged is None:
        return None
    (scale,) = fitted(Workload(workload.table, (charged,)))
    scale *= _UP / design.translate.denominator
    worst = [own * scale for own in _worst(design, workload)]
    scales = tuple(max(one, _LEAST) * _UP if one else 0.0 for one in worst)
    return Designed(_charge(design, workload.table, scale, sql), scales)


def no_worse(design: Design, workload: Workload, like: Charge) -> Charge:
    """A charge for the design that answers no row less precisely than charge ``like`` for the rows
    themselves, once its answers agree with what is exact."""
    deviations = design.deviations * _units(workload.columns)
    noisy = deviations > 0
    others = np.sqrt(design.projected(_variances(workload.columns, like.scales)))
    scale = settled(float((others[noisy] / deviations[noisy]).min()) / _UP)
    return _charge(design, workload.table, scale, like.sql)


def _charge(design: Design, table: str, scale: float, sql: str) -> Charge:
    asked = Workload(table, (design.column,))
    return Charge(asked, "gaussian", (scale,), sql, translates=(design.translate,))


def _worst(design: Design, workload: Workload) -> list[float]:
    """The greatest deviation of each column's rows if the noise on the design has σ = 1."""
    ends = np.cumsum([column.height for column in workload.columns])[:-1]
    return [float(own.max(initial=0)) for own in np.split(design.deviations, ends)]


def too_large(asked: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"{asked} computes the noise for all rows of a statement together, and there are too many"
        " of them, or they distinguish too many cells",
        hint="Ask for fewer rows at once, or SET dp.mechanism = extended.",
    )


@dataclass(frozen=True)
class ErrorComparison:
    """Squared errors of all rows together, times 2ρ: of noise on the rows as asked and as charged,
    of noise on the design, and a ``bound`` that no Gaussian noise gets below."""

    plain: float
    charged: float
    optimal: float
    bound: float


def compared(
    design: Design,
    columns: Sequence[Column],
    scales: Sequence[float],
    costs: tuple[float, float | None, float],
    relation: Adjacency,
) -> ErrorComparison:
    """Compare noise of these scales with the design. ``costs`` in ρ: of that noise as asked, as
    charged (None if the design is charged), and of noise of scale 1 on the design."""
    each = _variances(columns, scales)
    own = ((_units(columns) * design.deviations) ** 2).sum()
    plain, charged, optimal = costs
    least = 2 * optimal * float(own)
    rank = design.basis.shape[1]
    # Pairs of records: a ball around their columns has a radius² of d/(2(d+1)) diameters² at most.
    pairs = 2 * (rank + 1) / rank if relation.closed else 1.0
    return ErrorComparison(
        2 * plain * float(each.sum()),
        least if charged is None else 2 * charged * float(design.projected(each).sum()),
        least,
        design.bound * pairs * relation.max_rows**2,
    )


def _units(columns: Sequence[Column]) -> FloatArray:
    """The size of a lattice step of each row."""
    return np.repeat([float(one.multiplier) for one in columns], [one.height for one in columns])


def _variances(columns: Sequence[Column], scales: Sequence[float]) -> FloatArray:
    """The variance that noise of these scales has on each row."""
    each = np.repeat(scales, [column.height for column in columns])
    found: FloatArray = (each * _units(columns)) ** 2
    return found
