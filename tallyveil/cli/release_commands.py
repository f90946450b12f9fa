"""The commands that release many counts or records at once: `tallyveil sanitise` and `warm`."""

from __future__ import annotations

from pathlib import Path

from tallyveil.cli.options import Json, PolicyPath, TableName, flag, option
from tallyveil.cli.text import Output

__all__ = ["sanitise", "warm"]


def sanitise(
    policy: PolicyPath,
    table: TableName,
    epsilon: str = option("The cost of the copy, in ε.", ..., metavar="ε"),
    out: Path = option("The Parquet file to create.", ..., metavar="FILE"),
    columns: str | None = option("The columns to copy, such as sex,age; by default all."),
    together: list[str] | None = option(
        "Columns to perturb as one value, such as sex+state. Repeatable."
    ),
    set_: list[str] | None = option(
        "Boolean columns that form one set, such as chess+golf. Repeatable.", None, "--set"
    ),
    series: list[str] | None = option(
        "Range columns that form one series, such as january+february. Repeatable."
    ),
    split: str | None = option("Shares of ε, such as sex=0.5,age=1; by default equal."),
    laplace: str | None = option(
        "Range columns that get Laplace noise instead of randomised response."
    ),
    delta: str | None = option("Make it (ε, δ)-private, at a cost of ε − ln(1−δ).", metavar="δ"),
    dry_run: bool = flag("--dry-run", "Only show the expected errors. Free."),
    json: Json = False,
) -> Output:
    """Release a copy of a table with every record perturbed once, for unlimited queries."""
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
    epsilon: str | None = option("The most it may cost in total, in ε.", metavar="ε"),
    rho: str | None = option("The most it may cost in total, in ρ instead.", metavar="ρ"),
    attributes: str | None = option("Attributes to count by, such as sex,age; by default all."),
    dry_run: bool = flag("--dry-run", "Only show the widths of intervals. Free."),
    yes: bool = flag("--yes", "Spend without confirmation."),
    json: Json = False,
) -> None:
    """Release many counts at once. Later questions are answered from them, free."""
    from tallyveil.cli.warming import price
    from tallyveil.cli.warming import warm as work

    names = None if attributes is None else [name.strip() for name in attributes.split(",")]
    cost = price(epsilon, rho)
    work(policy, table, strategy, names, cost, dry=dry_run, yes=yes, json=json)
