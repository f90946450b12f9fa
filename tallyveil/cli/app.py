"""The commands and their arguments; what each does is in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tallyveil.cli.error_messages import complaints
from tallyveil.cli.mechanism_commands import mechanisms
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

Policy = Annotated[Path, typer.Argument(help="The policy, a TOML file.", metavar="POLICY")]
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


@app.command()
def serve(
    policy: Policy,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free one.", min=0, max=65535)] = 5432,
    users: Annotated[
        Path | None,
        typer.Option(help="Who may connect, see `tallyveil user`; by default beside the policy."),
    ] = None,
    plaintext_passwords: Annotated[
        bool | None, typer.Option("--plaintext-passwords", help="Take plain passwords in it, too.")
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="The server's certificate, and those that lead to its CA.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    tls_self_signed: Annotated[
        bool | None,
        typer.Option("--tls-self-signed", help="Make both if there are none, for a first run."),
    ] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Who signs the certificates of clients.")
    ] = None,
    tls_clientcert: Annotated[
        str | None,
        typer.Option(
            help="verify-full: beside a password; cert: instead.", metavar="<verify-full|cert>"
        ),
    ] = None,
    allow_insecure: Annotated[
        bool,
        typer.Option("--allow-insecure", help="Listen elsewhere without TLS or without users."),
    ] = False,
    max_connections: Annotated[
        int | None, typer.Option(help="Clients that may be logged in at a time; 100.")
    ] = None,
    max_user_connections: Annotated[
        int | None, typer.Option(help="Of one user; all unless given.")
    ] = None,
    max_message: Annotated[int | None, typer.Option(help="MiB of one message; 1.")] = None,
    memory: Annotated[
        int | None,
        typer.Option(help="MiB kept for all clients: results, parameters, statements; 512."),
    ] = None,
    connection_memory: Annotated[
        int | None, typer.Option(help="MiB kept for one connection; 128.")
    ] = None,
    startup_timeout: Annotated[
        float | None, typer.Option(help="Seconds a client may take to log in; 10.")
    ] = None,
    statement_timeout: Annotated[
        float | None, typer.Option(help="Seconds a statement may take; 10.")
    ] = None,
    idle_timeout: Annotated[
        float | None, typer.Option(help="Seconds a client may ask nothing; for ever unless given.")
    ] = None,
    send_timeout: Annotated[
        float | None, typer.Option(help="Seconds a client may leave its answer unread; 300.")
    ] = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="How the log on standard error is written.")
    ] = "text",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="The least that is logged."),
    ] = "info",
    log_statements: Annotated[
        bool,
        typer.Option("--log-statements", help="Log the SQL of charges and refusals, too."),
    ] = False,
) -> None:
    """Serve the policy's tables to PostgreSQL clients, until Ctrl-C."""
    from tallyveil.cli.serving import Options
    from tallyveil.cli.serving import serve as work

    server = {
        "users": users and str(users),
        "plaintext_passwords": plaintext_passwords,
        "tls.certificate": tls_certificate and str(tls_certificate),
        "tls.key": tls_key and str(tls_key),
        "tls.self_signed": tls_self_signed,
        "tls.client_ca": tls_client_ca and str(tls_client_ca),
        "tls.clientcert": tls_clientcert,
        "max_connections": max_connections,
        "max_user_connections": max_user_connections,
        "max_message": max_message,
        "memory": memory,
        "connection_memory": connection_memory,
        "startup_timeout": startup_timeout,
        "statement_timeout": statement_timeout,
        "idle_timeout": idle_timeout,
        "send_timeout": send_timeout,
    }
    options = Options(
        host=host,
        port=port,
        allow_insecure=allow_insecure,
        server=server,
        log_format=log_format,
        log_level=log_level,
        log_statements=log_statements,
    )
    with complaints():
        work(policy, options)


