"""What an analyst can still ask if the budget does not allow a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from tallyveil.errors import BudgetExceeded
from tallyveil.gate.deciding.cost_messages import percent
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.settings import Target
from tallyveil.gate.strategies.offer import Offer
from tallyveil.knowledge import Answers, Rows
from tallyveil.mechanisms import law_of
from tallyveil.mechanisms.units import nearest_units, text_down
from tallyveil.rewriter import Workload

__all__ = ["different_rows", "rest", "what_remains", "widest"]


def what_remains(
    error: BudgetExceeded,
    request: Request,
    found: Mapping[str, Rows],
    wanted: Mapping[str, Noise],
    affordable: Offer | None,
) -> str:
    """The hint of a refusal: how precisely the rest of the budget and history would answer.
    ``affordable`` is what would be bought at the rest of the budget."""
    at = percent(request.target.confidence)
    parts = []
    if error.remaining > 0:
        half = None if affordable is None else _bought(affordable, request.target.confidence)
        buys = "" if half is None else f", which buys ±{float(half):.6g} {at}"
        most = text_down(nearest_units(error.remaining), 12)
        parts.append(f"SET dp.{error.unit} to at most {most}{buys}")
    half = widest(request.workloads, found, request.target.confidence)
    if half is None and error.analyst is not None and not parts:
        parts.append("ask the custodian: the policy says who may spend, and how much")
    elif half is None:
        parts.append("ask about records with budget left; history does not determine this")
    else:
        different = different_rows(found, wanted)
        known, height = sum(own.known_rows for own in different), sum(map(len, different))
        some = "" if known == height else f" for {known} of {height} rows"
        parts.append(
            f"SET dp.source = history for what is known already, ±{float(half):.6g} {at}{some}"
        )
    hint = ", or ".join(parts) + "."
    return hint[0].upper() + hint[1:]


def different_rows(found: Mapping[str, Rows], noise: Mapping[str, Noise]) -> list[Answers]:
    """What is known of the rows of each column, without multiples of other rows."""
    return [own for table, rows in found.items() for own in noise[table].different(rows)]


def widest(
    workloads: Mapping[str, Workload], found: Mapping[str, Rows], confidence: Fraction
) -> Fraction | None:
    """The half-width of the widest interval among all rows; None if nothing is known of any."""
    halves = [
        column.multiplier * Fraction(error.half_width(confidence))
        for table, workload in workloads.items()
        for column, known in zip(workload.columns, found[table], strict=True)
        for error in known.used_errors
    ]
    return max(halves, default=None)


def rest(error: BudgetExceeded, request: Request) -> Request:
    """The request, at the cost that the budget has left."""
    left = Fraction(error.remaining)
    epsilon, rho = (left, None) if error.unit == "epsilon" else (None, left)
    return replace(request, target=Target(epsilon, rho, None, request.target.confidence))


def _bought(offer: Offer, confidence: Fraction) -> Fraction | None:
    """The half-width of the widest row; None if it depends on the answer, or on several answers."""
    if offer.mechanism.needs_range or offer.gain < 1:
        return None
    laws = [law_of(offer.mechanism.name, scale) for scale in offer.asked.scales]
    halves = (
        column.multiplier * Fraction(law.half_width(confidence))
        for column, law in zip(offer.asked.workload.columns, laws, strict=True)
        if law is not None
    )
    return max(halves, default=None)
