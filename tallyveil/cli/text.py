"""Rows as text for people, and as JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import typer

__all__ = [
    "Said",
    "aligned",
    "down",
    "down_text",
    "plain",
    "print_json",
    "rounded",
    "table",
    "up",
    "up_text",
]

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A table as psql prints it: numbers to the right, then how many rows there are."""
    shown = [[_cell(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(_numeric(row[i]) or row[i] is None for row in rows)
        for i in range(len(columns))
    ]
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    lines = [
        " | ".join(name.center(width) for name, width in zip(columns, widths, strict=True)),
        "-+-".join("-" * width for width in widths),
    ]
    for row in shown:
        cells = zip(row, widths, right, strict=True)
        lines.append(" | ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in cells))
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    return [*(f" {line}".rstrip() for line in lines), f"({count})"]


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """`aligned`, of rows that may have more than these columns."""
    return aligned(columns, [[row[name] for name in columns] for row in rows])


class Said(NamedTuple):
    """What a command says: to a program, or to people, in lines."""

    document: Any
    lines: Iterable[str]

    def print(self, *, json: bool) -> None:
        if json:
            print_json(self.document)
        else:
            typer.echo("\n".join(self.lines))


def print_json(document: Any) -> None:
    """On one line. Raises ValueError for numbers that JSON does not have."""
    typer.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """The value as JSON has it; what JSON has no word for becomes text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case list() | tuple():
            return [plain(item) for item in value]
    return str(value)


def rounded(value: float) -> float:
    """To six digits."""
    return float(f"{value:.6g}")


def down(value: Fraction, places: int = 6) -> float:
    """To so many decimals, never more than ``value``: for what remains."""
    unit: int = 10**places
    return math.floor(value * unit) / unit


def up(value: Fraction, places: int = 6) -> float:
    """To so many decimals, never less than ``value``: for what is spent."""
    unit: int = 10**places
    return math.ceil(value * unit) / unit


def down_text(value: Fraction) -> str:
    """What `down` gives, with all of its decimals: a rounding to fewer might go the other way."""
    return f"{down(value):.12g}"


def up_text(value: Fraction) -> str:
    """What `up` gives, with all of its decimals."""
    return f"{up(value):.12g}"


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
    return str(value).translate(_CONTROL)
