"""The relations of schema dp about sanitised copies: their laws, and counts debiased by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from tallyveil import inference
from tallyveil.gate.settings import Settings
from tallyveil.mechanisms import ClampedLaplace, RandomisedResponse
from tallyveil.policy.domain import Value
from tallyveil.sanitise import Copy, Described

__all__ = ["COPY_RELATIONS"]

_DRAWS = 2.0**64
_TEXT, _FLOAT, _INT = pa.string(), pa.float64(), pa.int64()
_LAWS = pa.schema(
    [
        ("table_name", _TEXT), ("column_name", _TEXT), ("mechanism", _TEXT), ("epsilon", _FLOAT),
        ("cells", _INT), ("rows", _INT), ("kept", _FLOAT), ("changed", _FLOAT),
        ("scale", _FLOAT), ("end_shift", _FLOAT),
    ]
)  # fmt: skip
_COUNTS = pa.schema(
    [
        ("table_name", _TEXT), ("column_name", _TEXT), ("value", _TEXT), ("observed", _INT),
        ("estimate", _FLOAT), ("low", _FLOAT), ("high", _FLOAT),
    ]
)  # fmt: skip


def _laws(copies: Mapping[str, Copy], settings: Settings) -> pa.Table:
    """``kept`` and ``changed``: the probability of the own value, and of each other one.

    Under Laplace noise they are those of whether the value is NULL.
    """
    rows = []
    for name, copy in copies.items():
        for part in copy.description.parts:
            law = part.law
            row: dict[str, Any] = {
                "table_name": name,
                "column_name": _name(part),
                "mechanism": law.name,
                "epsilon": float(f"{float(law.epsilon):.12g}"),
                "cells": law.cells,
                "rows": copy.rows,
            }
            response = law.flag if isinstance(law, ClampedLaplace) else law
            if isinstance(response, RandomisedResponse):
                row |= {"kept": response.kept / _DRAWS, "changed": response.change / _DRAWS}
            if isinstance(law, ClampedLaplace):
                row |= {"scale": law.scale, "end_shift": law.end_shift}
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=_LAWS)


def _counts(copies: Mapping[str, Copy], settings: Settings) -> pa.Table:
    """One row per value of each part that went through randomised response."""
    confidence = float(settings.target.confidence)
    tables = [
        _debiased(name, copy, n, part.law, confidence)
        for name, copy in copies.items()
        for n, part in enumerate(copy.description.parts)
        if isinstance(part.law, RandomisedResponse)
    ]
    return pa.concat_tables([_COUNTS.empty_table(), *tables])


def _debiased(
    name: str, copy: Copy, number: int, law: RandomisedResponse, confidence: float
) -> pa.Table:
    part, observed = copy.description.parts[number], copy.observed[number]
    if law.cells == 1:
        estimate = low = high = observed.astype(float)
    else:
        estimate, low, high = inference.debiased(
            observed, copy.rows, law.kept / _DRAWS, law.change / _DRAWS, confidence
        )
    count = len(observed)
    return pa.table(
        [
            pa.array([name] * count),
            pa.array([_name(part)] * count),
            pa.array(list(_values(part)), _TEXT),
            pa.array(observed),
            *map(pa.array, (estimate, low, high)),
        ],
        schema=_COUNTS,
    )


def _name(part: Described) -> str:
    return "+".join(part.columns)


def _values(part: Described) -> Iterator[str | None]:
    """The values in the order of the codes: as text, those of several columns in one text."""
    if len(part.cells) == 1:
        yield from map(_text, part.cells[0])
        return
    for values in product(*part.cells):
        yield ", ".join("NULL" if v is None else str(_text(v)) for v in values)


def _text(value: Value) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
    return str(value)


COPY_RELATIONS: Final[Mapping[str, Callable[[Mapping[str, Copy], Settings], pa.Table]]] = (
    MappingProxyType({"sanitised": _laws, "debiased": _counts})
)
