"""The commands and their arguments; what each does is in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tallyveil.cli.agent_commands import agents
from tallyveil.cli.error_messages import Command
from tallyveil.cli.mechanism_commands import mechanisms
from tallyveil.cli.options import Confidence, Json, Policy
from tallyveil.cli.release_commands import sanitise, warm
from tallyveil.cli.serve_command import serve
from tallyveil.cli.text import Said
from tallyveil.cli.user_commands import users
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
    policy: Policy,
    query: Annotated[str, typer.Argument(help="SQL in quotes.", metavar="SQL")],
    json: Json = False,
    dialect: Annotated[
        Literal["postgres", "duckdb"], typer.Option(help="Whose SQL it is.", show_default=True)
    ] = "postgres",
    epsilon: Annotated[
        str | None, typer.Option(help="What the statement may cost, in ε.", metavar="ε")
    ] = None,
    rho: Annotated[
        str | None, typer.Option(help="What the statement may cost, in ρ instead.", metavar="ρ")
    ] = None,
    half_width: Annotated[
        str | None, typer.Option(help="Buy just enough for intervals ± this.", metavar="NUMBER")
    ] = None,
    confidence: Confidence = None,
    mechanism: Annotated[
        str | None, typer.Option(help="The noise: auto, laplace, gaussian, …", metavar="NAME")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="auto; history: never spend; fresh: always buy.",
            metavar="<auto|history|fresh>",
            show_default=False,
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="The analyst who asks; your login name unless given.", metavar="NAME"),
    ] = None,
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
    policy: Policy,
    json: Json = False,
    source: Annotated[
        bool, typer.Option("--source", help="Read the source as well, as serving would.")
    ] = False,
) -> Said:
    """Say what the policy protects, or what is wrong with it."""
    from tallyveil.cli.checking import check as work

    return work(policy, source=source)


@app.command(cls=Command)
def budget(policy: Policy, json: Json = False) -> Said:
    """Show what each table's budget is and what remains. Reads policy and ledger, no data."""
    from tallyveil.cli.spending import budget as work

    return work(policy)


@app.command(cls=Command)
def history(
    policy: Policy,
    table: Annotated[
        str | None, typer.Argument(help="A protected table; all unless given.", metavar="[TABLE]")
    ] = None,
    json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw the spending, or the posteriors, to .png, .svg or .pdf.", metavar="FILE"
        ),
    ] = None,
    posterior: Annotated[
        str | None,
        typer.Option(help="Show instead what history says of a query's answers.", metavar="SQL"),
    ] = None,
    confidence: Confidence = None,
) -> Said:
    """Show every charge, oldest first, and what was spent by then. Free; reads no data.

    With --posterior, what follows from all answers so far about a query's true answers: its
    standard deviation, interval and quantiles. Free, too; the source is opened and not looked at.
    """
    from tallyveil.cli.asking import posterior as believe
    from tallyveil.cli.spending import history as work

    if posterior is None and confidence is None:
        return work(policy, table, plot)
    if posterior is None or table is not None:
        raise InvalidParameterValue(
            "--posterior goes with a query alone, and --confidence with --posterior"
        )
    return believe(policy, posterior, confidence, plot)


app.command(cls=Command)(sanitise)
app.command(cls=Command)(warm)


@app.command(cls=Command)
def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="The mechanisms; all unless given.", metavar="NAME")
    ] = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="At which ε; repeatable; 0.25 and 1 unless given.", metavar="ε"),
    ] = None,
    draws: Annotated[
        int, typer.Option(help="From each of two inputs, for each test of a sampler.")
    ] = 20_000,
    json: Json = False,
) -> None:
    """Put the mechanisms' claims to the test. Meets no confidential data, and is free."""
    from tallyveil.cli.auditing import run

    run(names or (), epsilon or ("0.25", "1"), draws, json=json)


@app.command(cls=Command)
def demo(
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its files.")] = Path("demo"),
    port: Annotated[int, typer.Option(help="0 takes any free one.", min=0, max=65535)] = 0,
    rows: Annotated[int, typer.Option(help="How many people to make up.", min=0)] = 200_000,
    stay: Annotated[
        bool | None,
        typer.Option(
            "--serve/--no-serve",
            help="Keep serving after the tour, as is usual on a terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make up a table, serve it, and ask it a few questions through a PostgreSQL client."""
    from tallyveil.cli.demo import demo as work

    work(folder, port, rows, stay)


app.add_typer(mechanisms, name="mechanism")
app.add_typer(users, name="user")
app.add_typer(agents, name="agent")
