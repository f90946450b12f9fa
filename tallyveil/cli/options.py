"""Declarations of options, and the arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["Confidence", "Json", "PolicyPath", "flag", "option"]

PolicyPath = Annotated[Path, typer.Argument(help="The policy, a TOML file.", metavar="POLICY")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Confidence = Annotated[str | None, typer.Option(help="The confidence of intervals, such as 0.95.")]


def option(text: str, default: Any = None, *names: str, **more: Any) -> Any:
    """Return an option with this help, as a parameter's default; ``more`` goes to typer."""
    return typer.Option(default, *names, help=text, **more)


def flag(name: str, text: str, default: bool | None = False) -> Any:
    """Return an option that takes no value."""
    return typer.Option(default, name, help=text)
