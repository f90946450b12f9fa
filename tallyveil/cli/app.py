"""The commands and their arguments. The work of each is in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from tallyveil.cli.agent_commands import agents
from tallyveil.cli.error_messages import Command
from tallyveil.cli.ledger_commands import ledgers
from tallyveil.cli.mechanisms.mechanism_commands import mechanisms
from tallyveil.cli.options import Confidence, Json, PolicyPath, flag, option
from tallyveil.cli.serving.serve_command import serve
from tallyveil.cli.serving.user_commands import users
from tallyveil.cli.text import Output
from tallyveil.errors import InvalidParameterValue

__all__ = ["app"]

# Plain tracebacks only: typer's show local variables, which could be confidential.
app = typer.Typer(
    name="tallyveil",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Counts about a confidential table, answered under differential privacy.\n\n"
    "Start with: tallyveil demo",
)


def _version(wanted: bool) -> None:
    if wanted:
        from tallyveil import __version__

        typer.echo(f"tallyveil {__version__}")
        raise typer.Exit


@app.callback()
def _tallyveil(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.command(cls=Command)(serve)


def _ask(
    context: typer.Context,
    policy: PolicyPath,
    query: Annotated[str, typer.Argument(help="SQL in quotes.", metavar="SQL")],
    json: Json = False,
    dialect: Literal["postgres", "duckdb"] = option("SQL dialect.", "postgres", show_default=True),
    epsilon: str | None = option("The most the statement may cost, in ε.", metavar="ε"),
    rho: str | None = option("The most the statement may cost, in ρ instead.", metavar="ρ"),
    half_width: str | None = option(
        "Spend just enough for intervals of ± this width.", metavar="NUMBER"
    ),
    confidence: Confidence = None,
    mechanism: str | None = option("The noise: auto, laplace, gaussian, …", metavar="NAME"),
    source: str | None = option(
        "auto: spend only if history is not enough; history: never spend; fresh: always spend.",
        None,
        "--source",
        metavar="<auto|history|fresh>",
        show_default=False,
    ),
    user: str | None = option("The analyst's name; by default your login name.", metavar="NAME"),
) -> Iterator[Output]:
    from tallyveil.cli.asking import ask, explain, opened

    settings = {f"dp.{name}": context.params[name] for name in _SETTINGS}
    work = ask if context.info_name == "sql" else explain
    with opened(policy, dialect, user, settings) as session:
        yield from work(session, query)


_SETTINGS = ("epsilon", "rho", "half_width", "confidence", "mechanism", "source")
"""The options that are settings of a session."""

_ASKING = {
    "sql": "Answer SQL in this process. Several statements run in order, up to the first error.",
    "explain": "Show what queries would cost and how accurate they would be. Free.",
}
for _name, _does in _ASKING.items():
    app.command(_name, cls=Command, help=_does)(_ask)


@app.command(cls=Command)
def publish(
    policy: PolicyPath,
    through: str | None = option("The last day; by default all that are over.", metavar="DAY"),
    report: Annotated[
        bool, typer.Option("--report", help="Say what was counted, for the custodian alone.")
    ] = False,
    recount: Literal["deleted"] | None = option(
        "Count published days once more: you vouch that all rows of some persons were deleted, and"
        " nothing else.",
        metavar="deleted",
    ),
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table; may be repeated.", metavar="TABLE"),
    ] = None,
    json: Json = False,
) -> Iterator[Output]:
    """Count a version: the days that are over, of tables that grow; all rows as they are now, where
    data = "replace". A running server serves it at once."""
    from tallyveil.cli.publishing import publish as work

    recounted, tables = recount is not None, table or ()
    yield from work(policy, through, report=report, recount=recounted, tables=tables)


_For = Annotated[
    Path, typer.Option("--for", help="SQL statements, such as a dashboard's.", metavar="FILE")
]
_ForPast = Annotated[
    Path | None,
    typer.Option("--for", help="SQL statements; by default those charged before.", metavar="FILE"),
]
_Dialect = Annotated[Literal["postgres", "duckdb"], typer.Option(help="SQL dialect.")]


@app.command(cls=Command)
def plan(
    policy: PolicyPath,
    statements: _For,
    output: Path | None = option("A picture to draw: .svg, .png or .pdf.", metavar="FILE"),
    dialect: _Dialect = "postgres",
    json: Json = False,
) -> Iterator[Output]:
    """Show the errors of a file's statements against what is spent on them together. Free."""
    from tallyveil.cli.boards import plan as work

    yield from work(policy, statements, dialect, output)


@app.command(cls=Command)
def warm(
    policy: PolicyPath,
    statements: _ForPast = None,
    epsilon: str | None = option("What each table may cost, in ε.", metavar="ε"),
    rho: str | None = option("What each table may cost, in ρ instead.", metavar="ρ"),
    user: str | None = option("The analyst's name; by default your login name.", metavar="NAME"),
    dialect: _Dialect = "postgres",
    json: Json = False,
) -> Iterator[Output]:
    """Buy a file's statements together, so that each is free afterwards: at the least cost at which
    none is less precise than if it were asked alone, unless you give another."""
    from tallyveil.cli.boards import warm as work

    cost = {"epsilon": epsilon, "rho": rho}
    given = {name: value for name, value in cost.items() if value is not None}
    yield from work(policy, statements, dialect, user, given)


