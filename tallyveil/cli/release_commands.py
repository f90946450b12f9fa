"""The commands that release much at once: `tallyveil sanitise` and `tallyveil warm`."""

from __future__ import annotations

from pathlib import Path

from tallyveil.cli.options import Json, PolicyPath, TableName, flag, option
from tallyveil.cli.text import Said

__all__ = ["sanitise", "warm"]


def sanitise(
    policy: PolicyPath,
    table: TableName,
    epsilon: str = option("What the copy costs, in ε.", ..., metavar="ε"),
    out: Path = option("The Parquet file to make.", ..., metavar="FILE"),
    columns: str | None = option("Those to copy, such as sex,age; all unless given."),
    together: list[str] | None = option(
        "Columns to perturb as one value, such as sex+state. Repeatable."
    ),
    set_: list[str] | None = option(
        "Boolean columns that are one set, such as chess+golf. Repeatable.", None, "--set"
    ),
    series: list[str] | None = option(
        "Range columns that are one series, such as january+february. Repeatable."
    ),
    split: str | None = option("Shares of ε, such as sex=0.5,age=1; evenly unless given."),
    laplace: str | None = option(
        "Range columns to get Laplace noise instead of randomised response."
    ),
    delta: str | None = option("Make it (ε, δ)-private, at a cost of ε − ln(1−δ).", metavar="δ"),
    dry_run: bool = flag("--dry-run", "Only say what the errors would be. Free."),
    json: Json = False,
) -> Said:
    """Release a copy of a table, every record perturbed once, to be queried freely."""
    from tallyveil.cli.sanitising import options, release

    asked = options(
        epsilon, columns, together or (), set_ or (), series or (), split, laplace, delta
    )
    return release(policy, table, asked, out, dry=dry_run)


def warm(
    policy: PolicyPath,
    table: TableName,
    strategy: str = option(
        "identity, marginals:K or tree:ATTRIBUTE[:FANOUT].", ..., metavar="STRATEGY"
    ),
    epsilon: str | None = option("What it may cost in all, in ε.", metavar="ε"),
    rho: str | None = option("What it may cost in all, in ρ instead.", metavar="ρ"),
    attributes: str | None = option("Those to count by, such as sex,age; all unless given."),
    dry_run: bool = flag("--dry-run", "Only say how wide intervals would be. Free."),
    yes: bool = flag("--yes", "Spend without asking."),
    json: Json = False,
) -> None:
    """Release many counts at once, so that later questions are answered from them, free."""
    from tallyveil.cli.warming import price
    from tallyveil.cli.warming import warm as work

    names = None if attributes is None else [name.strip() for name in attributes.split(",")]
    cost = price(epsilon, rho)
    work(policy, table, strategy, names, cost, dry=dry_run, yes=yes, json=json)
