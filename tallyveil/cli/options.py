"""The arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Confidence", "Json", "Policy", "Table"]

Policy = Annotated[Path, typer.Argument(help="The policy, a TOML file.", metavar="POLICY")]
Table = Annotated[str, typer.Argument(help="The protected table.", metavar="TABLE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Confidence = Annotated[str | None, typer.Option(help="Of the intervals, such as 0.95.")]
