"""Declarations that lose values which the column's type admits, from the types alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tallyveil.policy import Attribute, Table

__all__ = ["type_losses"]

_ZONED: Final = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")


def type_losses(table: Table, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each whole-number attribute over one of the ``columns``, with their types,
    that holds numbers with decimals, and for each timestamp over one that holds instants."""
    for attribute, column in zip(table.domain.attributes, table.columns, strict=False):
        kind = columns.get(column.lower(), "")
        whole = attribute.sql_type in ("INTEGER", "BIGINT") and not attribute.binned
        if whole and attribute.step is None and _has_decimals(kind):
            yield (
                f"warning: {attribute.name} of {table.name} is declared as whole numbers, but"
                f" {column} is {kind} in the source: a number with decimals {_fate(attribute)}."
                " To round it, declare a step too, such as step = 1 or step = 0.01."
            )
        if attribute.sql_type == "TIMESTAMP" and attribute.ends and kind.startswith(_ZONED):
            low, high = attribute.ends
            yield (
                f"warning: {attribute.name} of {table.name} is declared without a zone, but"
                f" {column} is {kind} in the source: it is read in UTC. To count instants, which"
                " each session sees in its own time zone, declare the ends with offsets:"
                f" range = [{low}Z, {high}Z]."
            )


def _has_decimals(kind: str) -> bool:
    return kind in ("FLOAT", "DOUBLE") or (kind.startswith("DECIMAL") and ",0)" not in kind)


def _fate(attribute: Attribute) -> str:
    if attribute.other_cell is not None or (attribute.clamp and attribute.null_cell is not None):
        return "is counted as NULL"
    return "is left out"
