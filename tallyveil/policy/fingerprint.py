"""A stable digest of the declarations that a ledger is bound to."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tallyveil.policy.domain import Attribute, Domain, Value

__all__ = ["digest"]


def digest(
    origin: Sequence[str | None],
    neighbours: str,
    unit: Sequence[str | int | None],
    domain: Domain,
    columns: Sequence[str],
) -> str:
    """Return BLAKE2b (128 bits, hexadecimal) of the canonical JSON of all arguments.

    Equal declarations have equal digests on every platform: keys are sorted, text is ASCII,
    floats are written as their shortest exact decimal, and cells include their type, so that
    the text "1" and the number 1 differ.
    """
    document: dict[str, Any] = {
        "version": 1,
        "origin": list(origin),
        "neighbours": neighbours,
        "unit": list(unit),
        "attributes": [
            _attribute(a, column) for a, column in zip(domain.attributes, columns, strict=True)
        ],
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def _attribute(a: Attribute, column: str) -> dict[str, Any]:
    """The declaration of an attribute. A range in steps has its ends instead of its cells."""
    cells = a.cells if a.step is None or a.ends is None else a.ends
    return {
        "name": a.name,
        "column": column,
        "kind": a.kind,
        "type": a.sql_type,
        "cells": [_cell(c) for c in cells],
        "edges": None if a.edges is None else [_cell(e) for e in a.edges],
        "null": a.null_cell,
        "other": a.other_cell,
        "clamp": a.clamp,
        **({} if a.step is None else {"step": a.step_text}),
        **({} if a.prefix is None else {"prefix": a.prefix}),
    }


def _cell(value: Value) -> Any:
    if isinstance(value, dt.date | dt.time):
        return {"date": value.isoformat()}
    return str(value) if isinstance(value, Decimal) else value
