"""The commands `tallyveil mechanism …` and their arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from tallyveil.cli.error_messages import Command
from tallyveil.cli.options import Json, option
from tallyveil.cli.text import Output

__all__ = ["mechanisms"]

mechanisms = typer.Typer(no_args_is_help=True, help="List, show and compare mechanisms.")

ObjectiveOption = Annotated[
    str, typer.Option(help='L0, L0,1 (and so on), L1 or L2; "L1 max" for the maximum.')
]


@mechanisms.command("list", cls=Command)
def list_(json: Json = False) -> Output:
    """List the mechanisms; with --json, also what each guarantees."""
    from tallyveil.cli.mechanisms.mechanisms import listing

    return listing()


@mechanisms.command(cls=Command)
def show(
    name: Annotated[str, typer.Argument(help="A name from `mechanism list`.", metavar="NAME")],
    n: int | None = option("The largest possible count.", None, "--n", metavar="N"),
    alpha: str | None = option("The privacy level, such as 0.9 or 10/11.", metavar="α"),
    epsilon: str | None = option("The privacy level as ε instead: α = e^−ε.", metavar="ε"),
    properties: str | None = option(
        "For best and auto: properties among RH RM CH CM F WH S, such as WH,CM."
    ),
    objective: str | None = option(
        'For best: L0, L0,1 (and so on), L1 or L2; "L1 max" for the maximum.'
    ),
    weights: str | None = option("For best: weights of the counts 0..n, such as 1,1,2,1,1."),
    quality: str | None = option("For EXP: quality of an output: distance, square or truth."),
    delta: str | None = option("For gaussian: δ, with --epsilon."),
    calibration: str | None = option("For gaussian: zcdp, analytic or subspace."),
    json: Json = False,
) -> Output:
    """Show a mechanism: its probabilities, properties, expected losses and guarantee."""
    from tallyveil.cli.mechanisms.mechanism_arguments import MechanismOptions
    from tallyveil.cli.mechanisms.mechanisms import show as work

    options = MechanismOptions(
        alpha, epsilon, n, properties, objective, weights, quality, delta, calibration
    )  # fmt: skip
    return work(name, options)


@mechanisms.command(cls=Command)
def compare(
    n: str = option("The largest possible counts.", "2,4,6,8,10,12,16,20", "--n"),
    alpha: str = option("The privacy levels.", "2/3,10/11,99/100"),
    objective: ObjectiveOption = "L0",
    json: Json = False,
) -> Output:
    """Compare the expected losses of the count mechanisms."""
    from tallyveil.cli.mechanisms.mechanisms import compare as work

    return work(n, alpha, objective)
