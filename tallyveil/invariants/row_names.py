"""Descriptions of counts for the custodian, by the records they count."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from operator import itemgetter

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.policy.domain import Attribute, Domain, Value
from tallyveil.quoting import literal
from tallyveil.workload.workload import Column, Factor

__all__ = ["EVERYBODY", "row_names"]

EVERYBODY = "all records"
_LISTED = 5  # the most values that are listed; further ones are left out


def row_names(column: Column, domain: Domain) -> list[str]:
    """A condition for each row that counts records; for other rows, what they sum over."""
    names = domain.names
    found = [
        (
            names.index(factor.axes[0]) if factor.axes else 0,  # of nobody
            _factor_names(factor, domain),
            numbers.tolist(),
        )
        for factor, numbers in zip(column.factors, column.factor_rows(column.numbers), strict=True)
    ]
    found.sort(key=itemgetter(0))
    return [
        " AND ".join(filter(None, (own[numbers[row]] for _, own, numbers in found))) or EVERYBODY
        for row in range(column.height)
    ]


def _factor_names(factor: Factor, domain: Domain) -> list[str]:
    ends = np.searchsorted(factor.rows, np.arange(factor.height + 1)).tolist()
    return [_name(factor, slice(start, end), domain) for start, end in itertools.pairwise(ends)]


def _name(factor: Factor, own: slice, domain: Domain) -> str:
    if own.start == own.stop:
        return "no record"
    at = np.unravel_index(factor.cells[own], factor.shape)
    values = [np.unique(each) for each in at]
    joint = math.prod(map(len, values)) == own.stop - own.start
    if not joint or (factor.coefficients[own] != 1).any():
        what = "cells" if (factor.coefficients[own] == 1).all() else "weighted cells"
        return f"{own.stop - own.start:,} {what} of {', '.join(factor.axes)}"
    conditions = zip(factor.axes, values, strict=True)
    return " AND ".join(filter(None, (_condition(domain[a], v) for a, v in conditions)))


def _condition(attribute: Attribute, chosen: IntArray) -> str:
    """The condition that the attribute has one of these values; empty if it may have any."""
    if len(chosen) == attribute.size:
        return ""
    cells = [attribute.cells[n] for n in chosen.tolist()]
    if len(cells) == 1:
        return f"{attribute.name} {_equals(attribute, int(chosen[0]))}"
    run = int(chosen[-1] - chosen[0]) + 1 == len(chosen)
    plain = not {attribute.null_cell, attribute.other_cell} & set(chosen.tolist())
    if attribute.stepped and run and plain:
        return f"{attribute.name} BETWEEN {_written(cells[0])} AND {_written(cells[-1])}"
    listed = ", ".join(map(_written, cells[:_LISTED]))
    more = f", … {len(cells):,} values" if len(cells) > _LISTED else ""
    return f"{attribute.name} IN ({listed}{more})"


def _equals(attribute: Attribute, cell: int) -> str:
    value, edges = attribute.cells[cell], attribute.edges or ()
    if value is None:
        return "IS NULL"
    if cell < len(edges) - 1:
        return f"in [{edges[cell]}, {edges[cell + 1]})"
    return f"= {_written(value)}"


def _written(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    return literal(str(value))
