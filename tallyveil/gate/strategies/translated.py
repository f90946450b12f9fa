"""Charges the rows as translates by exact counts, if that serves the ledger.

This is book-keeping: noise and answer are those of the rows as asked. The charge is for w − λC,
which costs less where λC takes the middle out of the row, and something for cells that were not
asked about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.invariants import translated as translated_rows
from tallyveil.mechanisms import BY_DESIGN, Adjacency, mechanism, sensitivity
from tallyveil.workload.workload import Column

__all__ = ["Saving", "reach", "saving", "translated"]


def translated(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """One for each way to translate the columns."""
    exact, offer = limits.exact, information.asked
    if exact is None or offer.charge.law is None:
        return
    each = [exact.translates(column) for column in offer.charge.workload.columns]
    for nth in range(max(map(len, each))):
        chosen = tuple(own[min(nth, len(own) - 1)] if own else None for own in each)
        yield offer.charged_as(replace(offer.charge, translates=chosen))


def reach(column: Column, relation: Adjacency, squared: bool) -> float:
    """The sensitivity in the norm of the noise (L2 if ``squared``, else L1), in lattice steps."""
    if squared:
        return math.sqrt(sensitivity(column, relation, "rho"))
    return sensitivity(column, relation, "epsilon")


class Saving(NamedTuple):
    """``sensitivities``: of what is charged, by column, in the column's units. ``saved``: in the
    budget's measure. ``invariants``: the SQL of those that made it possible."""

    invariants: list[str]
    sensitivities: Mapping[int, float]
    saved: Fraction


def saving(request: Request, offer: Offer, limits: Limits) -> Saving | None:
    """What an offer by translates saves; None if it has none."""
    charge, exact = offer.charge, limits.exact
    if exact is None or not charge.translates:
        return None
    designed = request.by_invariants in BY_DESIGN
    plain = replace(charge, translates=()) if designed else offer.asked
    saved = exact.accountant.cost(plain) - exact.accountant.cost(charge)
    squared = mechanism(charge.mechanism).needs_delta
    steps: dict[int, float] = {}
    columns = () if offer.by_other_rows else offer.columns
    parts = zip(columns, charge.workload.columns, charge.translates, strict=False)
    for number, column, translate in parts:
        rows = None if translate is None else translated_rows(column, translate, exact.published)
        if translate is not None and rows is not None:
            step = reach(rows, exact.account.relation, squared) / translate.denominator
            steps[number] = float(column.multiplier) * step
    starts = np.cumsum([0, *(column.height for column in exact.published)])
    used = [np.unique(one.declared) for one in charge.translates if one is not None]
    numbers = {int(n) for own in used for n in np.searchsorted(starts, own, side="right") - 1}
    invariants = list(dict.fromkeys(exact.sources[n] for n in sorted(numbers)))
    return Saving(invariants, steps, saved)
