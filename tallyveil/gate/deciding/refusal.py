"""What an analyst can still ask if the budget does not allow a request."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tallyveil.errors import BudgetExceeded, TallyveilError
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.cost_messages import percent
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.settings import Target
from tallyveil.knowledge import Answers, Rows
from tallyveil.mechanisms import law_of
from tallyveil.mechanisms.units import nearest_units, text_down
from tallyveil.rewriter import Workload

__all__ = ["different_rows", "what_remains", "widest"]


def what_remains(
    error: BudgetExceeded,
    request: Request,
    found: Mapping[str, Rows],
    choice: Choice | None,
    wanted: Mapping[str, Noise],
    refused: Workload | None,
) -> str:
    """The hint of a refusal: how precisely the rest of the budget and history would answer."""
    at = percent(request.target.confidence)
    parts = []
    if error.remaining > 0:
        half = None
        if refused is not None and choice is not None:
            noise = wanted[refused.table]
            half = _affordable(error, request.target.confidence, choice, noise, refused)
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


def _affordable(
    error: BudgetExceeded, confidence: Fraction, choice: Choice, noise: Noise, part: Workload
) -> Fraction | None:
    """The half-width that the remaining budget can pay for; None if that depends on the answer, or
    too little remains for any noise."""
    if noise.mechanism.needs_range:
        return None
    remaining = Fraction(error.remaining)
    target = Target(
        remaining if error.unit == "epsilon" else None,
        remaining if error.unit == "rho" else None,
        None,
        confidence,
    )
    try:
        scales = choice.scales(noise.mechanism, part, target)
    except TallyveilError:
        return None
    laws = [law_of(noise.mechanism.name, scale) for scale in scales]
    halves = (
        column.multiplier * law.half_width(confidence)
        for column, law in zip(part.columns, laws, strict=True)
        if law is not None
    )
    return max(halves, default=None)
