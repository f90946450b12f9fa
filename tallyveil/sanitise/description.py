"""The description of a sanitised copy: its mechanisms and their exact laws, as JSON.

All of it is public. It is stored in the Parquet file's metadata, so that copy and description
cannot be separated by accident. Public tables of a policy are recognised as copies by it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tallyveil.arrays import IntArray
from tallyveil.errors import SourceError
from tallyveil.mechanisms.records import RECORD_LAWS, OneRecord
from tallyveil.policy import Attribute, Policy
from tallyveil.policy.domain import Value
from tallyveil.policy.sql_names import is_table_reference
from tallyveil.sanitise.copy_plan import CopyPlan

__all__ = ["KEY", "Copy", "CopyDescription", "PerturbedPart", "describe", "parsed", "read_copies"]

KEY = b"tallyveil.sanitised"
_VERSION = 1
_BY_NAME = {law.name: law for law in RECORD_LAWS.values()}


@dataclass(frozen=True)
class PerturbedPart:
    """Columns perturbed together; ``cells[i]`` are column i's values, in the order of its codes."""

    columns: tuple[str, ...]
    cells: tuple[tuple[Value, ...], ...]
    law: OneRecord


@dataclass(frozen=True)
class CopyDescription:
    """The parsed description of a copy; ``table`` is the protected table that was copied."""

    table: str
    parts: tuple[PerturbedPart, ...]


def describe(plan: CopyPlan) -> bytes:
    parts = [
        {
            "columns": [_column(attribute) for attribute in part.attributes],
            "mechanism": part.law.name,
            "epsilon": str(part.law.epsilon),
            **part.law.parameters,
        }
        for part in plan.parts
    ]
    document = {
        "version": _VERSION,
        "table": plan.table.name,
        "neighbours": plan.table.neighbours,
        "epsilon": str(plan.epsilon),
        "parts": parts,
    }
    return json.dumps(document).encode()


def _column(attribute: Attribute) -> dict[str, Any]:
    return {
        "name": attribute.name,
        "type": attribute.sql_type,
        "cells": [c.isoformat() if isinstance(c, dt.date) else c for c in attribute.cells],
    }


def parsed(text: bytes, where: str) -> CopyDescription:
    """Parse the text of `describe`. The law is built from the mechanism, its domain and ε.

    Raises SourceError for any other text or version, and if the law's parameters differ.
    """
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError("another version")
        return CopyDescription(str(document["table"]), tuple(map(_part, document["parts"])))
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise SourceError(
            f"{where}: the description of the sanitised copy cannot be read "
            f"({type(error).__name__})"
        ) from None


def _part(document: dict[str, Any]) -> PerturbedPart:
    columns: Sequence[dict[str, Any]] = document["columns"]
    cells = tuple(tuple(_value(v, c["type"]) for v in c["cells"]) for c in columns)
    shape = [len(own) for own in cells]
    law = _BY_NAME[document["mechanism"]].of(shape, Fraction(document["epsilon"]))
    if any(document[name] != value for name, value in law.parameters.items()):
        raise ValueError("the law is another one")
    return PerturbedPart(tuple(str(c["name"]) for c in columns), cells, law)


def _value(value: Any, sql_type: str) -> Value:
    if value is None or sql_type != "DATE":
        found: Value = value
        return found
    return dt.date.fromisoformat(value)


@dataclass(frozen=True, eq=False)
class Copy:
    """A public table that is a sanitised copy, with ``rows`` records.

    ``observed[n][j]`` of them lie in cell j of part n of the description. For parts with additive
    noise, nothing is counted.
    """

    description: CopyDescription
    rows: int
    observed: tuple[IntArray, ...]


def read_copies(policy: Policy, public: Mapping[str, pa.Table]) -> dict[str, Copy]:
    """Return the public tables that are complete sanitised copies. A SELECT from a copy is not one.

    Raises SourceError if the records do not match their description.
    """
    copies = {}
    for name, table in policy.public.items():
        if table.file is None or table.file.kind.name != "parquet":
            continue
        if not is_table_reference(table.origin):
            continue
        where = f"public.{name}.url"
        text = (pq.read_schema(table.file.path).metadata or {}).get(KEY)
        if text is not None:
            description = parsed(text, where)
            observed = tuple(_observed(part, public[name], where) for part in description.parts)
            copies[name] = Copy(description, public[name].num_rows, observed)
    return copies


def _observed(part: PerturbedPart, table: pa.Table, where: str) -> IntArray:
    codes = [{value: code for code, value in enumerate(cells)} for cells in part.cells]
    shape = tuple(len(cells) for cells in part.cells)
    counted = bool(part.law.responses())
    counts = np.zeros(part.law.cells if counted else 0, dtype=np.int64)
    try:
        if not counted:
            for name, code in zip(part.columns, codes, strict=True):
                for value in table[name].unique().to_pylist():
                    code[value]
            return counts
        grouped = table.group_by(list(part.columns)).aggregate([([], "count_all")])
        columns = (grouped[name].to_pylist() for name in part.columns)
        numbers = grouped["count_all"].to_pylist()
        for *values, number in zip(*columns, numbers, strict=True):
            cell = tuple(code[v] for code, v in zip(codes, values, strict=True))
            counts[np.ravel_multi_index(cell, shape)] = number
    except KeyError:
        raise SourceError(f"{where}: the records do not match their description") from None
    return counts
