"""The commands and their arguments; what each does is in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tallyveil.cli.agent_commands import agents
from tallyveil.cli.error_messages import Command
from tallyveil.cli.mechanisms.mechanism_commands import mechanisms
from tallyveil.cli.options import Confidence, Json, PolicyPath, flag, option
from tallyveil.cli.release_commands import sanitise, warm
from tallyveil.cli.serving.serve_command import serve
from tallyveil.cli.serving.user_commands import users
from tallyveil.cli.text import Said
from tallyveil.errors import InvalidParameterValue

__all__ = ["app"]

# A traceback with local variables could show a confidential value: plain ones only.
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
    epsilon: str | None = option("What the statement may cost, in ε.", metavar="ε"),
    rho: str | None = option("What the statement may cost, in ρ instead.", metavar="ρ"),
    half_width: str | None = option("Buy just enough for intervals ± this.", metavar="NUMBER"),
    confidence: Confidence = None,
    mechanism: str | None = option("The noise: auto, laplace, gaussian, …", metavar="NAME"),
    source: str | None = option(
        "auto; history: never spend; fresh: always buy.",
        None,
        "--source",
        metavar="<auto|history|fresh>",
        show_default=False,
    ),
    user: str | None = option(
        "The analyst who asks; your login name unless given.", metavar="NAME"
    ),
) -> None:
    from tallyveil.cli.asking import ask, explain, opened

    settings = {f"dp.{name}": context.params[name] for name in _SETTINGS}
    work = ask if context.info_name == "sql" else explain
    with opened(policy, dialect, user, settings) as session:
        work(session, query, json=json)


_SETTINGS = ("epsilon", "rho", "half_width", "confidence", "mechanism", "source")
"""The options that are settings of a session."""

_ASKING = {
    "sql": "Answer SQL in this process. Several statements run in order, stopping at an error.",
    "explain": "Say what a query would cost and how exact it would be. Free.",
}
for _name, _does in _ASKING.items():
    app.command(_name, cls=Command, help=_does)(_ask)


@app.command(cls=Command)
def check(
    policy: PolicyPath,
    json: Json = False,
    source: bool = flag("--source", "Read the source as well, as serving would."),
) -> Said:
    """Say what the policy protects, or what is wrong with it."""
    from tallyveil.cli.checking import check as work

    return work(policy, source=source)


@app.command(cls=Command)
def budget(policy: PolicyPath, json: Json = False) -> Said:
    """Show what each table's budget is and what remains. Reads policy and ledger, no data."""
    from tallyveil.cli.spending import budget as work

    return work(policy)


@app.command(cls=Command)
def history(
    policy: PolicyPath,
    table: Annotated[
        str | None, typer.Argument(help="A protected table; all unless given.", metavar="[TABLE]")
    ] = None,
    json: Json = False,
    plot: Path | None = option(
        "Draw the spending, or the posteriors, to .png, .svg or .pdf.", metavar="FILE"
    ),
    posterior: str | None = option(
        "Show instead what history says of a query's answers.", metavar="SQL"
    ),
    confidence: Confidence = None,
) -> Said:
    """Show every charge, oldest first, and what was spent by then. Free; reads no data.

    With --posterior, what follows from all answers so far about a query's true answers: its
    standard deviation, interval and quantiles. Free, too; the source is opened and not looked at.
    """
    from tallyveil.cli.asking import posterior as print_posterior
    from tallyveil.cli.spending import history as work

    if posterior is None and confidence is None:
        return work(policy, table, plot)
    if posterior is None or table is not None:
        raise InvalidParameterValue(
            "--posterior goes with a query alone, and --confidence with --posterior"
        )
    return print_posterior(policy, posterior, confidence, plot)


app.command(cls=Command)(sanitise)
app.command(cls=Command)(warm)


@app.command(cls=Command)
def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="The mechanisms; all unless given.", metavar="NAME")
    ] = None,
    epsilon: list[str] | None = option(
        "At which ε; repeatable; 0.25 and 1 unless given.", metavar="ε"
    ),
    draws: int = option("From each of two inputs, for each test of a sampler.", 20_000),
    json: Json = False,
) -> None:
    """Put the mechanisms' claims to the test. Reads no confidential data, and is free."""
    from tallyveil.cli.auditing import run

    run(names or (), epsilon or ("0.25", "1"), draws, json=json)


@app.command(cls=Command)
def demo(
    folder: Path = option("Where the demo keeps its files.", Path("demo")),
    port: int = option("0 takes any free one.", 0, min=0, max=65535),
    rows: int = option("How many people to make up.", 200_000, min=0),
    stay: bool | None = option(
        "Keep serving after the tour, as is usual on a terminal.",
        None,
        "--serve/--no-serve",
        show_default=False,
    ),
) -> None:
    """Make up a table, serve it, and ask it a few questions through a PostgreSQL client."""
    from tallyveil.cli.demo import demo as work

    work(folder, port, rows, stay)


app.add_typer(mechanisms, name="mechanism")
app.add_typer(users, name="user")
app.add_typer(agents, name="agent")
