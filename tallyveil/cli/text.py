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
    "Output",
    "aligned",
    "down",
    "plain",
    "print_json",
    "rounded",
    "table",
    "up",
    "up_text",
]

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return a table as psql prints it: numbers to the right, and the number of rows below."""
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
    """As `aligned`, for rows as mappings, which may have other columns, too."""
    return aligned(columns, [[row[name] for name in columns] for row in rows])


class Output(NamedTuple):
    """What a command prints: ``document`` for programs, as JSON, and ``lines`` for people, with
    ``remarks`` on standard error. Of a document that is a list, JSON may have a line for ``each``
    item. What has ``failed`` ends with status 1, and shows programs its remarks, too.
    """

    document: Any
    lines: Iterable[str]
    remarks: Sequence[str] = ()
    each: bool = False
    failed: bool = False

    def print(self, *, json: bool) -> None:
        """Raises typer.Exit if it has ``failed``."""
        if json:
            for document in self.document if self.each else [self.document]:
                print_json(document)
        else:
            typer.echo("\n".join(self.lines))
        if self.remarks and (self.failed or not json):
            typer.echo("\n".join(self.remarks), err=True)
        if self.failed:
            raise typer.Exit(1)


def print_json(document: Any) -> None:
    """Print a document on one line. Raises ValueError for NaN and infinity, which JSON lacks."""
    typer.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return the value as JSON can represent it; other values become text."""
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
    """Round to six digits."""
    return float(f"{value:.6g}")


def down(value: Fraction, places: int = 6) -> float:
    """Round down to ``places`` decimals, for what remains."""
    unit: int = 10**places
    return math.floor(value * unit) / unit


def up(value: Fraction, places: int = 6) -> float:
    """Round up to ``places`` decimals, for what is spent."""
    unit: int = 10**places
    return math.ceil(value * unit) / unit


def up_text(value: Fraction) -> str:
    """Return `up` as text with all its decimals, since rounding to fewer might round it down."""
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
