"""The commands `tallyveil mechanism …` and their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.error_messages import Command
from tallyveil.cli.options import Json
from tallyveil.cli.text import Said

__all__ = ["mechanisms"]

mechanisms = typer.Typer(no_args_is_help=True, help="Look at mechanisms: list, show, compare.")

Plot = Annotated[
    Path | None, typer.Option(help="Draw it, too, into a .png, .svg or .pdf.", metavar="FILE")
]
Objective = Annotated[
    str, typer.Option(help="L0, L0,1 (and so on), L1 or L2; with sum or max behind.")
]


@mechanisms.command("list", cls=Command)
def list_(json: Json = False) -> Said:
    """List the mechanisms and what each guarantees."""
    from tallyveil.cli.mechanisms import listing

    return listing()


@mechanisms.command(cls=Command)
def show(
    name: Annotated[str, typer.Argument(help="As listed.", metavar="NAME")],
    n: Annotated[
        int | None, typer.Option("--n", help="The largest possible count.", metavar="N")
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="The privacy level, such as 0.9 or 10/11.", metavar="α")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The privacy level instead: α = e^−ε.", metavar="ε")
    ] = None,
    properties: Annotated[
        str | None, typer.Option(help="For best and auto: of RH RM CH CM F WH S, such as WH,CM.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="For best: L0, L0,1 …, L1 or L2; sum or max behind.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="For best: of the counts 0..n, such as 1,1,2,1,1.")
    ] = None,
    quality: Annotated[
        str | None, typer.Option(help="For EXP: of an output, by distance, square or truth.")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="For gaussian, with --epsilon.")] = None,
    calibration: Annotated[
        str | None, typer.Option(help="For gaussian: zcdp, analytic or subspace.")
    ] = None,
    sensitivity: Annotated[
        int | None, typer.Option(help="For staircase: how far a record moves the answer.")
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> Said:
    """Show one: its probabilities, properties, expected losses, and what it guarantees."""
    from tallyveil.cli.mechanism_arguments import Options
    from tallyveil.cli.mechanisms import show as work

    options = Options(
        alpha, epsilon, n, properties, objective, weights, quality, delta, calibration,
        sensitivity, plot,
    )  # fmt: skip
    return work(name, options)


@mechanisms.command(cls=Command)
def compare(
    n: Annotated[
        str, typer.Option("--n", help="The largest possible counts.")
    ] = "2,4,6,8,10,12,16,20",
    alpha: Annotated[str, typer.Option(help="The privacy levels.")] = "2/3,10/11,99/100",
    objective: Objective = "L0",
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Compare the expected losses of the count mechanisms."""
    from tallyveil.cli.mechanisms import compare as work

    work(n, alpha, objective, plot, json=json)
