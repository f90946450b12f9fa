"""The relations of schema dp about sanitised copies: their laws, and counts debiased by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import pyarrow as pa

from tallyveil import inference
from tallyveil.arrays import IntArray
from tallyveil.gate.settings import Settings
from tallyveil.policy.domain import Value, shown
from tallyveil.sanitise import Copy, PerturbedPart

__all__ = ["DEBIASED", "LAWS", "debiased_counts", "laws_of"]

_TEXT, _FLOAT, _INT = pa.string(), pa.float64(), pa.int64()
LAWS: Final = pa.schema(
    [
        ("table_name", _TEXT), ("part", _TEXT), ("column_name", _TEXT), ("mechanism", _TEXT),
        ("epsilon", _FLOAT), ("cells", _INT), ("rows", _INT), ("kept", _FLOAT), ("changed", _FLOAT),
        ("scale", _FLOAT), ("end_shift", _FLOAT),
    ]
)  # fmt: skip
DEBIASED: Final = pa.schema(
    [
        ("table_name", _TEXT), ("column_name", _TEXT), ("value", _TEXT), ("observed", _INT),
        ("estimate", _FLOAT), ("low", _FLOAT), ("high", _FLOAT),
    ]
)  # fmt: skip


def laws_of(copies: Mapping[str, Copy]) -> Iterator[dict[str, Any]]:
    """A row for each part, or for each element of a set: ``kept`` and ``changed`` are the
    probabilities of the own value, and of each other one.

    With noise they are about whether the value, or the series, is NULL.
    """
    for name, copy in copies.items():
        for part in copy.description.parts:
            law = part.law
            row: dict[str, Any] = {
                "table_name": name,
                "part": _name(part),
                "column_name": _name(part),
                "mechanism": law.name,
                "epsilon": float(f"{float(law.epsilon):.12g}"),
                "cells": law.cells,
                "rows": copy.rows,
            }
            if law.noise:
                yield row | dict(law.noise)
            for found in _responses(part):
                own = {"column_name": found.name, "cells": len(found.values)}
                yield row | own | {"kept": found.kept, "changed": found.changed}


def debiased_counts(copies: Mapping[str, Copy], settings: Settings) -> pa.Table:
    """One row per value of each part that went through randomised response, and of each element
    of a set.
    """
    confidence = float(settings.target.confidence)
    tables = [
        _debiased(name, copy.rows, response, observed, confidence)
        for name, copy in copies.items()
        for part, observed in zip(copy.description.parts, copy.observed, strict=True)
        for response in _responses(part)
    ]
    return pa.concat_tables([DEBIASED.empty_table(), *tables])


@dataclass(frozen=True)
class _Response:
    """The k-ary randomised response of a part to one of its columns, or to all as one value.

    ``axis`` is the column's place in the part, or None for all.
    """

    name: str
    values: tuple[str | None, ...]
    kept: float
    changed: float
    shape: tuple[int, ...]
    axis: int | None = None

    def observed(self, cells: IntArray) -> IntArray:
        """The counts of its values, from those of the part's cells."""
        if self.axis is None:
            return cells
        others = tuple(n for n in range(len(self.shape)) if n != self.axis)
        marginal: IntArray = cells.reshape(self.shape).sum(axis=others)
        return marginal


def _responses(part: PerturbedPart) -> Iterator[_Response]:
    shape = tuple(map(len, part.cells))
    for axis, kept, changed in part.law.responses():
        name = _name(part) if axis is None else part.columns[axis]
        values = _values(part) if axis is None else map(_text, part.cells[axis])
        yield _Response(name, tuple(values), kept, changed, shape, axis)


def _debiased(
    name: str, rows: int, response: _Response, cells: IntArray, confidence: float
) -> pa.Table:
    observed = response.observed(cells)
    count = len(observed)
    if count == 1:
        estimate = low = high = observed.astype(float)
    else:
        estimate, low, high = inference.debiased(
            observed, rows, response.kept, response.changed, confidence
        )
    return pa.table(
        [
            pa.array([name] * count),
            pa.array([response.name] * count),
            pa.array(response.values, _TEXT),
            pa.array(observed),
            *map(pa.array, (estimate, low, high)),
        ],
        schema=DEBIASED,
    )


def _name(part: PerturbedPart) -> str:
    return "+".join(part.columns)


def _values(part: PerturbedPart) -> Iterator[str | None]:
    """The values in the order of the codes: as text, those of several columns in one text."""
    if len(part.cells) == 1:
        yield from map(_text, part.cells[0])
        return
    for values in product(*part.cells):
        yield ", ".join(map(shown, values))


def _text(value: Value) -> str | None:
    return None if value is None else shown(value)
