"""How commands declare their options, and the arguments and options that several have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["Confidence", "Json", "PolicyPath", "TableName", "flag", "option"]

PolicyPath = Annotated[Path, typer.Argument(help="The policy, a TOML file.", metavar="POLICY")]
TableName = Annotated[str, typer.Argument(help="The protected table.", metavar="TABLE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Confidence = Annotated[str | None, typer.Option(help="Of the intervals, such as 0.95.")]


def option(text: str, default: Any = None, *names: str, **more: Any) -> Any:
    """An option with this help, as the default value of a parameter; ``more`` is typer's own."""
    return typer.Option(default, *names, help=text, **more)


def flag(name: str, text: str, default: bool | None = False) -> Any:
    """An option that takes no value."""
    return typer.Option(default, name, help=text)