@app.command(cls=Command)
def init(
    source: Annotated[
        str | None,
        typer.Argument(help="The data, as a policy's source.url names it.", metavar="SOURCE"),
    ] = None,
    table: list[str] | None = option(
        "A table or view to draft; repeatable; by default all tables."
    ),
    output: Path | None = option(
        "The policy to write; by default the source's name with .toml, in this folder.",
        metavar="FILE",
    ),
    force: bool = flag("--force", "Overwrite the file if it exists."),
    from_smartnoise: Path | None = option("SmartNoise's metadata, a YAML file.", metavar="FILE"),
    look: bool = flag("--look", "Fill in values and ranges from the rows. For public data only."),
) -> Output:
    """Draft a policy from the names and types of a source's columns. Reads no rows."""
    from tallyveil.cli.drafting.init import init as work

    return work(source, from_smartnoise, table or (), output, look=look, force=force)


@app.command(cls=Command)
def check(
    policy: PolicyPath,
    json: Json = False,
    source: bool = flag("--source", "Also read the source, as `tallyveil serve` would."),
) -> Output:
    """Show what the policy protects, or what is wrong with it."""
    from tallyveil.cli.checking import check as work

    return work(policy, source=source)


@app.command(cls=Command)
def budget(policy: PolicyPath, json: Json = False) -> Output:
    """Show each table's budget and what remains of it. Reads policy and ledger, no data."""
    from tallyveil.cli.spending import budget as work

    return work(policy)


@app.command(cls=Command)
def history(
    policy: PolicyPath,
    table: Annotated[
        str | None, typer.Argument(help="A protected table; by default all.", metavar="[TABLE]")
    ] = None,
    json: Json = False,
    posterior: str | None = option(
        "Show instead a query's answers as estimated from history.", metavar="SQL"
    ),
    confidence: Confidence = None,
) -> Output:
    """Show every charge, oldest first, with the total spent so far. Free; reads no data.

    With --posterior, show the estimates of a query's answers from all answers so far, with standard
    deviation, interval and quantiles. Also free; the source is opened, but not queried.
    """
    from tallyveil.cli.asking import posterior as print_posterior
    from tallyveil.cli.spending import history as work

    if posterior is None and confidence is None:
        return work(policy, table)
    if posterior is None or table is not None:
        raise InvalidParameterValue(
            "--posterior cannot be combined with TABLE, and --confidence needs --posterior"
        )
    return print_posterior(policy, posterior, confidence)


@app.command(cls=Command)
def sanitise(
    policy: PolicyPath,
    table: Annotated[str, typer.Argument(help="The protected table.", metavar="TABLE")],
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


@app.command(cls=Command)
def migrate(
    policy: PolicyPath,
    yes: bool = flag("--yes", "Do it; without this option, only show what it would do."),
    vouch: Literal["same-rows"] | None = option(
        "You answer for it that the source, which was moved, holds the same rows."
    ),
    recoded: list[str] | None = option(
        "A label that was changed in the source, as person.sex:F=female; repeatable.",
        metavar="TABLE.ATTRIBUTE:OLD=NEW",
    ),
    json: Json = False,
) -> Output:
    """Carry the ledger to the policy's changed tables, with what was spent and answered."""
    from tallyveil.cli.migration import migrate as work

    return work(policy, vouch is not None, recoded or (), yes=yes)


@app.command(cls=Command)
def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="The mechanisms; by default all.", metavar="NAME")
    ] = None,
    epsilon: list[str] | None = option(
        "The ε to test at; repeatable; by default 0.25 and 1.", metavar="ε"
    ),
    draws: int = option("Draws from each of two inputs, for each test of a sampler.", 20_000),
    json: Json = False,
) -> Output:
    """Test the mechanisms' guarantees. Free; reads no confidential data."""
    from tallyveil.cli.auditing import run

    return run(names or (), epsilon or ("0.25", "1"), draws)


@app.command(cls=Command)
def demo(
    folder: Path = option("The folder for the demo's files.", Path("demo")),
    port: int = option("The port to listen on; 0: any free one.", 0, min=0, max=65535),
    rows: int = option("The number of synthetic people.", 200_000, min=0),
    stay: bool | None = option(
        "Keep serving after the tour; the default on a terminal.",
        None,
        "--serve/--no-serve",
        show_default=False,
    ),
) -> None:
    """Create a synthetic table, serve it, and ask a few questions through a PostgreSQL client."""
    from tallyveil.cli.demo import demo as work

    work(folder, port, rows, stay)


app.add_typer(mechanisms, name="mechanism")
app.add_typer(users, name="user")
app.add_typer(agents, name="agent")
app.add_typer(ledgers, name="ledger")