def _settings(*given: str | None) -> dict[str, str | None]:
    """Of a session, by the options that set them."""
    names = ("epsilon", "rho", "half_width", "confidence", "mechanism", "source")
    return {f"dp.{name}": value for name, value in zip(names, given, strict=True)}


@app.command()
def sql(
    policy: Policy,
    query: Query,
    json: Json = False,
    dialect: Dialect = "postgres",
    epsilon: Epsilon = None,
    rho: Rho = None,
    half_width: HalfWidth = None,
    confidence: Confidence = None,
    mechanism: Mechanism = None,
    source: Source = None,
    user: User = None,
) -> None:
    """Answer SQL in this process. Several statements run in order, stopping at an error."""
    from tallyveil.cli.asking import ask

    settings = _settings(epsilon, rho, half_width, confidence, mechanism, source)
    with complaints(query, json=json):
        ask(policy, query, dialect, user, settings, json=json)


@app.command()
def explain(
    policy: Policy,
    query: Query,
    json: Json = False,
    dialect: Dialect = "postgres",
    epsilon: Epsilon = None,
    rho: Rho = None,
    half_width: HalfWidth = None,
    confidence: Confidence = None,
    mechanism: Mechanism = None,
    source: Source = None,
    user: User = None,
) -> None:
    """Say what a query would cost and how exact it would be. Free."""
    from tallyveil.cli.asking import explain as work

    settings = _settings(epsilon, rho, half_width, confidence, mechanism, source)
    with complaints(query, json=json):
        work(policy, query, dialect, user, settings, json=json)


@app.command()
def check(
    policy: Policy,
    json: Json = False,
    source: Annotated[
        bool, typer.Option("--source", help="Read the source as well, as serving would.")
    ] = False,
) -> None:
    """Say what the policy protects, or what is wrong with it."""
    from tallyveil.cli.checking import check as work

    with complaints(json=json):
        work(policy, json=json, source=source)


@app.command()
def budget(policy: Policy, json: Json = False) -> None:
    """Show what each table's budget is and what remains. Reads policy and ledger, no data."""
    from tallyveil.cli.balance import budget as work

    with complaints(json=json):
        work(policy, json=json)


@app.command()
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
) -> None:
    """Show every charge, oldest first, and what was spent by then. Free; reads no data.

    With --posterior, what follows from all answers so far about a query's true answers: its
    standard deviation, interval and quantiles. Free, too; the source is opened and not looked at.
    """
    from tallyveil.cli.posterior import posterior as believe
    from tallyveil.cli.spending import history as work

    with complaints(posterior, json=json):
        if posterior is None and confidence is None:
            work(policy, table, plot, json=json)
        elif posterior is None or table is not None:
            raise InvalidParameterValue(
                "--posterior goes with a query alone, and --confidence with --posterior"
            )
        else:
            believe(policy, posterior, confidence, plot, json=json)


@app.command()
def sanitise(
    policy: Policy,
    table: Annotated[str, typer.Argument(help="The protected table.", metavar="TABLE")],
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
) -> None:
    """Release a copy of a table, every record perturbed once, to be queried freely."""
    from tallyveil.cli.sanitising import options, release

    with complaints(json=json):
        asked = options(
            epsilon, columns, together or (), set_ or (), series or (), split, laplace, delta
        )
        release(policy, table, asked, out, dry=dry_run, json=json)


@app.command()
def warm(
    policy: Policy,
    table: Annotated[str, typer.Argument(help="The protected table.", metavar="TABLE")],
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

    with complaints(json=json):
        names = None if attributes is None else [name.strip() for name in attributes.split(",")]
        cost = price(epsilon, rho)
        work(policy, table, strategy, names, cost, dry=dry_run, yes=yes, json=json)


@app.command()
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

    with complaints(json=json):
        run(names or (), epsilon or ("0.25", "1"), draws, json=json)


@app.command()
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

    with complaints():
        work(folder, port, rows, stay)


app.add_typer(mechanisms, name="mechanism")
app.add_typer(users, name="user")
