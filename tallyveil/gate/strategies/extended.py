"""What dp.mechanism = extended buys: the rows as asked, charged as a projection of them.

That is their translate by the smallest ball around the cells' columns: the least charge there is
for a single row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.invariants import centres

__all__ = ["extended"]

_ROWS: Final = 4_096


def extended(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """Raises FeatureNotSupported for too many rows."""
    exact, offer = limits.exact, information.asked
    if exact is None:
        return
    charge = offer.charge
    height = max(charge.heights)
    if height > _ROWS:
        raise FeatureNotSupported(
            f"extended charges a projection of the rows, and {height:,} rows are too many",
            hint=f"Ask for {_ROWS:,} rows at most, or SET dp.mechanism = projected.",
        )
    chosen = []
    for column in charge.workload.columns:
        found = centres(column, exact.span, exact.numbers, squares=True, most=_ROWS)
        fit = [one for one in found if exact.fits(column, one)]
        chosen.append(fit[-1] if fit else None)
    yield offer.charged_as(replace(charge, translates=tuple(chosen))) if any(chosen) else offer
