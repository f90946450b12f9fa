"""Copies that a policy has made public, recognised by their description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tallyveil.errors import SourceError
from tallyveil.mechanisms.units import IntArray
from tallyveil.policy import Policy
from tallyveil.policy.names import is_table_reference
from tallyveil.sanitise.description import KEY, Described, Description, parsed

__all__ = ["Copy", "read_copies"]


@dataclass(frozen=True, eq=False)
class Copy:
    """A public table that is a sanitised copy: ``observed[n][j]`` of its ``rows`` records lie in
    cell j of part n of the description; of a part that has noise nothing is counted.
    """

    description: Description
    rows: int
    observed: tuple[IntArray, ...]


def read_copies(policy: Policy, public: Mapping[str, pa.Table]) -> dict[str, Copy]:
    """The public tables that are whole sanitised copies; a SELECT from one is a table like any.

    Raises SourceError where the records do not fit their description.
    """
    copies = {}
    for name, table in policy.public.items():
        if table.file is None or table.file.kind != "parquet":
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


def _observed(part: Described, table: pa.Table, where: str) -> IntArray:
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
        raise SourceError(f"{where}: the records do not fit their description") from None
    return counts
