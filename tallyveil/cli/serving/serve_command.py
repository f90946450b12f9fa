"""The command `tallyveil serve` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from tallyveil.cli.options import PolicyPath, flag, option

__all__ = ["serve"]

_OWN = ("host", "port", "allow_insecure", "catalog", "log_format", "log_level", "log_statements")
"""The options that the policy's ``[server]`` has no keys for."""


def serve(
    context: typer.Context,
    policy: PolicyPath,
    host: str = option("The address to listen on.", "127.0.0.1"),
    port: int = option("0 takes any free one.", 5432, min=0, max=65535),
    users: Path | None = option(
        "Who may connect, see `tallyveil user`; by default beside the policy."
    ),
    plaintext_passwords: bool | None = flag(
        "--plaintext-passwords", "Take plain passwords in it, too.", None
    ),
    tls_certificate: Path | None = option(
        "The server's certificate, and those that lead to its CA."
    ),
    tls_key: Path | None = option("The key of the certificate."),
    tls_self_signed: bool | None = flag(
        "--tls-self-signed", "Make both if there are none, for a first run.", None
    ),
    tls_client_ca: Path | None = option("Who signs the certificates of clients."),
    tls_clientcert: str | None = option(
        "verify-full: beside a password; cert: instead.", metavar="<verify-full|cert>"
    ),
    allow_insecure: bool = flag(
        "--allow-insecure", "Listen elsewhere without TLS or without users."
    ),
    workers: int | None = option("Processes that share the port and the ledger; 1."),
    max_connections: int | None = option("Clients that may be logged in at a time; 100."),
    max_user_connections: int | None = option(
        "Those of one user that may be logged in at a time; all unless given."
    ),
    max_message: int | None = option("MiB of one message; 1."),
    memory: int | None = option("MiB kept for all clients: results, parameters, statements; 512."),
    connection_memory: int | None = option("MiB kept for one connection; 128."),
    startup_timeout: float | None = option("Seconds a client may take to log in; 10."),
    statement_timeout: float | None = option("Seconds a statement may take; 10."),
    idle_timeout: float | None = option("Seconds a client may ask nothing; for ever unless given."),
    send_timeout: float | None = option("Seconds a client may leave its answer unread; 300."),
    catalog: str | None = option(
        "Where the PostgreSQL programs are that answer about the catalogs.", metavar="<FOLDER|off>"
    ),
    log_format: Literal["text", "json"] = option(
        "How the log on standard error is written.", "text"
    ),
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "The least that is logged.", "info"
    ),
    log_statements: bool = flag("--log-statements", "Log the SQL of charges and refusals, too."),
) -> None:
    """Serve the policy's tables to PostgreSQL clients, until Ctrl-C."""
    from tallyveil.cli.serving.serving import ServeOptions
    from tallyveil.cli.serving.serving import serve as work

    given = {name: value for name, value in context.params.items() if name != "policy"}
    own = {name: given.pop(name) for name in _OWN}
    server = {
        name.replace("tls_", "tls."): str(value) if isinstance(value, Path) else value
        for name, value in given.items()
    }
    work(policy, ServeOptions(**own, server=server))
