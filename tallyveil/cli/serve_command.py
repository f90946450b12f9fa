"""The command `tallyveil serve` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tallyveil.cli.options import Policy

__all__ = ["serve"]

_OWN = ("host", "port", "allow_insecure", "catalog", "log_format", "log_level", "log_statements")
"""The options that the policy's ``[server]`` has no keys for."""


def serve(
    context: typer.Context,
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
    workers: Annotated[
        int | None, typer.Option(help="Processes that share the port and the ledger; 1.")
    ] = None,
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
    catalog: Annotated[
        str | None,
        typer.Option(
            help="Whose initdb and postgres answer for the catalogs.", metavar="<FOLDER|off>"
        ),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="How the log on standard error is written.")
    ] = "text",
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="The least that is logged.")
    ] = "info",
    log_statements: Annotated[
        bool, typer.Option("--log-statements", help="Log the SQL of charges and refusals, too.")
    ] = False,
) -> None:
    """Serve the policy's tables to PostgreSQL clients, until Ctrl-C."""
    from tallyveil.cli.serving import Options
    from tallyveil.cli.serving import serve as work

    given = {name: value for name, value in context.params.items() if name != "policy"}
    own = {name: given.pop(name) for name in _OWN}
    server = {
        name.replace("tls_", "tls."): str(value) if isinstance(value, Path) else value
        for name, value in given.items()
    }
    work(policy, Options(**own, server=server))
