"""The commands that release much at once: `tallyveil sanitise` and `tallyveil warm`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.options import Json, Policy, Table
from tallyveil.cli.text import Said

__all__ = ["sanitise", "warm"]


def sanitise(
    policy: Policy,
    table: Table,
    epsilon: Annotated[str, typer.Option(help="What the copy costs, in ε.", metavar="ε")],
    out: Annotated[Path, typer.Option(help="The Parquet file to make.", metavar="FILE")],
    columns: Annotated[
        str | None, typer.Option(help="Those to copy, such as sex,age; all unless given.")
    ] = None,
    together: Annotated[
        list[str] | None,
        typer.Option(help="Columns to perturb as one value, such as sex+state. Repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Boolean columns that are one set, such as chess+golf. Repeatable."
        ),
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(
            help="Range columns that are one series, such as january+february. Repeatable."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Shares of ε, such as sex=0.5,age=1; evenly unless given."),
    ] = None,
    laplace: Annotated[
        str | None,
        typer.Option(help="Range columns to get Laplace noise instead of randomised response."),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(help="Make it (ε, δ)-private, at a cost of ε − ln(1−δ).", metavar="δ"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what the errors would be. Free.")
    ] = False,
    json: Json = False,
) -> Said:
    """Release a copy of a table, every record perturbed once, to be queried freely."""
    from tallyveil.cli.sanitising import options, release

    asked = options(
        epsilon, columns, together or (), set_ or (), series or (), split, laplace, delta
    )
    return release(policy, table, asked, out, dry=dry_run)


def warm(
    policy: Policy,
    table: Table,
    strategy: Annotated[
        str,
        typer.Option(help="identity, marginals:K or tree:ATTRIBUTE[:FANOUT].", metavar="STRATEGY"),
    ],
    epsilon: Annotated[
        str | None, typer.Option(help="What it may cost in all, in ε.", metavar="ε")
    ] = None,
    rho: Annotated[
        str | None, typer.Option(help="What it may cost in all, in ρ instead.", metavar="ρ")
    ] = None,
    attributes: Annotated[
        str | None, typer.Option(help="Those to count by, such as sex,age; all unless given.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how wide intervals would be. Free.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Spend without asking.")] = False,
    json: Json = False,
) -> None:
    """Release many counts at once, so that later questions are answered from them, free."""
    from tallyveil.cli.warming import price
    from tallyveil.cli.warming import warm as work

    names = None if attributes is None else [name.strip() for name in attributes.split(",")]
    cost = price(epsilon, rho)
    work(policy, table, strategy, names, cost, dry=dry_run, yes=yes, json=json)
