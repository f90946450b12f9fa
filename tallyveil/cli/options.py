"""The arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = [
    "Confidence",
    "Dialect",
    "Epsilon",
    "HalfWidth",
    "Json",
    "Mechanism",
    "Policy",
    "Query",
    "Rho",
    "Source",
    "Table",
    "User",
]

Policy = Annotated[Path, typer.Argument(help="The policy, a TOML file.", metavar="POLICY")]
Table = Annotated[str, typer.Argument(help="The protected table.", metavar="TABLE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Query = Annotated[str, typer.Argument(help="SQL in quotes.", metavar="SQL")]
Dialect = Annotated[
    Literal["postgres", "duckdb"], typer.Option(help="Whose SQL it is.", show_default=True)
]
Epsilon = Annotated[
    str | None, typer.Option(help="What the statement may cost, in ε.", metavar="ε")
]
Rho = Annotated[
    str | None, typer.Option(help="What the statement may cost, in ρ instead.", metavar="ρ")
]
HalfWidth = Annotated[
    str | None, typer.Option(help="Buy just enough for intervals ± this.", metavar="NUMBER")
]
Confidence = Annotated[str | None, typer.Option(help="Of the intervals, such as 0.95.")]
Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="auto; history: never spend; fresh: always buy.",
        metavar="<auto|history|fresh>",
        show_default=False,
    ),
]
Mechanism = Annotated[
    str | None, typer.Option(help="The noise: auto, laplace, gaussian, …", metavar="NAME")
]
User = Annotated[
    str | None,
    typer.Option(help="The analyst who asks; your login name unless given.", metavar="NAME"),
]
