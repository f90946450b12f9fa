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
    port: int = option("The port to listen on; 0: any free one.", 5432, min=0, max=65535),
    users: Path | None = option(
        "The users' file, see `tallyveil user`; by default next to the policy."
    ),
    tls_certificate: Path | None = option("The server's certificate, with its chain up to the CA."),
    tls_key: Path | None = option("The certificate's key."),
    tls_self_signed: bool | None = flag(
        "--tls-self-signed",
        "Create certificate and key if both are missing, for a first run.",
        None,
    ),
    tls_client_ca: Path | None = option("The CA that signs the clients' certificates."),
    tls_clientcert: str | None = option(
        "verify-full: a client's certificate and a password; cert: a certificate alone.",
        metavar="<verify-full|cert>",
    ),
    allow_insecure: bool = flag(
        "--allow-insecure", "Listen on other addresses without TLS or without users."
    ),
    workers: int | None = option("Processes that share the port and the ledger; default 1."),
    max_connections: int | None = option("The most clients logged in at a time; default 100."),
    max_user_connections: int | None = option(
        "The most clients of one user logged in at a time; by default half of all."
    ),
    max_message: int | None = option("The most MiB of one message; default 1."),
    memory: int | None = option(
        "The most MiB for all clients' results, parameters and statements; default 512."
    ),
    connection_memory: int | None = option("The most MiB for one connection; default 128."),
    startup_timeout: float | None = option("Seconds a client may take to log in; default 10."),
    statement_timeout: float | None = option("Seconds a statement may take; default 10."),
    idle_timeout: float | None = option("Seconds a client may be idle; by default no limit."),
    send_timeout: float | None = option(
        "Seconds a client may leave its answer unread; default 300."
    ),
    catalog: str | None = option(
        "The folder of the PostgreSQL programs that answer questions about the catalogs.",
        metavar="<FOLDER|off>",
    ),
    log_format: Literal["text", "json"] = option("The format of the log.", "text"),
    log_level: Literal["debug", "info", "warning", "error"] = option(
        "The lowest level to log.", "info"
    ),
    log_statements: bool = flag("--log-statements", "Also log the SQL of charges and refusals."),
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
